"""A numeric target: how solvers see it, and values from scores."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from svm.data.matrices import LARGEST, Vector
from svm.errors import InvalidData

TargetScale: TypeAlias = Literal["linear", "logarithmic"]
"""Whether the model is of the target itself or of its logarithm."""
LARGEST_SCORE = math.log(LARGEST)
"""Of a model of logarithms, whose predictions are between 1e-100 and 1e100."""
SKEWED = 2.0
"""Skewness from which on positive targets are probably better seen as logarithms."""


@dataclass(frozen=True, slots=True)
class Target:
    """Solvers see (t - center)/scale of a target t or its logarithm, so that no default depends on
    its unit. A model's coefficients are for t itself."""

    center: float
    """The median, or 0 of a model without an intercept."""
    scale: float
    """The standard deviation, > 0."""
    logarithm: bool = False
    epsilon: float = 0.0
    """ε ≥ 0 of the loss, in the unit of t."""

    @classmethod
    def of(
        cls, values: Vector, scale: TargetScale, weights: Vector | None = None, *, centered: bool
    ) -> Target:
        """The target of the training rows; a row of weight 2 counts as two. Raises InvalidData."""
        given = values
        values = _linear(values, logarithm=scale == "logarithmic")
        mean = np.average(values, weights=weights)
        deviation = float(np.sqrt(np.average(np.square(values - mean), weights=weights)))
        if deviation <= max(1.0 / LARGEST, 1e-12 * float(np.abs(values).max())):
            low, high = float(given.min()), float(given.max())
            message = f"all training rows have the target {low!r}; two different ones are needed"
            if low < high:
                message = f"the targets are too close together: all are between {low!r} and "
                message += f"{high!r}; subtract a constant, or give them in another unit"
            raise InvalidData("single-class", message)
        center = median(values, weights) if centered else 0.0
        return cls(center, deviation, scale == "logarithmic")

    def standardized(self, values: Any) -> Vector:
        """(n,) as solvers see them. Raises InvalidData."""
        return (_linear(numbers(values), logarithm=self.logarithm) - self.center) / self.scale

    def in_unit(self, coefficients: Vector, intercepts: Vector) -> tuple[Vector, Vector]:
        """Coefficients and intercepts for the target itself, from those of the solvers."""
        return coefficients * self.scale, intercepts * self.scale + self.center

    def as_solvers(self, coefficients: Vector, intercept: float) -> tuple[Vector, float]:
        """The inverse."""
        return coefficients / self.scale, (intercept - self.center) / self.scale

    def values(self, scores: Vector) -> Vector:
        """Predicted targets, of the shape of a model's scores without their last axis of 1."""
        scores = scores[..., 0]
        return np.exp(np.clip(scores, -LARGEST_SCORE, LARGEST_SCORE)) if self.logarithm else scores

    def around(self, values: Vector) -> Vector:
        """(2, n) the lowest and the highest targets whose errors are at most ε, if these values
        are predicted."""
        ends = np.array([[-self.epsilon], [self.epsilon]])
        around: Vector = values * np.exp(ends) if self.logarithm else values + ends
        return around

    def errors(self, actual: Vector, predicted: Vector) -> Vector:
        """(n,) absolute errors in the unit of ε; infinite without a logarithm."""
        if not self.logarithm:
            return np.abs(actual - predicted)
        positive = np.where(actual > 0.0, actual, 1.0)
        return np.where(actual > 0.0, np.abs(np.log(positive) - np.log(predicted)), np.inf)


def numbers(values: Any) -> Vector:
    """Numeric targets, (n,) float64. Raises InvalidData (`bad-labels`)."""
    try:
        given = np.ascontiguousarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidData("bad-labels", "a numeric target needs numbers as labels") from error
    bad = ~(np.abs(given) <= LARGEST)  # or NaN
    if bad.any():
        i = int(np.argmax(bad))
        raise InvalidData(
            "bad-labels",
            f"row {i} (counted from 0) has the target {given[i]:g}; numeric targets are finite, "
            f"between {-LARGEST:g} and {LARGEST:g}",
        )
    return given


def median(values: Vector, weights: Vector | None = None) -> float:
    """The median, if a value of weight 2 counts as two."""
    if weights is None:
        return float(np.median(values))
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    middle = [np.searchsorted(reached, 0.5 * reached[-1], side) for side in ("left", "right")]
    return float(values[order[middle]].mean())


def is_skewed(values: Vector) -> bool:
    """Whether the values are positive, and so skewed that logarithms are worth a try."""
    if not (values > 0.0).all():
        return False
    deviations = values - values.mean()
    spread = float(np.sqrt(np.square(deviations).mean()))
    return spread > 0.0 and float(((deviations / spread) ** 3).mean()) > SKEWED


def _linear(values: Vector, *, logarithm: bool) -> Vector:
    if not logarithm:
        return values
    if not (values > 0.0).all():
        i = int(np.argmin(values))
        raise InvalidData(
            "bad-labels",
            f"row {i} (counted from 0) has the target {values[i]:g}; a logarithm needs positive "
            "targets",
        )
    return np.log(values)
