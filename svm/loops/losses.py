"""Hinge losses and errors of rows with known scores."""

from __future__ import annotations

from typing import Any

from svm.data.matrices import Indices, Signs, Vector
from svm.loops import compiled


@compiled
def losses_and_errors(
    edges: Indices, y: Signs, weights: Vector, scores: Vector, inside: Any, out: Vector
) -> None:
    """out[k] = (Σ sᵢ max(0, 1 - yᵢ fᵢ), rows on the wrong side) of the leaf edges[k] …
    edges[k + 1] - 1; `weights` are empty if all are 1. inside[i], if it is not empty, tells whether
    row i is on or inside the margin."""
    for k in range(len(edges) - 1):
        total = 0.0
        wrong = 0
        for i in range(edges[k], edges[k + 1]):
            s = weights[i] if len(weights) else 1.0
            short = 1.0 - y[i] * scores[i]
            total += s * max(short, 0.0)
            wrong += (scores[i] > 0.0) != (y[i] > 0)
            if len(inside):
                inside[i] = short >= 0.0
        out[k, 0], out[k, 1] = total, wrong
