"""Labels that are withheld, since a row may be of no known class."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from svm.data.matrices import Array, Indices, Vector
from svm.errors import InvalidData
from svm.model.conformal import KEPT
from svm.model.multiclass import MulticlassName, certainty
from svm.model.pipeline import FittedPipeline, Pipeline
from svm.model.rejection import Rejection, least_rows
from svm.model.serialization import from_arrays, to_arrays
from svm.solvers import DualCoordinateDescent
from tests.svm.cases.trainings import train

SCHEMES: list[MulticlassName] = ["one-vs-one", "one-vs-rest"]
N_CLASSES, N_FEATURES, SPLITS = 20, 20, 300


def rows_of_clusters(n: int, seed: int, n_classes: int = N_CLASSES) -> tuple[Vector, Indices]:
    """(n, N_FEATURES) rows around centers that are the same for every seed, and their classes."""
    centers = 1.5 * np.random.default_rng(0).normal(size=(n_classes, N_FEATURES))
    random = np.random.default_rng(seed)
    codes = random.integers(0, n_classes, n)
    return centers[codes] + random.normal(size=(n, N_FEATURES)), codes


def trained(X: Vector, labels: Array, scheme: MulticlassName) -> FittedPipeline:
    solver = DualCoordinateDescent(C=1.0)
    pipeline = Pipeline(solver=solver, scaling="standardize", multiclass=scheme)
    return train(pipeline, X, labels).result().fitted


def with_rejection(fitted: FittedPipeline, X: Vector) -> FittedPipeline:
    return fitted.with_rejection(fitted.codes_and_certainty(fitted.problem_scores(X))[1])


@pytest.mark.parametrize("n_classes", [2, N_CLASSES])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_share_withheld_of_new_rows_is_the_stated_one(
    scheme: MulticlassName, n_classes: int
) -> None:
    """The mean over many draws of held-out rows is within three standard errors of k/(n + 1), which
    is never above what was asked; and 19 draws of 20 are inside the interval."""
    fitted = trained(*rows_of_clusters(300, 1, n_classes), scheme)
    X = rows_of_clusters(4_000, 2, n_classes)[0]
    certain = fitted.codes_and_certainty(fitted.problem_scores(X))[1]
    random, shares, inside = np.random.default_rng(3), [], 0
    for _ in range(SPLITS):
        drawn = random.permutation(certain)
        rejection = Rejection.of(drawn[:330])
        shares.append(np.mean(drawn[330:] < rejection.threshold(0.05)))
        low, high = rejection.share_interval(0.05)
        inside += int(low <= shares[-1] <= high)
    stated = rejection.mean_share(0.05)
    assert stated == 16 / 331
    assert abs(np.mean(shares) - stated) < 3.0 * np.std(shares) / np.sqrt(SPLITS)
    assert inside / SPLITS == pytest.approx(0.95, abs=3.0 * np.sqrt(0.05 * 0.95 / SPLITS))


@pytest.mark.parametrize("n", [19, 50, 331])
@pytest.mark.parametrize("steps", [1, 3, 10])
def test_with_ties_no_more_is_withheld(n: int, steps: int) -> None:
    draws = np.random.default_rng(n).normal(size=(SPLITS, n + 1000))
    draws = np.round(draws * steps) / steps
    shares = [np.mean(d[n:] < Rejection.of(d[:n]).threshold(0.05)) for d in draws]
    assert np.mean(shares) <= 0.05


@pytest.mark.parametrize("scheme", SCHEMES)
def test_rows_of_classes_left_out_are_withheld(scheme: MulticlassName) -> None:
    """Half of the classes, at a price of 5 %."""
    (X, codes), (held_out, known) = rows_of_clusters(800, 1), rows_of_clusters(400, 2)
    kept = N_CLASSES // 2
    fitted = trained(X[codes < kept], codes[codes < kept], scheme)
    fitted = with_rejection(fitted, held_out[known < kept])
    new, truth = rows_of_clusters(4000, 3)
    is_none = np.array([label is None for label in fitted.labels_or_none(new)])
    assert is_none[truth < kept].mean() == pytest.approx(0.05, abs=0.04)
    recall = is_none[truth >= kept].mean()
    assert recall >= 0.4
    answered = fitted.labels_or_none(new)[~is_none]
    assert (answered == fitted.predict(new)[~is_none]).all()
    # A row alone has the bits that it has among others.
    alone = [fitted.labels_or_none(new[k : k + 1])[0] for k in range(40)]
    assert alone == fitted.labels_or_none(new)[:40].tolist()


def test_certainty_is_the_smallest_score_over_the_pairs_of_the_label() -> None:
    scores = np.random.default_rng(0).normal(size=(200, 10))
    codes = np.random.default_rng(1).integers(0, 5, 200)
    expected = np.full(200, np.inf)
    for k, (i, j) in enumerate(combinations(range(5), 2)):
        for side, sign in ((i, -1.0), (j, 1.0)):
            rows = codes == side
            expected[rows] = np.minimum(expected[rows], sign * scores[rows, k])
    assert (certainty("one-vs-one", scores, codes, 5) == expected).all()
    assert (certainty("one-vs-one", scores, codes % 2, 2) == np.abs(scores[:, 0])).all()
    one_each = certainty("one-vs-rest", scores, codes, 10)
    assert (one_each == scores[np.arange(200), codes]).all()


def test_threshold_is_the_exact_rank_and_itself_answered() -> None:
    """0.29 · 100 is 28.999999999999996 in floating point."""
    rejection = Rejection.of(np.arange(99.0)[::-1])
    assert [rejection.rank(share) for share in (0.01, 0.05, 0.29, 0.999)] == [1, 5, 29, 99]
    assert rejection.threshold(0.05) == 4.0
    assert rejection.thresholds([0.001, 0.05]) == [(0.05, 4.0)]
    low, high = rejection.share_interval(0.05)
    assert stats.beta.cdf([low, high], 5, 95) == pytest.approx([0.025, 0.975])


@pytest.mark.parametrize(
    ("n", "withheld", "needed"), [(18, 0.05, 19), (0, 0.5, 1), (98, 0.01, 99), (6, 0.14, 7)]
)
def test_too_few_rows_are_refused_with_the_number_needed(
    n: int, withheld: float, needed: int
) -> None:
    assert least_rows(withheld) == needed
    assert Rejection.of(np.arange(float(needed))).rank(withheld) == 1
    with pytest.raises(InvalidData, match=f"needs {needed} rows or more .* this one has {n}$"):
        Rejection.of(np.arange(float(n))).threshold(withheld)


@pytest.mark.parametrize("n", [KEPT, KEPT + 1, 12_345, 100_000])
def test_thinned_certainties_never_withhold_more(n: int) -> None:
    """And hardly less: by at most one of those that are kept."""
    thinned, kept = Rejection.of(np.arange(1.0, n + 1)), min(n, KEPT)
    assert len(thinned.decisions) == kept
    for share in (0.0001, 0.01, 0.05, 0.1, 0.5, 0.9):
        exact = int(np.floor(share * (n + 1) + 1e-6))
        assert 0 <= exact - thinned.threshold(share) <= (n + 1) / (kept + 1) + 1


def test_model_keeps_its_certainties() -> None:
    X, codes = rows_of_clusters(300, 1, 3)
    fitted = trained(X[:200], codes[:200], "one-vs-one")
    fitted = with_rejection(fitted, X[200:])
    again = from_arrays(to_arrays(fitted))
    assert (again.labels_or_none(X, 0.1) == fitted.labels_or_none(X, 0.1)).all()
    for unsound in ([2.0, 1.0], [np.nan, 1.0], [1.0, np.inf]):
        with pytest.raises(InvalidData, match="do not fit together"):
            from_arrays(to_arrays(fitted) | {"rejection_decisions": np.array(unsound)})
