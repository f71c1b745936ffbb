"""The inner loop of Pegasos."""

from __future__ import annotations

from typing import Any

from svm.loops import compiled
from svm.loops.rows import add, dot
from svm.matrices import Floats, Indices, Vector

# Numbers of the three intercept treatments inside compiled loops.
NONE, AUGMENTED, FREE = 0, 1, 2


@compiled
def updates(
    operand: Any,
    rows: Indices,
    order: Indices,
    y: Vector,
    weights: Vector,
    regularization: float,
    treatment: int,
    step: int,
    v: Floats,
    intercept: float,
    violations: Indices,
) -> float:
    """One update for every i in `order`, after `step` earlier ones; returns the intercept.

    With step size 1/(λt) the iterate is w_t = v_t/(λt), where v_t sums yᵢxᵢ over the violations so
    far: shrinking w costs nothing. v and `violations` change in place. `intercept` is b where it
    is free, and the constant feature's entry of v where it is augmented.
    """
    for i in order:
        scale = 1.0 / (regularization * step) if step > 0 else 0.0
        score = scale * dot(operand, rows[i], v)
        if treatment == AUGMENTED:
            score += scale * intercept
        elif treatment == FREE:
            score += intercept
        step += 1
        if y[i] * score < 1.0:
            change = weights[i] * y[i]
            add(operand, rows[i], change, v)
            violations[i] += 1
            if treatment == AUGMENTED:
                intercept += change
            elif treatment == FREE:
                # The objective is not strongly convex in b: 1/(λt) alone would throw b to ±1/λ at
                # first; 1/√t is the step for that case, and the smaller of the two is taken.
                intercept += min(1.0 / (regularization * step), step**-0.5) * change
    return intercept
