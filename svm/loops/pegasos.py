"""The inner loop of Pegasos."""

from __future__ import annotations

from typing import Any

from svm.data.matrices import Floats, Indices, Vector
from svm.loops import compiled
from svm.loops.row_operations import add, dot, prefetch, squared_norm

# Numbers of the three intercept treatments inside compiled loops.
NONE, AUGMENTED, FREE = 0, 1, 2

LEAST_FACTOR = 1e-100
"""Least product of projection factors: its inverse, which counts a violation, must be finite."""


@compiled
def updates(
    operand: Any,
    rows: Indices,
    order: Indices,
    y: Vector,
    weights: Vector,
    regularization: float,
    treatment: int,
    project: bool,
    step: int,
    v: Floats,
    intercept: float,
    violations: Vector,
    harmonic: float,
    v_lag: Floats,
    intercept_sum: float,
    intercept_lag: float,
) -> tuple[float, float, float, float, float]:
    """One update for every i in `order`, after `step` earlier ones.

    With step size 1/(λt) the iterate is w_t = v_t/(λt), where v_t sums sᵢyᵢxᵢ over the violations
    so far: shrinking w costs nothing. v, `violations` and v_lag change in place. `intercept` is b
    if it is free, and the constant feature's entry of v if it is augmented.

    The average of w since some step T₀ costs one addition a violation: with h_t = Σ 1/s over
    T₀ < s ≤ t, the sum of v_t/t is h_T v_T - Σ h_{t-1} (v_t - v_{t-1}); `harmonic` is h and v_lag
    that last sum. `intercept_sum` adds up a free b, and `intercept_lag` is the lag of an augmented
    one. With `project`, w is projected onto the ball of radius 1/√λ (all of v shrinks by a
    factor, counts of violations too). Averages are kept if v_lag is not empty.

    Returns (intercept, harmonic, intercept_sum, intercept_lag, factor): the caller multiplies the
    violations by the remaining factor of the projections.
    """
    averaged = len(v_lag) > 0
    norm, factor = 0.0, 1.0
    if project:
        for j in range(len(v)):
            norm += v[j] * v[j]
        if treatment == AUGMENTED:
            norm += intercept * intercept
    for k in range(len(order)):
        i = order[k]
        if k + 1 < len(order):
            prefetch(operand, rows[order[k + 1]])
        scale = 1.0 / (regularization * step) if step > 0 else 0.0
        product = dot(operand, rows[i], v)
        if treatment == AUGMENTED:
            product += intercept
        score = scale * product
        if treatment == FREE:
            score += intercept
        step += 1
        if y[i] * score < 1.0:
            change = weights[i] * y[i]
            add(operand, rows[i], change, v)
            violations[i] += 1.0 / factor
            if averaged:
                add(operand, rows[i], harmonic * change, v_lag)
            if treatment == AUGMENTED:
                intercept += change
                intercept_lag += harmonic * change
            elif treatment == FREE:
                # The objective is not strongly convex in b: 1/(λt) alone would move b to ±1/λ at
                # first; 1/√t is the step for that case, and the smaller of the two is used.
                intercept += min(1.0 / (regularization * step), step**-0.5) * change
            if project:
                square = squared_norm(operand, rows[i])
                if treatment == AUGMENTED:
                    square += 1.0
                norm = max(0.0, norm + 2.0 * change * product + change * change * square)
        if project and norm > regularization * step * step:
            shrink = step * (regularization / norm) ** 0.5
            norm = regularization * step * step
            factor *= shrink
            if factor < LEAST_FACTOR:
                for j in range(len(violations)):
                    violations[j] *= factor
                factor = 1.0
            if averaged:
                for j in range(len(v)):
                    v_lag[j] += harmonic * (shrink - 1.0) * v[j]
            for j in range(len(v)):
                v[j] *= shrink
            if treatment == AUGMENTED:
                intercept_lag += harmonic * (shrink - 1.0) * intercept
                intercept *= shrink
        harmonic += 1.0 / step
        intercept_sum += intercept
    return intercept, harmonic, intercept_sum, intercept_lag, factor
