"""Scores of dense rows by a linear model, which is prepared once."""

from __future__ import annotations

import numpy as np

from svm.data.matrices import Vector, read_only
from svm.transforms.scaling import Scaling


class LinearScorer:
    """X ↦ ⟨xᵢ - offset, weightsₖ⟩ + interceptsₖ, (n_samples, n_problems).

    The bits of a row depend on that row alone. Scores may overflow, without a warning.
    """

    def __init__(self, offset: Vector, weights: Vector, intercepts: Vector) -> None:
        from svm.loops.scores import linear_scores

        self._compiled = linear_scores
        self.offset, self.weights, self.intercepts = (
            np.array(part, dtype=np.float64) for part in (offset, weights, intercepts)
        )
        self.nbytes = self.offset.nbytes + self.weights.nbytes + self.intercepts.nbytes
        """Memory of the prepared arrays."""

    def __call__(self, X: Vector) -> Vector:
        """X, float64 in C order."""
        scores = np.empty((len(X), len(self.intercepts)))
        self._compiled(read_only(X), self.offset, self.weights, self.intercepts, scores)
        return scores


def unscaled_scorer(
    scaling: Scaling, coefficients: Vector, intercepts: Vector
) -> LinearScorer | None:
    """A scorer of unscaled rows: ⟨x - offset, coefficients / scale⟩.

    None if such weights would leave the range of float64.
    """
    weights, offset = unscaled(scaling, coefficients)
    sizes = np.abs(weights[coefficients != 0.0])
    if not ((sizes > np.finfo(np.float64).tiny) & (sizes < np.inf)).all():
        return None
    return LinearScorer(offset, weights, intercepts)


def unscaled(scaling: Scaling, coefficients: Vector) -> tuple[Vector, Vector]:
    """Weights (n_problems, n_features) and offset (n_features,) for unscaled rows. Weights may
    leave the range of float64, without a warning."""
    with np.errstate(all="ignore"):
        weights = coefficients / (1.0 if scaling.scale is None else scaling.scale)
    offset = np.zeros(coefficients.shape[1]) if scaling.offset is None else scaling.offset
    return weights, offset
