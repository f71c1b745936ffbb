"""What predictions are worth: of numbers, with intervals, beside a baseline; in pieces."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from sklearn import metrics as peer

from svm.data.matrices import Array, Vector
from svm.model.measures import (
    ERROR_BYTES,
    Baseline,
    Confusion,
    Errors,
    Groups,
    GroupSums,
    difference_of_groups,
    interval,
    mean_difference,
    share_difference,
)
from svm.model.target import Target

NAMES = ("mae", "rmse", "r2", "median_absolute_error", "share_inside_epsilon")


def target_of(epsilon: float) -> Target:
    return Target(center=0.0, scale=1.0, epsilon=epsilon)


def errors(n: int, seed: int = 0, scale: float = 1.0, weights: Vector | None = None) -> Errors:
    """Numbers 3 ± 1 of which half of the spread is predicted, and skewed errors."""
    random = np.random.default_rng(seed)
    predicted = 3.0 + random.normal(size=n)
    actual = predicted + random.exponential(size=n) - 1.0
    baseline = Baseline.of(scale * actual)
    return Errors(scale * actual, scale * predicted, target_of(0.5 * scale), baseline, weights)


@pytest.mark.parametrize("n", [2, 11, 400])
def test_metrics_equal_scikit_learns(n: int) -> None:
    """Without weights and with them."""
    some = errors(n, weights=np.random.default_rng(n).integers(0, 4, n) + (np.arange(n) == 1.0))
    measured = some.metrics()
    for weights, found in ((None, measured), (some.weights, measured["weighted"])):
        pair: Any = some.actual, some.predicted
        inside = np.abs(some.actual - some.predicted) <= 0.5
        wanted = {
            "mae": peer.mean_absolute_error(*pair, sample_weight=weights),
            "rmse": peer.root_mean_squared_error(*pair, sample_weight=weights),
            "r2": peer.r2_score(*pair, sample_weight=weights),
            "share_inside_epsilon": np.average(inside, weights=weights),
        }
        assert {name: found[name] for name in wanted} == pytest.approx(wanted)
    assert measured["median_absolute_error"] == peer.median_absolute_error(*pair)
    assert measured["n_samples"] == n


def test_whole_weights_count_as_repeated_rows() -> None:
    """Also of the median, of which two rows may be the middle."""
    times = np.array([1, 0, 3, 2, 2, 4])
    some = errors(6, weights=times.astype(np.float64))
    repeated = errors(6)
    repeated = Errors(
        repeated.actual.repeat(times), repeated.predicted.repeat(times), target_of(0.5), None
    )
    weighted, whole = some.metrics()["weighted"], repeated.metrics()
    assert [weighted[name] for name in NAMES] == pytest.approx([whole[name] for name in NAMES])


@pytest.mark.parametrize("n", [40, 300])
@pytest.mark.parametrize("weighted", [False, True])
def test_intervals_contain_the_true_values_as_often_as_they_say(n: int, weighted: bool) -> None:
    """Of 400 samples about 95 %; those of the squares of few, skewed errors less."""
    true = errors(400_000, seed=1).metrics()
    counts = dict.fromkeys(NAMES, 0)
    for seed in range(400):
        weights = np.random.default_rng(seed).uniform(0.2, 1.0, n) if weighted else None
        measured = errors(n, seed, weights=weights).metrics()
        intervals = measured["weighted" if weighted else "intervals"]
        intervals = intervals["intervals"] if weighted else intervals
        for name in NAMES:
            low, high = intervals[name]
            counts[name] += low <= true[name] <= high
    assert min(counts.values()) > (320 if n == 40 else 358), counts
    assert max(counts.values()) < 399, counts


def test_baseline_predicts_the_training_median_and_mean() -> None:
    training = np.array([0.0, 1.0, 8.0])
    actual, predicted = np.array([1.0, 2.0, 6.0]), np.array([1.0, 2.0, 5.0])
    some = Errors(actual, predicted, target_of(0.5), Baseline.of(training))
    baseline = some.metrics()["baseline"]
    assert baseline == {
        "median": 1.0,
        "mean": 3.0,
        "mae": pytest.approx(2.0),
        "rmse": pytest.approx(np.sqrt(14.0 / 3.0)),
        "r2": pytest.approx(0.0),
        "median_absolute_error": 1.0,
        "share_inside_epsilon": pytest.approx(1 / 3),
    }


@pytest.mark.parametrize("scale", [1e-100, 1e-6, 1e6, 1e100])
def test_metrics_have_the_unit_of_the_target(scale: float) -> None:
    """And no overflow on the way, not even if the training rows had another one."""
    own, other = errors(50).metrics(), errors(50, scale=scale).metrics()
    assert np.isfinite(
        replace(errors(50), baseline=Baseline(scale, scale)).metrics()["baseline"]["r2"]
    )
    for name in NAMES:
        unit = 1.0 if name in ("r2", "share_inside_epsilon") else scale
        assert other[name] == pytest.approx(unit * own[name])
        wanted = [unit * end for end in own["intervals"][name]]
        assert other["intervals"][name] == pytest.approx(wanted)


def test_epsilon_of_a_model_of_logarithms_is_a_factor() -> None:
    """A number that is not positive has no logarithm, and is outside."""
    actual, predicted = np.array([1.0, 10.0, 3.0, -1.0]), np.array([1.2, 12.0, 1.0, 1.0])
    some = Errors(actual, predicted, replace(target_of(0.2), logarithm=True), None)
    assert some.metrics()["share_inside_epsilon"] == 0.5
    assert some.metrics()["mae"] == pytest.approx(1.55)


def test_equal_numbers_and_single_rows_have_fewer_measures() -> None:
    same = Errors(np.full(4, 2.0), np.full(4, 2.0), target_of(0.0), None).metrics()
    assert (same["rmse"], same["r2"], same["share_inside_epsilon"]) == (0.0, None, 1.0)
    assert same["intervals"]["rmse"] == [0.0, 0.0]
    single = Errors(np.full(1, 2.0), np.full(1, 3.0), target_of(0.0), None, np.zeros(1)).metrics()
    assert (single["mae"], single["rmse"], single["r2"]) == (1.0, 1.0, None)
    assert {single["intervals"][name] for name in NAMES[:-1]} == {None}
    assert "weighted" not in single  # all weights are 0


def test_confusion_of_pieces_is_that_of_all_rows() -> None:
    true, predicted = np.random.default_rng(0).integers(0, 3, (2, 90))
    all_rows = Confusion.of(true, predicted, 3, np.arange(90.0))
    halves = [
        Confusion.of(true[some], predicted[some], 3, np.arange(90.0)[some])
        for some in (slice(0, 45), slice(45, 90))
    ]
    assert Confusion.total(halves).metrics() == all_rows.metrics()
    assert all_rows.n_samples == 90


def test_measures_take_the_memory_that_is_planned() -> None:
    """Also of copies, most of which are single rows."""
    random = np.random.default_rng(0)
    groups = Groups.of(random.integers(0, 200_000, 200_000), of_equal_rows=True)
    some = replace(errors(200_000, weights=np.ones(200_000)), groups=groups)
    some.metrics()  # imports
    tracemalloc.start()
    some.metrics()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    held = some.actual.nbytes + some.predicted.nbytes + groups.numbers.nbytes
    assert peak + held < ERROR_BYTES * 200_000


def test_models_are_compared_row_by_row() -> None:
    """The difference of two similar models is known much better than the error of either."""
    one = errors(200)
    other = Errors(one.actual, one.predicted + 0.1, target_of(0.5), None)
    larger, ends = mean_difference(other.absolute, one.absolute)
    assert larger == pytest.approx(other.metrics()["mae"] - one.metrics()["mae"])
    assert ends is not None
    low, high = one.metrics()["intervals"]["mae"]
    assert ends[1] - ends[0] < 0.2 * (high - low)
    assert mean_difference(one.absolute, one.absolute) == (0.0, [0.0, 0.0])


def test_shares_of_wrong_rows_are_compared_row_by_row() -> None:
    """As often as 95 % say, also if few rows tell two models apart; McNemar's exact test, with
    half of the probability of what was seen, agrees."""
    random = np.random.default_rng(0)
    for n, alone in ((40, (0.1, 0.1)), (500, (0.02, 0.01)), (500, (0.2, 0.1))):
        counts = random.multinomial(n, [*alone, 1.0 - sum(alone)], size=4000)
        ends = np.array([share_difference(more, fewer, n)[1] for more, fewer, _ in counts])
        inside = (ends[:, 0] <= alone[0] - alone[1]) & (ends[:, 1] >= alone[0] - alone[1])
        assert 0.94 < inside.mean() < 0.98
    for more in range(1, 30):
        for fewer in range(more):
            p = binom.cdf(fewer, more + fewer, 0.5) - 0.5 * binom.pmf(fewer, more + fewer, 0.5)
            tie = share_difference(more, fewer, 200)[1][0] <= 0.0
            assert tie == (2.0 * p > 0.05) or 0.02 < 2.0 * p < 0.08
    assert share_difference(0, 0, 10)[0] == 0.0


@pytest.mark.parametrize("shares", [True, False], ids=["classes", "numbers"])
@pytest.mark.parametrize("n_groups", [9, 30, 200])
def test_differences_of_groups_are_chance_under_the_null(shares: bool, n_groups: int) -> None:
    """If all rows of a group say the same, as often as 95 % say; a real difference is known."""
    random = np.random.default_rng(n_groups)
    claims = found = 0
    for _ in range(400):
        groups = np.repeat(np.arange(n_groups), random.integers(20, 60, n_groups))
        if shares:
            by_group = random.choice([-1.0, 0.0, 1.0], n_groups, p=[0.2, 0.6, 0.2])
        else:
            by_group = random.normal(size=n_groups)
        ends = difference_of_groups(by_group[groups], groups, of_shares=shares)[1]
        assert ends is not None
        claims += not ends[0] <= 0.0 <= ends[1]
        better = (0.3 * by_group + 0.5)[groups]
        mean, ends = difference_of_groups(better, groups, of_shares=shares)
        assert ends is not None
        found += ends[0] > 0.0
        assert ends[0] < mean < ends[1]
    assert claims < 0.07 * 400
    assert found > 0.9 * 400


GROUP_SIZES = {"small": (5, 0.0), "large": (200, 0.0), "uneven": (30, 1.0)}
"""The rows of a group: the median, and the deviation of the logarithm."""


@pytest.mark.spread(2)
@pytest.mark.parametrize("correlation", [0.1, 0.3, 0.8])
@pytest.mark.parametrize("sizes", GROUP_SIZES)
def test_intervals_of_shares_hold_if_rows_of_a_group_are_alike(
    sizes: str, correlation: float
) -> None:
    """Groups whose shares of right rows are from a Beta distribution: in 93 % of 2,000 samples, or
    more, less two standard errors. Those of independent rows are far too narrow."""
    size, spread = GROUP_SIZES[sizes]
    both = 1.0 / correlation - 1.0
    by_rows: list[float] = []
    by_groups: list[float] = []
    for n_groups in (8, 40, 200):
        for share in (0.6, 0.9, 0.99):
            random = np.random.default_rng(n_groups)
            shape = 2000, n_groups
            m = np.ceil(random.lognormal(np.log(size), spread, shape) - 1e-9)
            w = random.binomial(m.astype(int), random.beta(both * (1 - share), both * share, shape))
            each = np.stack([np.ones(shape), m, w, m * m, m * w, w * w]).sum(axis=2).T
            accuracy, n = 1.0 - each[:, 2] / each[:, 1], each[:, 1]
            effective = [GroupSums(one).effective(one[1]) for one in each]
            for counts, found in ((n, by_rows), (effective, by_groups)):
                ends = np.array([interval(*one) for one in zip(accuracy, counts, strict=True)])
                found.append(float(np.mean((ends[:, 0] <= share) & (share <= ends[:, 1]))))
    assert min(by_groups) > 0.92, by_groups
    assert np.mean(by_groups) < 0.995
    assert np.mean(by_rows) < (0.92 if size == 5 and correlation < 0.2 else 0.85), by_rows


FEW_LARGE = {
    "few single rows": (16, 300, 134, 0.95, 0.8),
    "half single rows": (20, 300, 3600, 0.95, 0.8),
    "small": (12, 40, 200, 0.9, 0.9),
    "many large": (40, 100, 2400, 0.95, 0.8),
    "middling": (20, 100, 80, 0.9, 0.8),
    "less alike": (10, 100, 300, 0.95, 0.5),
}
"""Groups of many rows, their rows, single rows, the accuracy, the correlation in groups."""


@pytest.mark.parametrize("case", FEW_LARGE)
def test_wrong_single_rows_say_little_of_large_groups(case: str) -> None:
    """Intervals still hold in 93 % of 1,000 samples, or more, less two standard errors."""
    n_large, size, n_single, share, correlation = FEW_LARGE[case]
    both = 1.0 / correlation - 1.0
    random = np.random.default_rng(0)
    m = np.repeat([size, 1], [n_large, n_single])
    n, inside = float(m.sum()), 0
    for _ in range(1000):
        w = random.binomial(m, random.beta(both * (1 - share), both * share, len(m)))
        sums = GroupSums(np.array([len(m), n, w.sum(), m @ m, m @ w, w @ w], float))
        low, high = interval(1.0 - w.sum() / n, sums.effective(n))
        inside += low <= share <= high
    assert 915 <= inside < 1000


def test_independent_rows_in_groups_have_intervals_that_are_not_much_wider() -> None:
    random = np.random.default_rng(0)
    for n_groups, most in ((20, 2.2), (200, 1.3)):
        groups = np.repeat(np.arange(n_groups), 30)
        wrong = random.random(len(groups)) < 0.1
        effective = GroupSums.of(Groups.of(groups), wrong).effective(len(wrong))
        low, high = interval(0.9, effective)
        narrow = interval(0.9, len(wrong))
        assert 1.0 < (high - low) / (narrow[1] - narrow[0]) < most


def test_groups_that_are_all_right_count_as_one_row_each() -> None:
    """No group says how alike the rows of a wrong one are. Groups of one row are rows, but for
    Student's quantile; rows of one group say nothing."""
    groups = np.repeat(np.arange(40), 50)
    right = GroupSums.of(Groups.of(groups), np.zeros(2000)).effective(2000)
    assert 0.9 * 40 < right < 40
    assert GroupSums.of(Groups.of(groups), np.ones(2000)).effective(2000) == pytest.approx(right)
    single = GroupSums.of(Groups.of(np.arange(400)), np.arange(400) % 7 == 0).effective(400)
    assert 0.98 * 400 < single < 400
    assert GroupSums.of(Groups.of(np.zeros(50)), np.arange(50) % 2).effective(50) == 0.0
    assert interval(0.5, 0.0) == (0.0, 1.0)


@pytest.mark.parametrize("weight", [0.0, 1e-200, 1e160], ids=["none", "tiny", "huge"])
def test_weights_of_which_no_square_is_a_number_say_nothing(weight: float) -> None:
    groups, wrong = Groups.of(np.arange(8) // 2), np.arange(8) == 0
    with np.errstate(over="ignore"):
        sums = GroupSums.of(groups, wrong, np.full(8, weight))
    assert sums.effective(8) == 0.0


def test_equal_rows_in_groups_are_as_one_row() -> None:
    """Of classes and of numbers: a file that has each row four times says no more."""
    one = errors(100)
    groups = Groups.of(np.tile(np.arange(100), 4), of_equal_rows=True)
    four = Errors(
        np.tile(one.actual, 4), np.tile(one.predicted, 4), one.target, one.baseline, groups=groups
    ).metrics()
    own = one.metrics()
    assert four["n_distinct"] == 100
    for name in NAMES:
        wanted, found = own["intervals"][name], four["intervals"][name]
        tolerance = 1e-9 if name in ("mae", "rmse", "r2") else 0.1
        assert found == pytest.approx(wanted, rel=tolerance)
    alone = Errors(
        one.actual, one.predicted, one.target, one.baseline, groups=Groups.of(np.zeros(100))
    )
    assert alone.metrics()["intervals"] == dict.fromkeys(NAMES) | {
        "share_inside_epsilon": [0.0, 1.0]
    }


@pytest.mark.parametrize("n_groups", [12, 60])
def test_intervals_of_errors_hold_if_errors_of_a_group_are_alike(n_groups: int) -> None:
    """Of 300 samples; the mean of squares of few groups less, as that of few rows."""
    random = np.random.default_rng(n_groups)
    counts = dict.fromkeys(NAMES, 0)
    narrow = 0

    def sample(count: int) -> tuple[Errors, Array]:
        groups = np.repeat(np.arange(count), 20)
        predicted = random.normal(size=20 * count)
        error = random.normal(size=count)[groups] + 0.3 * random.normal(size=20 * count)
        return Errors(predicted + error, predicted, target_of(0.5), None), groups

    true = sample(20_000)[0].metrics()
    for _ in range(300):
        some, groups = sample(n_groups)
        intervals = replace(some, groups=Groups.of(groups)).metrics()["intervals"]
        for name in NAMES:
            counts[name] += intervals[name][0] <= true[name] <= intervals[name][1]
        low, high = some.metrics()["intervals"]["mae"]
        narrow += low <= true["mae"] <= high
    assert min(counts.values()) > (260 if n_groups == 12 else 276), counts
    assert narrow < 200


def test_sums_of_groups_are_those_of_folds_together() -> None:
    """Also through JSON; equal rows may be in several folds, which then say nothing of them."""
    random = np.random.default_rng(0)
    true, predicted = random.integers(0, 3, (2, 90))
    groups = np.repeat(np.arange(30), 3)
    for equal, wanted in ((False, 30), (True, None)):

        def of(some: slice, equal: bool = equal) -> Confusion:
            groups_of = Groups.of(groups[some], of_equal_rows=equal)
            return Confusion.of(true[some], predicted[some], 3, None, groups_of)

        parts = [of(some).metrics() for some in (slice(0, 45), slice(45, 90))]
        total = Confusion.total([Confusion.of_metrics(one) for one in parts]).metrics()
        assert total.get("n_groups") == wanted
        if wanted:
            assert total == of(slice(None)).metrics()
        else:
            assert parts[0]["n_distinct"] == 15
            assert "n_effective" not in total


def test_groups_of_one_row_are_counted_in_a_fold_that_has_no_others() -> None:
    """Such a part records no sums; through JSON, too."""
    groups = np.append(np.zeros(50), np.arange(1, 51))
    predicted = (np.arange(100) >= 95).astype(int)
    true = np.zeros(100, int)
    whole = Confusion.of(true, predicted, 2, None, Groups.of(groups)).metrics()
    large = Confusion.of(true[:50], predicted[:50], 2, None, Groups.of(groups[:50]))
    single = Confusion.of(true[50:], predicted[50:], 2)
    for parts in ([large, single], [single, large]):
        again = [Confusion.of_metrics(one.metrics()) for one in parts]
        assert Confusion.total(again).metrics() == whole
    assert "n_groups" not in Confusion.total([single, single]).metrics()


def test_differences_of_few_groups_are_not_known() -> None:
    """Nor those of one large group among small ones."""
    few, uneven = np.repeat(np.arange(7), 100), np.repeat(np.arange(30), [1000] + [1] * 29)
    for groups in (few, uneven):
        assert difference_of_groups(np.ones(len(groups)), groups, of_shares=False) == (1.0, None)


def test_groups_of_which_all_agree_are_beyond_chance_from_six() -> None:
    """As by the test of signs: 2 * 0.5**6 < 0.05 < 2 * 0.5**5."""
    for n_groups in (20, 100, 1000):
        for n_worse in (5, 6):
            groups = np.arange(n_groups)
            ends = difference_of_groups(
                np.where(groups < n_worse, 1.0, 0.0), groups, of_shares=True
            )[1]
            assert ends is not None
            assert (ends[0] > 0.0) == (n_worse == 6)
