"""What a row costs, and what its dual variable may be. With the margin m = yᵢ fᵢ and the weight s:

    hinge           s max(0, 1 - m)     dual: α             over 0 ≤ α ≤ s
    squared hinge   s max(0, 1 - m)²    dual: α - α²/(4s)   over 0 ≤ α

The dual function of a row is minus the conjugate of its loss at -α. That of a squared loss has no
box, and is curved: it adds `ridge` to the diagonal of the quadratic form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from svm.data.matrices import Mask, Signs, Vector
from svm.hyperparameters import LossName


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss of the shortfall 1 - m, or its square."""

    name: LossName
    squared: bool

    def of_shortfalls(self, short: Vector) -> Vector:
        """Losses of weight 1, (n,), in place of the shortfalls."""
        losses = np.maximum(short, 0.0, out=short)
        return np.square(losses, out=losses) if self.squared else losses

    def upper(self, weights: Vector) -> Vector:
        """The ends of the boxes of α, (n,)."""
        return np.full_like(weights, np.inf) if self.squared else weights

    def ridge(self, weights: Vector) -> Vector | None:
        """Minus the second derivatives of the dual functions, (n,); None if they are 0."""
        return 0.5 / weights if self.squared else None

    def best_intercept(self, y: Signs, weights: Vector, scores: Vector) -> float:
        """The b with the smallest Σ sᵢ ℓ(yᵢ (fᵢ + b)).

        The shortfall of a row ends at the corner yᵢ - fᵢ. The slope of Σ sᵢ max(0, 1 - yᵢ (fᵢ + b))
        rises by sᵢ there, from -Σ sᵢ over the positive rows: the minimum is a weighted median of
        the corners. The slope of the squares is linear between two corners.
        """
        corners = y - scores
        order = np.argsort(corners)
        if self.squared:
            return _least_squares(corners[order], weights[order], y[order] > 0)
        slopes = np.cumsum(weights[order])
        flat = float(weights[y > 0].sum())
        ends = np.searchsorted(slopes, flat, "left"), np.searchsorted(slopes, flat, "right")
        # Rounding may make the sum in another order larger.
        first, last = np.minimum(ends, len(order) - 1)
        return 0.5 * float(corners[order[first]] + corners[order[last]])


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


HINGE = Loss("hinge", squared=False)
SQUARED_HINGE = Loss("squared-hinge", squared=True)
LOSSES: dict[LossName, Loss] = {loss.name: loss for loss in (HINGE, SQUARED_HINGE)}
