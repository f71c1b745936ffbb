"""What a row costs, and what its dual variable may be.

A side of a row has a sign yᵢ = ±1, a margin qᵢ from which on it costs nothing, a weight s, and the
shortfall uᵢ = qᵢ - yᵢ fᵢ. A row of a class has one side, with the margin 1. A row with the numeric
target t has two, of which at most one costs: +1 with the margin t - ε, and -1 with -t - ε.

    hinge, ε-insensitive      s max(0, u)     dual: q α             over 0 ≤ α ≤ s
    squared, of both kinds    s max(0, u)²    dual: q α - α²/(4s)   over 0 ≤ α

The dual function of a side is minus the conjugate of its loss at -α. That of a squared loss has no
box, and is curved: it adds `ridge` to the diagonal of the quadratic form. The signed variable of a
row with two sides is β = α₊ - α₋, at the optimum one of them: t β - ε |β| - β²/(4s).

Two sides: Bi, Bennett, A geometric approach to support vector regression. Neurocomputing 55 (2003).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from svm.data.matrices import Floats, Mask, Signs, Vector
from svm.hyperparameters import NUMERIC_LOSSES, LossName


def shortfalls(y: Signs, margins: Vector | None, scores: Vector) -> Vector:
    """qᵢ - yᵢ fᵢ, (n,); the margins are None if all are 1."""
    return (1.0 if margins is None else margins) - y * scores


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss of the shortfall, or its square."""

    name: LossName
    epsilon: float = 0.0
    """ε ≥ 0, of numeric targets."""
    unit: float = 1.0
    """The unit of numeric targets, in that in which errors are stated."""

    @property
    def numeric(self) -> bool:
        """Whether it is one of numeric targets."""
        return self.name in NUMERIC_LOSSES

    @property
    def squared(self) -> bool:
        return self.name.startswith("squared")

    def of_shortfalls(self, short: Vector) -> Vector:
        """Losses of weight 1, (n,), in place of the shortfalls."""
        losses = np.maximum(short, 0.0, out=short)
        return np.square(losses, out=losses) if self.squared else losses

    def total_error(self, y: Signs, short: Vector, scores: Vector) -> float:
        """How many rows are on the wrong side, a score of 0 being on the negative one; or Σ |t - f|
        of numeric targets."""
        if self.numeric:  # one side of each row is positive
            return float(np.maximum(short + self.epsilon, 0.0).sum())
        return float(np.count_nonzero((scores > 0.0) != (y > 0)))

    def mean_error(self, total: float, sides: int) -> float:
        """The share of the rows on the wrong side, or the mean |t - f| in the stated unit."""
        return self.n_sides * self.unit * total / sides

    @property
    def n_sides(self) -> int:
        """Of a row."""
        return 2 if self.numeric else 1

    def two_sides(self, targets: Vector) -> tuple[Signs, Vector]:
        """The signs and margins of the two sides of each row: (2n,), those of a row together."""
        y = np.tile(np.array([1, -1], dtype=np.int8), len(targets))
        return y, np.repeat(targets, 2) * y - np.float64(self.epsilon)

    def upper(self, weights: Vector) -> Vector:
        """The ends of the boxes of α, (n,)."""
        return np.full_like(weights, np.inf) if self.squared else weights

    def ridge(self, weights: Vector) -> Vector | None:
        """Minus the second derivatives of the dual functions, (n,); None if they are 0."""
        return 0.5 / weights if self.squared else None

    def best_intercept(
        self, y: Signs, corners: Signs | Floats, weights: Vector, scores: Vector
    ) -> float:
        """The b with the smallest Σ sᵢ ℓ(qᵢ - yᵢ (fᵢ + b)); the `corners` are yᵢ qᵢ.

        The shortfall of a side ends at yᵢ qᵢ - fᵢ. The slope of the sum rises by sᵢ there, from
        -Σ sᵢ over the positive sides: the minimum is a weighted median. The slope of the squares is
        linear between two of these places.
        """
        ends = corners - scores
        order = np.argsort(ends)
        if self.squared:
            return _least_squares(ends[order], weights[order], y[order] > 0)
        slopes = np.cumsum(weights[order])
        flat = float(weights[y > 0].sum())
        places = np.searchsorted(slopes, flat, "left"), np.searchsorted(slopes, flat, "right")
        # Rounding may make the sum in another order larger.
        first, last = np.minimum(places, len(order) - 1)
        return 0.5 * float(ends[order[first]] + ends[order[last]])


def _least_squares(corners: Vector, weights: Vector, positive: Mask) -> float:
    """The b with the smallest Σ sᵢ (cᵢ - b)² over the positive rows with cᵢ > b and the negative
    ones with cᵢ < b; `corners` are ascending."""

    def active(values: Vector) -> Vector:
        """Sums over the active rows, if b lies between the corners k - 1 and k."""
        below = np.concatenate([[0.0], np.cumsum(np.where(positive, 0.0, values))])
        above = np.cumsum(np.where(positive, values, 0.0)[::-1])[::-1]
        sums: Vector = below + np.concatenate([above, [0.0]])
        return sums

    sizes, moments = active(weights), active(weights * corners)
    # The slope at each corner, to which its own row adds 0.
    rising = sizes[1:] * corners - moments[1:] >= 0.0
    k = int(np.argmax(rising)) if rising.any() else len(corners) - 1
    return float(moments[k] / sizes[k]) if sizes[k] > 0.0 else float(corners[k])


HINGE = Loss("hinge")
