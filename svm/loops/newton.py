"""The inner loops of Newton's method on the smoothed hinge loss."""

from __future__ import annotations

from typing import Any

from svm.data.matrices import Floats, Indices, Vector
from svm.loops import compiled
from svm.loops.row_operations import add, dot


@compiled
def slope_and_curvature(
    margins: Vector, changes: Vector, weights: Vector, smoothing: float, t: float
) -> tuple[float, float]:
    """First and second derivative in t of Σ sᵢ ℓ_μ(marginᵢ + t changeᵢ)."""
    slope = curvature = 0.0
    for i in range(len(margins)):
        short = 1.0 - margins[i] - t * changes[i]
        if short >= smoothing:
            slope -= weights[i] * changes[i]
        elif short > 0.0:
            factor = weights[i] * changes[i] / smoothing
            slope -= factor * short
            curvature += factor * changes[i]
    return slope, curvature


@compiled
def curvature_product(
    operand: Any,
    rows: Indices,
    curvature: Vector,
    v: Vector,
    v_intercept: float,
    out: Vector,
    total: float,
) -> float:
    """out += Σ curvatureᵢ (⟨xᵢ, v⟩ + v_intercept) xᵢ; `total` and its constant-feature part."""
    for i in range(len(rows)):
        factor = curvature[i] * (dot(operand, rows[i], v) + v_intercept)
        add(operand, rows[i], factor, out)
        total += factor
    return total


@compiled
def scaled_rows(X: Floats, rows: Indices, factors: Floats, out: Floats) -> None:
    """out[i] = factors[i] · x of rows[i], for a dense X, in the precision of `out`."""
    for i in range(len(rows)):
        x, scaled, factor = X[rows[i]], out[i], factors[i]
        for j in range(len(x)):
            scaled[j] = factor * x[j]
