"""Scores of dense rows by a linear model, which is prepared once."""

from __future__ import annotations

import numpy as np

from svm.data.matrices import Vector
from svm.transforms.scaling import Scaling

FAR = 2.0**10
"""An offset is subtracted from each row if its share of the scores is this many times that of the
scaled rows. Otherwise it is part of the intercepts, which costs at most 10 of the 53 bits."""


class LinearScorer:
    """X ↦ ⟨xᵢ - offset, weightsₖ⟩ + interceptsₖ, (n_samples, n_problems).

    Each row is one matrix-vector product of the same shape, so its bits depend on that row alone.
    """

    def __init__(self, offset: Vector | None, weights: Vector, intercepts: Vector) -> None:
        self.offset = offset
        self.weights, self.intercepts = (
            np.array(part, dtype=np.float64, order="C") for part in (weights, intercepts[None])
        )

    @property
    def nbytes(self) -> int:
        """Memory of the prepared arrays."""
        offset = 0 if self.offset is None else self.offset.nbytes
        return offset + self.weights.nbytes + self.intercepts.nbytes

    def __call__(self, X: Vector) -> Vector:
        """X, float64 in C order."""
        scores: Vector = np.matvec(self.weights, X if self.offset is None else X - self.offset)
        return scores + self.intercepts  # of one row, of the same shape: in half the time


def unscaled_scorer(
    scaling: Scaling, coefficients: Vector, intercepts: Vector
) -> LinearScorer | None:
    """A scorer of unscaled rows: ⟨x - offset, coefficients / scale⟩.

    None if such weights would leave the range of float64.
    """
    weights = unscaled_weights(scaling, coefficients)
    if weights is None:
        return None
    offset = scaling.offset
    if offset is not None:
        with np.errstate(all="ignore"):
            shares = np.abs(weights * offset).sum(axis=1)
            near = shares <= FAR * np.abs(coefficients).sum(axis=1)
            if near.all():
                return LinearScorer(None, weights, intercepts - np.vecdot(weights, offset))
    return LinearScorer(offset, weights, intercepts)


def unscaled_weights(scaling: Scaling, coefficients: Vector) -> Vector | None:
    """coefficients / scale, (n_problems, n_features); None if they leave the range of float64."""
    weights = unscaled(scaling, coefficients)[0]
    sizes = np.abs(weights[coefficients != 0.0])
    inside = (sizes > np.finfo(np.float64).tiny) & (sizes < np.inf)
    return weights if inside.all() else None


def unscaled(scaling: Scaling, coefficients: Vector) -> tuple[Vector, Vector]:
    """Weights (n_problems, n_features) and offset (n_features,) for unscaled rows. Weights may
    leave the range of float64, without a warning."""
    with np.errstate(all="ignore"):
        weights = coefficients / (1.0 if scaling.scale is None else scaling.scale)
    offset = np.zeros(coefficients.shape[1]) if scaling.offset is None else scaling.offset
    return weights, offset
