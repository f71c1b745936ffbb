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


@compiled
def scores_and_sums(
    operand: Any,
    rows: Indices,
    w: Vector,
    intercept: float,
    y: Vector,
    weights: Vector,
    centers: Vector,
    smoothing: float,
    scores: Vector,
    sums: Vector,
) -> None:
    """scores[i] = ⟨x of rows[i], w⟩ + intercept; sums[k] += Σ sᵢ aᵢ x over the rows of class k, 1
    if yᵢ > 0, with aᵢ = clip(centerᵢ + (1 - yᵢ scoreᵢ)/smoothing, 0, 1)."""
    for i in range(len(rows)):
        scores[i] = dot(operand, rows[i], w) + intercept
        slope = centers[i] + (1.0 - y[i] * scores[i]) / smoothing
        if slope > 0.0:
            factor = weights[i] * min(slope, 1.0)
            add(operand, rows[i], factor, sums[1 if y[i] > 0.0 else 0])


@compiled
def add_changes(
    operand: Any, rows: Indices, changes: Vector, further: Vector, positive: Any, sums: Vector
) -> None:
    """sums[0, k] += Σ changes[i] · x of rows[i], over the rows of class k, 1 if positive[i]; the
    same for `further` and sums[1]."""
    for i in range(len(rows)):
        k = 1 if positive[i] else 0
        if changes[i] != 0.0:
            add(operand, rows[i], changes[i], sums[0, k])
        if further[i] != 0.0:
            add(operand, rows[i], further[i], sums[1, k])
