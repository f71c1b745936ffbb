"""Products with chosen rows of a matrix, accumulated in float64 even if the data is float32."""

from __future__ import annotations

from typing import Any

from svm.data.matrices import Indices, Vector
from svm.loops import compiled
from svm.loops.row_operations import add, add_squares, dot, squared_norm


@compiled
def scores(operand: Any, rows: Indices, w: Vector, intercept: float, out: Vector) -> None:
    """out[i] = ⟨x of rows[i], w⟩ + intercept."""
    for i in range(len(rows)):
        out[i] = dot(operand, rows[i], w) + intercept


@compiled
def add_rows(operand: Any, rows: Indices, coefficients: Vector, out: Vector) -> None:
    """out += Σ coefficients[i] · x of rows[i]."""
    for i in range(len(rows)):
        if coefficients[i] != 0.0:
            add(operand, rows[i], coefficients[i], out)


@compiled
def squared_norms(operand: Any, rows: Indices, out: Vector) -> None:
    """out[i] = ‖x of rows[i]‖²."""
    for i in range(len(rows)):
        out[i] = squared_norm(operand, rows[i])


@compiled
def weighted_squares(operand: Any, rows: Indices, coefficients: Vector, out: Vector) -> None:
    """out += Σ coefficients[i] · x² of rows[i], entry by entry."""
    for i in range(len(rows)):
        add_squares(operand, rows[i], coefficients[i], out)
