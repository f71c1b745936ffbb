"""Prediction intervals from the errors on rows that a model did not see."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from svm.data.matrices import Vector
from svm.errors import InvalidData
from svm.model.conformal import KEPT, Conformal, least_rows
from svm.model.pipeline import Pipeline
from svm.model.serialization import from_arrays, to_arrays
from svm.model.target import TargetScale
from svm.solvers import Newton
from svm.training.training import Training

COVERAGES = {9: 0.9, 19: 0.95, 99: 0.9, 999: 0.9}
SPLITS, NEW_ROWS = 500, 400


def shares_inside(draw: Vector, n: int, coverage: float) -> Vector:
    """For each row of `draw`, (splits, n + new rows) of values around a prediction of 0.3: the
    share of new rows inside of the interval from the first n."""
    shares = []
    for values in draw:
        conformal = Conformal.of(np.abs(values[:n] - 0.3))
        low, high = conformal.intervals(np.full(1, 0.3), coverage)[0]
        shares.append(np.mean((low <= values[n:]) & (values[n:] <= high)))
    return np.array(shares)


@pytest.mark.parametrize("n", COVERAGES)
def test_mean_coverage_is_the_one_that_is_stated(n: int) -> None:
    """Within three standard errors over 500 splits; and one split in twenty, not more, covers less
    than the 5 % point."""
    random = np.random.default_rng(n)
    # Exact shares: those of the normal distribution that the errors are drawn from.
    residuals = np.abs(random.standard_normal((SPLITS, n)))
    conformal = [Conformal.of(one) for one in residuals]
    halves = [one.half_width(COVERAGES[n]) for one in conformal]
    shares = np.asarray(2.0 * stats.norm.cdf(halves) - 1.0)
    stated = conformal[0].mean_share(COVERAGES[n])
    assert stated >= COVERAGES[n]
    assert abs(shares.mean() - stated) < 3.0 * shares.std() / np.sqrt(SPLITS)
    below = np.mean(shares < conformal[0].least_share(COVERAGES[n]))
    assert abs(below - 0.05) < 3.0 * np.sqrt(0.05 * 0.95 / SPLITS)


@pytest.mark.parametrize("n", COVERAGES)
@pytest.mark.parametrize("steps", [2, 5, 10])
def test_mean_coverage_with_ties_is_not_below_the_stated_one(n: int, steps: int) -> None:
    random = np.random.default_rng(steps)
    draw = np.round(steps * random.standard_normal((SPLITS, n + NEW_ROWS))) / steps
    shares = shares_inside(draw, n, COVERAGES[n])
    assert shares.mean() >= Conformal(np.zeros(n)).mean_share(COVERAGES[n])


def test_row_at_the_end_of_its_interval_is_inside() -> None:
    """Although 1.0 - 0.3 - 0.7 is not 0 in floating point."""
    random = np.random.default_rng(0)
    for value, actual in random.normal(size=(300, 2)).round(2):
        conformal = Conformal.of(np.full(9, abs(actual - value)))
        low, high = conformal.intervals(np.array([value]), 0.9)[0]
        assert low <= actual <= high


def test_rank_is_exact() -> None:
    """0.07 · 100 is 7.000000000000001 in floating point."""
    conformal = Conformal.of(np.arange(99.0))
    assert [conformal.rank(c) for c in (0.07, 0.29, 0.9, 0.95, 0.99)] == [7, 29, 90, 95, 99]
    assert conformal.half_width(0.9) == 89.0
    assert Conformal.of(np.arange(19.0)).least_share(0.95) == pytest.approx(0.05 ** (1 / 19))


@pytest.mark.parametrize(("n", "coverage", "needed"), [(8, 0.9, 9), (0, 0.5, 1), (998, 0.999, 999)])
def test_too_few_errors_are_refused_with_the_number_needed(
    n: int, coverage: float, needed: int
) -> None:
    assert least_rows(coverage) == needed
    assert Conformal.of(np.arange(float(needed))).rank(coverage) == needed
    with pytest.raises(
        InvalidData, match=f"needs the errors of {needed} rows or more .* this one has {n}$"
    ):
        Conformal.of(np.arange(float(n))).half_width(coverage)


@pytest.mark.parametrize("scale", ["linear", "logarithmic"])
def test_model_keeps_its_intervals(scale: TargetScale) -> None:
    """Rows that it did not see are inside as often as was asked; the ends of a model of logarithms
    are positive."""
    random = np.random.default_rng(0)
    X = random.normal(size=(700, 3))
    y = np.exp(X[:, 0] + 0.3 * random.normal(size=700))
    pipeline = Pipeline(solver=Newton(loss="epsilon-insensitive"), target_scale=scale)
    training = Training(pipeline, X[:100], y[:100], seed=0)
    for _ in training:
        pass
    fitted = training.result().fitted
    fitted = fitted.with_intervals(y[100:199], fitted.predict(X[100:199]))
    again = from_arrays(to_arrays(fitted))
    low, high = again.intervals_from_scores(again.problem_scores(X), 0.9).T
    assert np.all(low < again.predict(X))
    inside = (low <= y) & (y <= high)
    assert inside[100:199].sum() == 90
    assert inside[199:].mean() == pytest.approx(0.9, abs=0.08)
    assert (low.min() > 0.0) == (scale == "logarithmic")
    unsound = to_arrays(fitted) | {"conformal_residuals": np.array([2.0, 1.0])}
    with pytest.raises(InvalidData, match="do not fit together"):
        from_arrays(unsound)


def test_numbers_without_a_logarithm_are_outside_of_all_intervals() -> None:
    """So that a coverage that includes them is refused."""
    conformal = Conformal.of(np.array([1.0, np.inf, 2.0, 3.0]))
    assert conformal.half_width(0.6) == 3.0
    assert conformal.is_sound
    with pytest.raises(InvalidData, match=r"of 4 rows or more .* this one has 3$"):
        conformal.half_width(0.8)


@pytest.mark.parametrize("n", [KEPT, KEPT + 1, 12_345, 100_000])
def test_thinned_errors_never_give_a_narrower_interval(n: int) -> None:
    """And hardly a wider one: by at most one of the kept errors."""
    thinned, kept = Conformal.of(np.arange(1.0, n + 1)), min(n, KEPT)
    assert len(thinned.residuals) == kept
    for coverage in (0.0001, 0.1, 0.5, 0.9, 0.95, 0.999, 0.9999):
        exact = int(np.ceil(coverage * (n + 1) - 1e-6))
        assert 0 <= thinned.half_width(coverage) - exact <= (n + 1) / (kept + 1) + 1
