"""Scores of a linear model in one pass; the order of operations depends on the row alone."""

from __future__ import annotations

from svm.data.matrices import Vector
from svm.loops import compiled


@compiled
def linear_scores(
    X: Vector, offset: Vector, weights: Vector, intercepts: Vector, out: Vector
) -> None:
    """out[i, k] = ⟨xᵢ - offset, weightsₖ⟩ + interceptsₖ."""
    n, d = X.shape
    for i in range(n):
        x = X[i]
        for k in range(len(weights)):
            w = weights[k]
            total = 0.0
            for j in range(d):
                total += (x[j] - offset[j]) * w[j]
            out[i, k] = total + intercepts[k]
