"""The inner loops of Pegasos: a row for each update, or a batch of rows."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from svm.data.matrices import Floats, Indices, Signs, Vector
from svm.loops import compiled
from svm.loops.row_operations import add, dot, prefetch, squared_norm

# Numbers of the three intercept treatments inside compiled loops.
NONE, AUGMENTED, FREE = 0, 1, 2

Averages: TypeAlias = tuple[float, float, float]

LEAST_FACTOR = 1e-100
"""Least product of projection factors: its inverse, which counts a violation, must be finite."""


@compiled
def updates(
    operand: Any,
    rows: Indices,
    order: Indices,
    y: Signs,
    margins: Vector | None,
    weights: Vector,
    regularization: float,
    treatment: int,
    project: bool,
    limit: float,
    v: Floats,
    violations: Vector,
    v_lag: Floats,
    step: int,
    intercept: float,
    averages: Averages,
) -> tuple[float, Averages, float]:
    """One update for every i in `order`, after `step` earlier ones.

    With step size 1/(λt) the iterate is w_t = v_t/(λt), where v_t sums sᵢyᵢxᵢ over the violations
    so far: shrinking w costs nothing. v, `violations` and v_lag change in place. `intercept` is b
    if it is free, and the constant feature's entry of v if it is augmented.

    The average of w since some step T₀ costs one addition a violation: with h_t = Σ 1/s over
    T₀ < s ≤ t, the sum of v_t/t is h_T v_T - Σ h_{t-1} (v_t - v_{t-1}); `harmonic` is h and v_lag
    that last sum. `intercept_sum` adds up a free b, and `intercept_lag` is the lag of an augmented
    one. With `project`, w is projected onto the ball of radius 1/√λ (all of v shrinks by a
    factor, counts of violations too). Averages are kept if v_lag is not empty.

    Returns (intercept, (harmonic, intercept_sum, intercept_lag), factor): the caller multiplies the
    violations by the remaining factor of the projections.
    """
    harmonic, intercept_sum, intercept_lag = averages
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
        if y[i] * score < (1.0 if margins is None else margins[i]):
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
                # first; 1/√t is the step for that case. `limit` is 1, or ∞ for the first alone.
                intercept += min(1.0 / (regularization * step), limit * step**-0.5) * change
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
    return intercept, (harmonic, intercept_sum, intercept_lag), factor


@compiled
def batches(
    operand: Any,
    rows: Indices,
    order: Indices,
    y: Signs,
    margins: Vector | None,
    weights: Vector,
    regularization: float,
    treatment: int,
    project: bool,
    limit: float,
    v: Floats,
    violations: Vector,
    v_lag: Floats,
    step: int,
    intercept: float,
    averages: Averages,
    batch_size: int,
    to_come: int,
    seen: int,
    pending: Floats,
    pending_total: float,
) -> tuple[float, Averages, float, int, int, int, float]:
    """`updates` with the mean sub-gradient of a batch of rows in each update.

    `to_come` rows of the epoch are left, counted from the first one of the open batch, of which
    `seen` were in earlier calls. Their violations are in `pending` (Σ sᵢyᵢxᵢ) and `pending_total`
    (Σ sᵢyᵢ), divided by the size of the batch; `pending` changes in place, too. A violation counts
    1 divided by that size. Before the first update v may be λw of any w, which judges the first
    batch.

    Returns (intercept, (harmonic, intercept_sum, intercept_lag), factor, step, to_come, seen,
    pending_total).
    """
    harmonic, intercept_sum, intercept_lag = averages
    averaged, factor, count = len(v_lag) > 0, 1.0, 0
    hits = np.empty(min(batch_size, len(order)), dtype=np.int64)
    carried = seen > 0
    for position in range(len(order)):
        i = order[position]
        size = min(batch_size, to_come)
        product = dot(operand, rows[i], v)
        if treatment == AUGMENTED:
            product += intercept
        score = product / (regularization * max(1, step))
        if treatment == FREE:
            score += intercept
        if y[i] * score < (1.0 if margins is None else margins[i]):
            hits[count] = i
            count += 1
            violations[i] += 1.0 / (factor * size)
        seen += 1
        if seen < size:
            continue
        if step == 0:  # 1 - 1/t is 0: the weights that judged the first batch are forgotten
            v[:] = 0.0
            if treatment == AUGMENTED:
                intercept = 0.0
        step += 1
        total = pending_total
        for k in range(count):
            change = weights[hits[k]] * y[hits[k]] / size
            add(operand, rows[hits[k]], change, v)
            if averaged:
                add(operand, rows[hits[k]], harmonic * change, v_lag)
            total += change
        if carried:
            for j in range(len(v)):
                v[j] += pending[j]
                if averaged:
                    v_lag[j] += harmonic * pending[j]
            pending[:] = 0.0
        if treatment == AUGMENTED:
            intercept += total
            intercept_lag += harmonic * total
        elif treatment == FREE:
            intercept += min(1.0 / (regularization * step), limit * step**-0.5) * total
        if project:
            norm = intercept * intercept if treatment == AUGMENTED else 0.0
            for j in range(len(v)):
                norm += v[j] * v[j]
            if norm > regularization * step * step:
                shrink = step * (regularization / norm) ** 0.5
                factor *= shrink
                if factor < LEAST_FACTOR:
                    for j in range(len(violations)):
                        violations[j] *= factor
                    factor = 1.0
                for j in range(len(v)):
                    if averaged:
                        v_lag[j] += harmonic * (shrink - 1.0) * v[j]
                    v[j] *= shrink
                if treatment == AUGMENTED:
                    intercept_lag += harmonic * (shrink - 1.0) * intercept
                    intercept *= shrink
        harmonic += 1.0 / step
        intercept_sum += intercept
        to_come -= size
        seen, count, pending_total, carried = 0, 0, 0.0, False
    size = min(batch_size, to_come)
    for k in range(count):  # the batch is continued with another operand
        change = weights[hits[k]] * y[hits[k]] / size
        add(operand, rows[hits[k]], change, pending)
        pending_total += change
    averages = harmonic, intercept_sum, intercept_lag
    return intercept, averages, factor, step, to_come, seen, pending_total
