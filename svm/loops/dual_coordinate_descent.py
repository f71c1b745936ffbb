"""The inner loop of dual coordinate descent."""

from __future__ import annotations

from typing import Any

import numpy as np

from svm.data.matrices import Counts, Indices, Signs, Vector
from svm.loops import compiled
from svm.loops.row_operations import add, dot, prefetch

LONGEST_REST = 63


@compiled
def sweep(
    operand: Any,
    rows: Indices,
    order: Indices,
    y: Signs,
    margins: Vector | None,
    upper: Vector,
    ridge: Vector | None,
    step: Vector,
    scale: float,
    augmented: bool,
    w: Vector,
    intercept: float,
    alpha: Vector,
    rest: Counts,
    resting: Counts,
) -> tuple[float, float, float]:
    """One step in one αᵢ at a time, for every i in `order`.

    αᵢ ← clip(αᵢ - step[i] (yᵢ f(xᵢ) - qᵢ + ridgeᵢ αᵢ), 0, upperᵢ), and w, kept equal to `scale`
    Σ αᵢ yᵢ xᵢ. `ridge` is None if it is 0, `margins` if all are 1; code for that is compiled apart.
    `rest` and `resting` grow from 0 to 1, 3, 7 … `LONGEST_REST` if a variable is at a bound and its
    gradient keeps it there, and become 0 if it moves. α, w and these change in place. Returns
    (intercept, largest and smallest projected gradient).
    """
    largest, smallest = -np.inf, np.inf
    for k in range(len(order)):
        i = order[k]
        if k + 1 < len(order):
            prefetch(operand, rows[order[k + 1]])
        label, bound, old = y[i], upper[i], alpha[i]
        margin = 1.0 if margins is None else margins[i]
        gradient = label * (dot(operand, rows[i], w) + intercept) - margin
        if ridge is not None:
            gradient += ridge[i] * old
        projected = gradient
        if old <= 0.0:
            projected = min(gradient, 0.0)
        elif old >= bound:
            projected = max(gradient, 0.0)
        largest = max(largest, projected)
        smallest = min(smallest, projected)
        if projected == 0.0:
            rest[i] = resting[i] = min(2 * rest[i] + 1, LONGEST_REST)
            continue
        rest[i] = resting[i] = 0
        new = min(max(old - gradient * step[i], 0.0), bound)
        alpha[i] = new
        change = (new - old) * label * scale
        add(operand, rows[i], change, w)
        if augmented:
            intercept += change
    return intercept, largest, smallest
