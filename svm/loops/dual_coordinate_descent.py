"""The inner loop of dual coordinate descent."""

from __future__ import annotations

from typing import Any

import numpy as np

from svm.loops import compiled
from svm.loops.rows import add, dot
from svm.matrices import Floats, Indices, Vector


@compiled
def sweep(
    operand: Any,
    rows: Indices,
    order: Indices,
    y: Vector,
    weights: Vector,
    inverse_curvature: Vector,
    scale: float,
    augmented: bool,
    upper: float,
    lower: float,
    w: Floats,
    intercept: float,
    alpha: Vector,
    kept: Indices,
) -> tuple[float, float, float, int]:
    """Minimize over one αᵢ at a time, for every i in `order`; α and w change in place.

    `scale` is 1/(λn) and `inverse_curvature` λn/‖xᵢ‖². A variable at a bound whose gradient is
    beyond `upper` (at 0) or `lower` (at sᵢ) is shrunk: it is left out of `kept`. Returns
    (intercept, largest and smallest projected gradient, length of `kept`).
    """
    largest, smallest, n_kept = -np.inf, np.inf, 0
    for i in order:
        label, bound, old = y[i], weights[i], alpha[i]
        gradient = label * (dot(operand, rows[i], w) + intercept) - 1.0
        projected = gradient
        if old <= 0.0:
            if gradient > upper:
                continue
            projected = min(gradient, 0.0)
        elif old >= bound:
            if gradient < lower:
                continue
            projected = max(gradient, 0.0)
        kept[n_kept] = i
        n_kept += 1
        largest = max(largest, projected)
        smallest = min(smallest, projected)
        if abs(projected) > 1e-12:
            new = min(max(old - gradient * inverse_curvature[i], 0.0), bound)
            alpha[i] = new
            change = (new - old) * label * scale
            add(operand, rows[i], change, w)
            if augmented:
                intercept += change
    return intercept, largest, smallest, n_kept
