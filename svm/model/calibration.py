"""Probabilities from scores, learned from the scores of a validation set.

Labels follow from the scores alone; probabilities do not change them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from svm.data.matrices import Array, Indices, Mask, Vector
from svm.data.splitting import Apart, folds
from svm.errors import InvalidData
from svm.model.multiclass import MulticlassName, splits_of

CalibrationName = Literal["sigmoid", "isotonic"]

CLOSEST = 1e-7
"""Least distance of a pair's probability from 0 and 1 when pairs are coupled, as in LIBSVM."""

SYSTEM_VALUES = 1 << 16
"""Values of the systems of equations, one for each row, that are solved together: 512 KiB, and as
much again for their inputs."""

PARTS = 5
"""Of the rows, at most, for probabilities to measure."""

_STEPS = 100
_SMALLEST_STEP = 1e-10


@dataclass(frozen=True, slots=True)
class Calibration:
    """A monotone map from score to probability for each binary problem.

    sigmoid: 1/(1 + exp(a s + b)). isotonic: steps with straight lines between them.
    """

    name: CalibrationName
    knots: Vector
    """sigmoid: (n_problems, 2), a and b. isotonic: (n_knots,) scores, ascending in each problem."""
    values: Vector | None = None
    """isotonic: (n_knots,) probabilities."""
    starts: Indices | None = None
    """isotonic: (n_problems + 1,) the start of each problem's knots, and the end."""

    @property
    def n_problems(self) -> int:
        return len(self.knots) if self.starts is None else len(self.starts) - 1

    def fits(self, n_problems: int) -> bool:
        """Whether the arrays fit together and to `n_problems`."""
        if self.name == "sigmoid":
            return self.values is None and self.knots.shape == (n_problems, 2)
        values, starts = self.values, self.starts
        return (
            self.name == "isotonic"
            and values is not None
            and starts is not None
            and self.knots.shape == values.shape == (starts[-1],)
            and starts.shape == (n_problems + 1,)
            and starts[0] == 0
            and bool((np.diff(starts) > 0).all())
        )

    def of_problems(self, scores: Vector) -> Vector:
        """Probability of the positive class in every binary problem, (n_samples, n_problems)."""
        if self.values is None or self.starts is None:
            return _logistic(-(scores * self.knots[:, 0] + self.knots[:, 1]))
        probabilities = np.empty_like(scores)
        for k in range(self.n_problems):
            part = slice(self.starts[k], self.starts[k + 1])
            probabilities[:, k] = np.interp(scores[:, k], self.knots[part], self.values[part])
        return probabilities

    def probabilities(self, scheme: MulticlassName, scores: Vector, n_classes: int) -> Vector:
        """(n_samples, n_classes), each row summing to 1 and depending on that row alone."""
        if n_classes == 2:
            positive = self.of_problems(scores)
            return np.stack([1.0 - positive[:, 0], positive[:, 0]], axis=1)
        if scheme == "one-vs-rest":
            return _normalize(self.of_problems(scores))
        probabilities = np.empty((len(scores), n_classes))
        rows = max(1, SYSTEM_VALUES // (n_classes + 1) ** 2)
        for start in range(0, len(scores), rows):
            some = scores[start : start + rows]
            probabilities[start : start + rows] = couple(self.of_problems(some), n_classes)
        return probabilities


def fit_calibration(
    name: CalibrationName,
    scores: Vector,
    codes: Array,
    scheme: MulticlassName,
    n_classes: int,
) -> Calibration:
    """Learn from the scores (n_samples, n_problems) and classes (n_samples,) of held-out rows.

    Raises InvalidData (`class-too-small`) if a binary problem has no row on one of its sides.
    """
    sides = []
    for k, split in enumerate(splits_of(scheme, n_classes)):
        positive = codes == split.positive
        inside = positive | np.isin(codes, split.negative)
        truth = positive[inside]
        if truth.all() or not truth.any():
            raise InvalidData(
                "class-too-small",
                "calibration needs validation rows of every class; hold out more rows, or stratify",
            )
        sides.append((scores[inside, k], truth))
    if name == "sigmoid":
        return Calibration(name, np.array([_sigmoid(*side) for side in sides]))
    curves = [_isotonic(*side) for side in sides]
    lengths = [len(knots) for knots, _ in curves]
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    knots = np.concatenate([knots for knots, _ in curves])
    return Calibration(name, knots, np.concatenate([values for _, values in curves]), starts)


def cross_fit(
    name: CalibrationName,
    scores: Vector,
    codes: Array,
    scheme: MulticlassName,
    n_classes: int,
    *,
    seed: int,
    groups: Indices | None = None,
) -> Vector | None:
    """Probabilities (n_samples, n_classes) to measure a calibration by: those of each row come from
    a fit without its part of the rows, and without its group. None if a class has fewer than two
    rows or groups.

    The probabilities of the fit itself look better on its own rows than on new ones.
    """
    parts = min(PARTS, int(np.bincount(codes, minlength=n_classes).min()))
    if parts < 2:
        return None
    try:
        pairs = folds(codes, parts, seed=seed, apart=Apart(groups))
    except InvalidData:
        return None
    probabilities = np.full((len(scores), n_classes), np.nan)
    for others, inside in pairs:
        fit = fit_calibration(name, scores[others], codes[others], scheme, n_classes)
        probabilities[inside] = fit.probabilities(scheme, scores[inside], n_classes)
    return None if np.isnan(probabilities).any() else probabilities


def unlikely_labels(probabilities: Vector, codes: Array) -> Indices:
    """The rows whose class, (n_samples,), follows from the scores but is not the one with the
    largest of the probabilities, (n_samples, n_classes)."""
    own = np.take_along_axis(probabilities, codes[:, None], axis=1)[:, 0]
    return np.flatnonzero(own < probabilities.max(axis=1))


def couple(positive: Vector, n_classes: int) -> Vector:
    """Class probabilities (n_samples, n_classes) from those of the pairs i < j: the probability
    of class j if it is one of the two (Wu, Lin and Weng, 2004, second method).

    They minimize Σ (r_ji p_i - r_ij p_j)² with r_ij = P(i | i or j), under Σ p = 1.
    """
    n = len(positive)
    r = np.zeros((n, n_classes, n_classes))
    lower, higher = np.triu_indices(n_classes, 1)
    likely = np.clip(positive, CLOSEST, 1.0 - CLOSEST)
    r[:, higher, lower], r[:, lower, higher] = likely, 1.0 - likely
    system = np.zeros((n, n_classes + 1, n_classes + 1))
    Q = system[:, :n_classes, :n_classes]
    Q -= r * r.transpose(0, 2, 1)
    every = np.arange(n_classes)
    Q[:, every, every] = np.square(r).sum(axis=1)
    system[:, :n_classes, n_classes] = system[:, n_classes, :n_classes] = 1.0
    right = np.zeros((n, n_classes + 1, 1))
    right[:, n_classes] = 1.0
    solution = np.asarray(np.linalg.solve(system, right), dtype=np.float64)
    return _normalize(solution[:, :n_classes, 0])


def _normalize(values: Vector) -> Vector:
    """Rows that sum to 1; equal shares if all values are 0."""
    values = np.maximum(values, 0.0)
    sums = values.sum(axis=1, keepdims=True)
    shares: Vector = np.where(
        sums > 0.0, values / np.where(sums > 0.0, sums, 1.0), 1.0 / values.shape[1]
    )
    return shares


def _logistic(x: Vector) -> Vector:
    with np.errstate(over="ignore", under="ignore"):
        probabilities: Vector = 1.0 / (1.0 + np.exp(-x))
    return probabilities


def _sigmoid(scores: Vector, truth: Mask) -> tuple[float, float]:
    """(a, b) of the greatest likelihood, of smoothed targets (Platt, 1999), by Newton's method
    with backtracking (Lin, Lin and Weng, 2007)."""
    n_positive = int(truth.sum())
    n_negative = len(truth) - n_positive
    targets: Vector = np.where(
        truth, (n_positive + 1.0) / (n_positive + 2.0), 1.0 / (n_negative + 2.0)
    )
    # Scores may have any size: they are divided by the largest one.
    scale = float(np.abs(scores).max()) or 1.0
    s: Vector = scores / scale
    a, b = 0.0, float(np.log((n_negative + 1.0) / (n_positive + 1.0)))
    loss = _loss(a, b, s, targets)
    for _ in range(_STEPS):
        p = _logistic(-(a * s + b))
        q = p * (1.0 - p)
        slope = targets - p
        gradient = np.array([s @ slope, slope.sum()])
        if np.abs(gradient).max() < 1e-9 * len(s):
            break
        h11, h22, h12 = s * s @ q + 1e-12, q.sum() + 1e-12, s @ q
        step = -np.linalg.solve(np.array([[h11, h12], [h12, h22]]), gradient)
        size, descent = 1.0, float(gradient @ step)
        while size > _SMALLEST_STEP:
            trial = (a + size * float(step[0]), b + size * float(step[1]))
            trial_loss = _loss(*trial, s, targets)
            if trial_loss < loss + 1e-4 * size * descent:
                (a, b), loss = trial, trial_loss
                break
            size /= 2.0
        else:
            break
    return a / scale, b


def _loss(a: float, b: float, s: Vector, targets: Vector) -> float:
    """-Σ t log p + (1 - t) log(1 - p), p = 1/(1 + exp(a s + b)), without overflow."""
    z: Vector = a * s + b
    return float((targets * z + np.logaddexp(0.0, -z)).sum())


def _isotonic(scores: Vector, truth: Mask) -> tuple[Vector, Vector]:
    """Knots and values of the best non-decreasing fit, by pooling adjacent violators; n rows prove
    no probability below 1/(n + 2) and none above 1 - 1/(n + 2)."""
    points, inverse = np.unique(scores, return_inverse=True)
    weights = np.bincount(inverse).astype(np.float64)
    means = np.bincount(inverse, truth) / weights
    pools: list[tuple[float, float, int]] = []  # mean, weight, points
    for mean, weight in zip(means.tolist(), weights.tolist(), strict=True):
        pool = (mean, weight, 1)
        while pools and pools[-1][0] >= pool[0]:
            before = pools.pop()
            total = before[1] + pool[1]
            pool = ((before[0] * before[1] + pool[0] * pool[1]) / total, total, before[2] + pool[2])
        pools.append(pool)
    ends = np.cumsum([count for _, _, count in pools])
    starts = ends - np.array([count for _, _, count in pools])
    # The two ends of each pool are knots; between pools the probability rises in a straight line.
    edges = np.stack([starts, ends - 1], axis=1).ravel()
    closest = 1.0 / (len(scores) + 2.0)
    values = np.repeat(np.clip([mean for mean, _, _ in pools], closest, 1.0 - closest), 2)
    kept = np.concatenate([[True], np.diff(edges) > 0])
    return points[edges][kept], values[kept]
