"""Classification metrics."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn import metrics as peer

from svm.model.metrics import (
    HISTOGRAM_BINS,
    calibration_metrics,
    classification_metrics,
    confusion_matrix,
    histogram_by_class,
    margins,
    one_vs_one_area,
    roc_curve,
)
from tests.svm.cases.strategies import PROPERTY

codes = arrays(np.int64, 12, elements=st.integers(0, 3))
sides = arrays(np.bool_, 12)
tied_scores = arrays(np.float64, 12, elements=st.integers(-3, 3).map(float))


@PROPERTY
@given(true=codes, predicted=codes)
def test_metrics_equal_scikit_learns(
    true: npt.NDArray[np.int64], predicted: npt.NDArray[np.int64]
) -> None:
    """Confusion matrix with true classes in rows; precision, recall, F1 and support of every class,
    including absent ones."""
    metrics = classification_metrics(confusion_matrix(true, predicted, 4))
    labels = [0, 1, 2, 3]
    assert (
        metrics["confusion_matrix"]
        == peer.confusion_matrix(true, predicted, labels=labels).tolist()
    )
    assert metrics["accuracy"] == pytest.approx(float((true == predicted).mean()))
    f1 = peer.f1_score(true, predicted, average="macro", zero_division=0.0)
    assert metrics["macro_f1"] == pytest.approx(f1)
    with warnings.catch_warnings(action="ignore"):  # of classes that only the prediction has
        balanced = peer.balanced_accuracy_score(true, predicted)
    assert metrics["balanced_accuracy"] == pytest.approx(balanced)
    expected = peer.precision_recall_fscore_support(
        true, predicted, labels=labels, zero_division=0.0
    )
    for k, each in enumerate(metrics["per_class"]):
        ratios = [each["precision"], each["recall"], each["f1"]]
        assert ratios == pytest.approx([part[k] for part in expected[:3]])
        assert each["support"] == expected[3][k]


def test_values_are_plain_numbers() -> None:
    """For JSON: Python's own integers and floats."""
    metrics = classification_metrics(confusion_matrix(np.array([0, 1, 1]), np.array([0, 1, 0]), 2))
    assert metrics == {
        "accuracy": 2 / 3,
        "balanced_accuracy": 0.75,
        "macro_f1": pytest.approx(2 / 3),
        "confusion_matrix": [[1, 0], [1, 1]],
        "per_class": [
            {"precision": 0.5, "recall": 1.0, "f1": pytest.approx(2 / 3), "support": 1},
            {"precision": 1.0, "recall": 0.5, "f1": pytest.approx(2 / 3), "support": 2},
        ],
    }
    assert type(metrics["accuracy"]) is float
    assert (
        type(metrics["confusion_matrix"][0][0]) is type(metrics["per_class"][0]["support"]) is int
    )


def test_narrow_codes_do_not_overflow() -> None:
    """100 classes in 8-bit codes: the cells of the confusion matrix are counted in 64 bits."""
    true = np.arange(100, dtype=np.int8)
    metrics = classification_metrics(confusion_matrix(true, true, 100))
    assert metrics["confusion_matrix"] == np.eye(100, dtype=int).tolist()


def test_no_rows() -> None:
    """0 everywhere, without a division by zero."""
    nothing = np.empty(0, dtype=np.int64)
    metrics = classification_metrics(confusion_matrix(nothing, nothing, 2))
    assert metrics["accuracy"] == 0.0
    assert metrics["confusion_matrix"] == [[0, 0], [0, 0]]


def test_metrics_of_probabilities() -> None:
    """Computed by hand: rows whose label is not the most likely class, and the calibration
    error."""
    p = np.array([[0.9, 0.1], [0.8, 0.2], [0.45, 0.55], [0.3, 0.7]])
    metrics = calibration_metrics(p, np.array([0, 0, 0, 1]), np.array([0, 1, 1, 1]))
    assert metrics["disagreement"] == 0.25
    # One row a bin: |0.9 - 1|, |0.8 - 0|, |0.55 - 1|, |0.7 - 1|.
    assert metrics["expected_calibration_error"] == pytest.approx((0.1 + 0.8 + 0.45 + 0.3) / 4)


@PROPERTY
@given(positive=sides, scores=tied_scores)
def test_roc_curve_equals_scikit_learns(
    positive: npt.NDArray[np.bool_], scores: npt.NDArray[np.float64]
) -> None:
    """Its points and its area, with ties; None if a side has no rows."""
    curve = roc_curve(positive, scores)
    if positive.all() or not positive.any():
        assert curve is None
        return
    assert curve is not None
    false, true, thresholds = peer.roc_curve(positive, scores, drop_intermediate=False)
    kept = np.isin(thresholds, curve.thresholds)
    assert curve.thresholds.tolist() == thresholds[kept].tolist()
    assert curve.false_positive_rate.tolist() == pytest.approx(false[kept].tolist())
    assert curve.true_positive_rate.tolist() == pytest.approx(true[kept].tolist())
    assert curve.area == pytest.approx(peer.roc_auc_score(positive, scores))


def test_thinned_curve_runs_along_the_whole_one() -> None:
    """A bounded number of its points, with both ends; a short curve is unchanged."""
    random = np.random.default_rng(0)
    positive = random.random(20_000) < 0.3
    whole = roc_curve(positive, random.normal(size=20_000) + positive)
    assert whole is not None
    thin = whole.thinned(101)
    assert len(thin.thresholds) <= 101
    assert thin.area == whole.area
    ends = thin.false_positive_rate[[0, -1]].tolist(), thin.true_positive_rate[[0, -1]].tolist()
    assert ends == ([0.0, 1.0], [0.0, 1.0])
    between = np.interp(
        whole.false_positive_rate, thin.false_positive_rate, thin.true_positive_rate
    )
    assert np.abs(between - whole.true_positive_rate).max() < 0.02
    again = thin.thinned(101)
    assert len(again.thresholds) <= len(thin.thresholds)


def test_perfect_scores_make_three_points() -> None:
    """Only the ends of a straight segment are kept."""
    curve = roc_curve(np.arange(1000) >= 500, np.arange(1000.0))
    assert curve is not None
    assert (curve.area, curve.true_positive_rate.tolist()) == (1.0, [0.0, 1.0, 1.0])
    assert curve.false_positive_rate.tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_one_vs_one_area_equals_scikit_learns(n_classes: int) -> None:
    """Over all pairs of classes; classes without rows are in no pair."""
    random = np.random.default_rng(n_classes)
    true = random.integers(n_classes, size=300)
    values = random.dirichlet(np.ones(n_classes), size=300).round(2)
    values[:, 0] += 1.0 - values.sum(axis=1)
    area = one_vs_one_area(true, values)
    if n_classes == 2:
        assert area == pytest.approx(peer.roc_auc_score(true, values[:, 1]))
        return
    assert area == pytest.approx(peer.roc_auc_score(true, values, multi_class="ovo"))
    assert one_vs_one_area(true, np.column_stack([values, values[:, 0]])) == area
    assert one_vs_one_area(np.zeros(9, np.int64), values[:9]) is None


@pytest.mark.parametrize("n_classes", [2, 4])
def test_probability_metrics_equal_scikit_learns(n_classes: int) -> None:
    """Log loss and Brier score, also if a true class has probability 0."""
    random = np.random.default_rng(0)
    true = random.integers(n_classes, size=200)
    p = random.dirichlet(np.ones(n_classes), size=200)
    p[0] = np.eye(n_classes)[(true[0] + 1) % n_classes]
    metrics = calibration_metrics(p, p.argmax(axis=1), true)
    labels = list(range(n_classes))
    assert metrics["log_loss"] == pytest.approx(peer.log_loss(true, p, labels=labels))
    brier = peer.brier_score_loss(true, p[:, 1] if n_classes == 2 else p, labels=labels)
    assert metrics["brier_score"] == pytest.approx(brier)
    bins = metrics["reliability"]
    assert sum(each["n_samples"] for each in bins) == 200
    gaps = [e["n_samples"] * abs(e["mean_probability"] - e["accuracy"]) for e in bins]
    assert metrics["expected_calibration_error"] == pytest.approx(sum(gaps) / 200)


def test_margins_are_positive_on_the_right_side() -> None:
    """Two classes: y f(x). More: the distance of the true class to the next best."""
    binary = margins(np.array([1, 0, 1]), np.array([2.0, 3.0, -1.0]))
    assert binary.tolist() == [2.0, -3.0, -1.0]
    decision = np.array([[1.0, 4.0, 2.0], [1.0, 4.0, 2.0]])
    assert margins(np.array([1, 0]), decision).tolist() == [2.0, -3.0]


def test_histogram_counts_every_row_once() -> None:
    """By class, for any values; an outlier does not change the bins of the others."""
    random = np.random.default_rng(0)
    values = np.append(random.normal(size=2999), 1e9)
    metrics = histogram_by_class(np.arange(3000) % 3, values, 4)
    assert len(metrics["edges"]) == HISTOGRAM_BINS + 1
    assert [sum(counts) for counts in metrics["counts"]] == [1000, 1000, 1000, 0]
    assert metrics["edges"][-1] < 10
    equal = histogram_by_class(np.zeros(3, np.int64), np.ones(3), 1)
    assert sum(equal["counts"][0]) == 3
