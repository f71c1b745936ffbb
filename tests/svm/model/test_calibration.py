"""Probabilities from scores, against scikit-learn and against properties that must hold."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import _sigmoid_calibration
from sklearn.isotonic import IsotonicRegression

from svm.errors import InvalidData
from svm.model.calibration import (
    CLOSEST,
    Calibration,
    CalibrationName,
    couple,
    cross_fit,
    fit_calibration,
)
from svm.model.metrics import calibration_metrics
from svm.model.multiclass import MulticlassName, splits_of
from svm.model.serialization import from_arrays, to_arrays
from tests.svm.cases.models import random_model
from tests.svm.cases.strategies import PROPERTY

NAMES: tuple[CalibrationName, ...] = ("sigmoid", "isotonic")


def noisy(n: int, scale: float = 1.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Scores (n, 1) and classes that follow them more or less."""
    random = np.random.default_rng(seed)
    scores = random.normal(size=n)
    codes = (random.uniform(size=n) < 1 / (1 + np.exp(-2 * scores - 0.5))).astype(np.int64)
    codes[:2] = [0, 1]
    return scale * scores[:, None], codes


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("n", [10, 3000])
def test_sigmoid_is_platts(n: int, scale: float) -> None:
    """The parameters that scikit-learn computes, for scores of any scale."""
    scores, codes = noisy(n, scale)
    calibration = fit_calibration("sigmoid", scores, codes, "one-vs-one", 2)
    a, b = _sigmoid_calibration(scores[:, 0] / scale, codes)
    assert calibration.knots[0] == pytest.approx([a / scale, b], rel=1e-3, abs=1e-4)


def test_separable_scores_have_a_finite_sigmoid() -> None:
    """The targets are smoothed: no probability is 0 or 1."""
    scores = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    calibration = fit_calibration("sigmoid", scores, np.array([0, 0, 1, 1]), "one-vs-one", 2)
    p = calibration.probabilities("one-vs-one", scores, 2)
    assert ((p > 0.05) & (p < 0.95)).all()
    assert (np.diff(p[:, 1]) > 0).all()


@pytest.mark.parametrize("decimals", [1, 8])
def test_isotonic_is_the_best_monotone_fit(decimals: int) -> None:
    """The same as scikit-learn's, also with equal scores; constant beyond the outermost scores, and
    no closer to 0 and 1 than the rows prove."""
    scores, codes = noisy(500)
    scores = scores.round(decimals)
    calibration = fit_calibration("isotonic", scores, codes, "one-vs-one", 2)
    peer = IsotonicRegression(out_of_bounds="clip").fit(scores[:, 0], codes)
    some = np.concatenate([scores, np.linspace(-9, 9, 200)[:, None]])
    mine = calibration.probabilities("one-vs-one", some, 2)[:, 1]
    closest = 1 / (len(scores) + 2)
    steps = np.clip(peer.y_thresholds_, closest, 1 - closest)
    best = np.interp(some[:, 0], peer.X_thresholds_, steps)
    np.testing.assert_allclose(mine, best, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_isotonic_probabilities_are_never_certain(n_classes: int) -> None:
    """A few rows on one side are no proof: a wrong one would cost without bound."""
    codes = np.arange(60) % n_classes
    problems = len(splits_of("one-vs-rest", n_classes))
    scores = np.stack([np.where(codes == k, 1.0, -1.0) for k in range(problems)], axis=1)
    if n_classes == 2:
        scores = -scores
    calibration = fit_calibration("isotonic", scores, codes, "one-vs-rest", n_classes)
    assert calibration.values is not None
    assert calibration.values.min() >= 1 / 62
    p = calibration.probabilities("one-vs-rest", scores, n_classes)
    assert (p > 0).all()
    assert (p < 1).all()
    assert (p.argmax(axis=1) == codes).all()


@pytest.mark.parametrize("name", NAMES)
def test_cross_fitted_probabilities_are_as_good_as_those_of_new_rows(name: CalibrationName) -> None:
    """On the rows of the fit itself isotonic steps look much better than they are."""
    scores, codes = noisy(120)
    new_scores, new_codes = noisy(20_000, seed=1)
    calibration = fit_calibration(name, scores, codes, "one-vs-one", 2)

    def log_loss(p: np.ndarray, truth: np.ndarray) -> float:
        return float(calibration_metrics(p, p.argmax(axis=1), truth)["log_loss"])

    true = log_loss(calibration.probabilities("one-vs-one", new_scores, 2), new_codes)
    fitted = log_loss(calibration.probabilities("one-vs-one", scores, 2), codes)
    p = cross_fit(name, scores, codes, "one-vs-one", 2, seed=0)
    assert p is not None
    assert abs(log_loss(p, codes) - true) < 0.1
    if name == "isotonic":
        assert fitted < true - 0.05


def test_a_class_of_one_row_cannot_be_cross_fitted() -> None:
    """Without that row there is nothing to fit."""
    scores, codes = np.array([[-1.0], [-0.5], [1.0]]), np.array([0, 0, 1])
    assert cross_fit("sigmoid", scores, codes, "one-vs-one", 2, seed=0) is None


@PROPERTY
@given(st.lists(st.floats(0.01, 1.0), min_size=3, max_size=7))
def test_coupling_finds_the_probabilities_that_the_pairs_agree_on(weights: list[float]) -> None:
    """If P(j | i or j) = p_j / (p_i + p_j) for all pairs, the result is p."""
    p = np.array(weights) / np.sum(weights)
    k = len(p)
    pairs = [p[j] / (p[i] + p[j]) for i in range(k) for j in range(i + 1, k)]
    np.testing.assert_allclose(couple(np.array([pairs]), k)[0], p, atol=1e-9)


@PROPERTY
@given(st.integers(3, 6), st.integers(0, 1000))
def test_coupling_is_the_minimum(n_classes: int, seed: int) -> None:
    """No other probabilities have a smaller sum of squares."""
    random = np.random.default_rng(seed)
    positive = random.uniform(CLOSEST, 1 - CLOSEST, size=(1, n_classes * (n_classes - 1) // 2))

    def cost(p: np.ndarray) -> float:
        pairs = [(i, j) for i in range(n_classes) for j in range(i + 1, n_classes)]
        return float(
            sum(
                (r * p[i] - (1 - r) * p[j]) ** 2
                for r, (i, j) in zip(positive[0], pairs, strict=True)
            )
        )

    result = couple(positive, n_classes)[0]
    assert result.sum() == pytest.approx(1.0)
    assert (result >= 0).all()
    for _ in range(20):
        assert cost(result) <= cost(random.dirichlet(np.ones(n_classes))) + 1e-12


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("scheme", "n_classes"), [("one-vs-one", 2), ("one-vs-one", 4), ("one-vs-rest", 4)]
)
def test_probabilities_of_a_row_depend_on_it_alone(
    name: CalibrationName, scheme: MulticlassName, n_classes: int
) -> None:
    """To the bit; they sum to 1; and they are the same after `to_arrays` and `from_arrays`."""
    model, rows = random_model(9, n_classes)
    problems = len(splits_of(scheme, n_classes))
    random = np.random.default_rng(1)
    model = replace(
        model,
        multiclass=scheme,
        coefficients=random.normal(size=(problems, 9)),
        intercepts=np.zeros(problems),
    )
    codes = np.arange(len(rows)) % n_classes
    model = model.calibrated(name, model.problem_scores(rows), codes)
    scores = model.problem_scores(rows)
    together = model.probabilities_from_scores(scores)
    assert together.shape == (len(rows), n_classes)
    np.testing.assert_allclose(together.sum(axis=1), 1.0, atol=1e-12)
    alone = np.concatenate([model.probabilities_from_scores(row[None]) for row in scores])
    assert alone.tobytes() == together.tobytes()
    again = from_arrays(to_arrays(model))
    assert again.probabilities_from_scores(scores).tobytes() == together.tobytes()
    content = to_arrays(model)
    with pytest.raises(InvalidData, match="fit together"):
        from_arrays(content | {"calibration_knots": np.zeros((9, 2))})
    with pytest.raises(InvalidData, match="missing or damaged"):
        from_arrays({k: v for k, v in content.items() if k != "calibration_knots"})


def test_probabilities_of_many_classes_take_little_memory() -> None:
    """A few MiB beside the scores; the systems of all rows together would take 300."""
    n_rows, n_classes = 500, 200
    n_pairs = n_classes * (n_classes - 1) // 2
    scores = np.random.default_rng(0).normal(size=(n_rows, n_pairs))
    calibration = Calibration("sigmoid", np.tile([-1.0, 0.0], (n_pairs, 1)))
    tracemalloc.start()
    try:
        together = calibration.probabilities("one-vs-one", scores, n_classes)
        assert tracemalloc.get_traced_memory()[1] < 16 * 1024**2
    finally:
        tracemalloc.stop()
    alone = [calibration.probabilities("one-vs-one", row[None], n_classes) for row in scores[:20]]
    assert np.concatenate(alone).tobytes() == together[:20].tobytes()


def test_extreme_scores_have_probabilities() -> None:
    """Scores of any size: 0 and 1 at the ends, without a warning."""
    scores = np.array([[-1e300], [0.0], [1e300]])
    p = Calibration("sigmoid", np.array([[-2.0, 0.0]])).probabilities("one-vs-one", scores, 2)
    np.testing.assert_array_equal(p, [[1, 0], [0.5, 0.5], [0, 1]])
    pairs = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, 0.0]])
    assert np.isfinite(couple(pairs, 3)).all()


def test_a_class_without_held_out_rows_cannot_be_calibrated() -> None:
    """There is no row to learn from."""
    with pytest.raises(InvalidData) as caught:
        fit_calibration("sigmoid", np.zeros((3, 1)), np.zeros(3, np.int64), "one-vs-one", 2)
    assert caught.value.code == "class-too-small"
