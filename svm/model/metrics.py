"""How well predictions match the true classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from svm.data.matrices import Array, Mask, Vector

BINS = 15
"""Of the expected calibration error."""
HISTOGRAM_BINS = 40
HISTOGRAM_SPAN = (0.001, 0.999)
"""Quantiles: so that a few outliers do not put all other rows into one bin."""


def confusion_matrix(
    true_codes: Array,
    predicted_codes: Array,
    n_classes: int,
    weights: Vector | None = None,
) -> Array:
    """(n_classes, n_classes) counts by true (row) and predicted class, or sums of `weights`.

    Codes are integers 0 … n_classes - 1, (n,).
    """
    pairs = true_codes.astype(np.int64) * n_classes + predicted_codes
    counts = np.bincount(pairs, weights, minlength=n_classes * n_classes)
    return counts.reshape(n_classes, n_classes)


def weighted_metrics(confusion: Vector) -> dict[str, Any]:
    """The metrics of weighted rows, from sums of weights."""
    metrics = classification_metrics(confusion)
    names = ("accuracy", "balanced_accuracy", "macro_f1", "confusion_matrix")
    return {name: metrics[name] for name in names}


def classification_metrics(confusion: Array) -> dict[str, Any]:
    """Accuracy, the confusion matrix itself, and precision, recall, F1 of each class.

    A ratio whose denominator is 0 is given as 0. `balanced_accuracy` is the mean recall of classes
    that have rows; `macro_f1` the mean F1 of classes that have rows or were predicted.
    """
    n_classes = len(confusion)
    hits = np.diag(confusion)
    support, predicted = confusion.sum(axis=1), confusion.sum(axis=0)
    precision = hits / np.where(predicted > 0, predicted, 1)
    recall = hits / np.where(support > 0, support, 1)
    total = precision + recall
    f1 = np.where(total > 0, 2.0 * precision * recall / np.where(total > 0, total, 1.0), 0.0)
    return {
        "accuracy": float(hits.sum() / (confusion.sum() or 1)),
        "balanced_accuracy": _mean(recall[support > 0]),
        "macro_f1": _mean(f1[support + predicted > 0]),
        "confusion_matrix": confusion.tolist(),
        "per_class": [
            {
                "precision": float(precision[k]),
                "recall": float(recall[k]),
                "f1": float(f1[k]),
                "support": int(support[k]),
            }
            for k in range(n_classes)
        ],
    }


def _mean(values: Vector) -> float:
    return float(values.mean()) if len(values) else 0.0


@dataclass(frozen=True, slots=True)
class RocCurve:
    """True positive rate against false positive rate, as the threshold falls."""

    thresholds: Vector
    """(n_points,) descending, the first one infinite. A score ≥ threshold is positive."""
    false_positive_rate: Vector
    """(n_points,) 0 … 1."""
    true_positive_rate: Vector
    """(n_points,) 0 … 1."""
    area: float
    """Below the curve: how often a positive row scores above a negative one; ties count half."""

    def thinned(self, n_points: int) -> RocCurve:
        """At most `n_points` of the points, evenly along the curve, and the area of all of them."""
        if len(self.thresholds) <= n_points:
            return self
        position = 0.5 * (self.false_positive_rate + self.true_positive_rate)
        kept = np.unique(np.searchsorted(position, np.linspace(0.0, 1.0, n_points)))
        false, true = self.false_positive_rate[kept], self.true_positive_rate[kept]
        return RocCurve(self.thresholds[kept], false, true, self.area)


def roc_curve(positive: Mask, scores: Vector) -> RocCurve | None:
    """A point for every distinct score, without those inside a straight segment.

    Both are (n,). None without rows on both sides.
    """
    n_positive = int(positive.sum())
    n_negative = len(positive) - n_positive
    if n_positive == 0 or n_negative == 0:
        return None
    order = np.argsort(-scores, kind="stable")
    falling = scores[order]
    last = np.flatnonzero(np.concatenate([np.diff(falling) != 0, [True]]))
    hits = np.concatenate([[0], np.cumsum(positive[order])[last]])
    wrong = np.concatenate([[0], last + 1]) - hits
    corners = (np.diff(hits, 2) != 0) | (np.diff(wrong, 2) != 0)
    kept = np.concatenate([[True], corners, [True]])
    true, false = hits[kept] / n_positive, wrong[kept] / n_negative
    thresholds = np.concatenate([[np.inf], falling[last]])[kept]
    return RocCurve(thresholds, false, true, float(np.trapezoid(true, false)))


def one_vs_one_area(codes: Array, values: Vector) -> float | None:
    """Mean area under the ROC curves of all pairs of classes (Hand and Till, 2001).

    For a pair only its own rows count, ranked once by the value of each class: `values` is
    (n, n_classes), `codes` (n,). None with rows of fewer than two classes.
    """
    present = np.unique(codes)
    # The values of class j for the rows of class i, ascending.
    ranked = {(i, j): np.sort(values[codes == i, j]) for i in present for j in present}
    areas = [_area(ranked[i, i], ranked[j, i]) for i in present for j in present if i != j]
    return float(np.mean(areas)) if areas else None


def _area(positive: Vector, negative: Vector) -> float:
    """How often one of `positive` is larger than one of `negative`, both ascending."""
    below = np.searchsorted(negative, positive, "left").sum(dtype=np.float64)
    not_above = np.searchsorted(negative, positive, "right").sum(dtype=np.float64)
    return float(0.5 * (below + not_above) / (len(positive) * len(negative)))


def margins(codes: Array, decision: Vector) -> Vector:
    """(n,) margin of each row, negative if it is on the wrong side.

    Two classes, `decision` (n,): y f(x). More, (n, n_classes): the true class's value minus the
    largest other one.
    """
    if decision.ndim == 1:
        return np.where(codes > 0, decision, -decision)
    rows = np.arange(len(codes))
    others = decision.copy()
    others[rows, codes] = -np.inf
    margins: Vector = decision[rows, codes] - others.max(axis=1)
    return margins


def histogram_by_class(codes: Array, values: Vector, n_classes: int) -> dict[str, Any]:
    """`edges` of `HISTOGRAM_BINS` bins and, for each class, the `counts` of its rows in them.

    Values outside of `HISTOGRAM_SPAN` are counted in the first and last bins.
    """
    low, high = np.quantile(values, HISTOGRAM_SPAN)
    edges = np.histogram_bin_edges([low, high], HISTOGRAM_BINS)
    inside = np.clip(values, edges[0], edges[-1])
    counts = [np.histogram(inside[codes == k], edges)[0].tolist() for k in range(n_classes)]
    return {"edges": edges.tolist(), "counts": counts}


def calibration_metrics(
    probabilities: Vector,
    predicted_codes: Array,
    true_codes: Array,
) -> dict[str, Any]:
    """How good probabilities (n, n_classes) are.

    `disagreement`: share of rows whose largest probability is not that of their label.
    `log_loss`: mean of -log p of the true class. `brier_score`: mean of Σ (p - truth)² over the
    classes; of two classes that of the positive one. `expected_calibration_error`: mean difference
    between the largest probability and how often it is right, over 15 bins of equal width, weighted
    by rows. `reliability`: those of the bins that have rows.
    """
    n, n_classes = probabilities.shape
    rows = np.arange(n)
    likeliest = probabilities.argmax(axis=1)
    confidence = probabilities[rows, likeliest]
    bins = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
    counts = np.bincount(bins, minlength=BINS)
    sums = np.bincount(bins, confidence, BINS)
    right = np.bincount(bins, likeliest == true_codes, BINS)
    true = probabilities[rows, true_codes]
    squares = np.square(probabilities).sum(axis=1) - 2.0 * true + 1.0
    smallest = np.finfo(np.float64).eps
    return {
        "disagreement": float((likeliest != predicted_codes).mean()),
        "log_loss": float(-np.log(np.clip(true, smallest, 1.0)).mean()),
        "brier_score": float(squares.mean() / (2.0 if n_classes == 2 else 1.0)),
        "expected_calibration_error": float(np.abs(sums - right).sum() / n),
        "reliability": [
            {
                "n_samples": int(counts[k]),
                "mean_probability": float(sums[k] / counts[k]),
                "accuracy": float(right[k] / counts[k]),
            }
            for k in np.flatnonzero(counts)
        ],
    }
