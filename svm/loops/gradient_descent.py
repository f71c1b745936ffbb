"""The inner loop of (batch, mini-batch and stochastic) gradient descent."""

from __future__ import annotations

from typing import Any

import numpy as np

from svm.loops import compiled
from svm.loops.rows import add, dot
from svm.matrices import Indices, Vector


@compiled
def hinge_sum(
    operand: Any, rows: Indices, y: Vector, weights: Vector, w: Vector, intercept: float
) -> float:
    """Σ sᵢ max(0, 1 - yᵢ f(xᵢ))."""
    total = 0.0
    for i in range(len(rows)):
        total += weights[i] * max(0.0, 1.0 - y[i] * (dot(operand, rows[i], w) + intercept))
    return total


@compiled
def descend(
    operand: Any,
    rows: Indices,
    batches: Indices,
    batch_size: int,
    y: Vector,
    weights: Vector,
    C: float,
    share: float,
    whole: bool,
    learning_rate: float,
    decay: float,
    power: float,
    updates: int,
    has_intercept: bool,
    penalized: bool,
    w: Vector,
    intercept: float,
    epsilon: float,
    smoothing: float,
    cost: float,
    change: float,
) -> tuple[float, int, float, float]:
    """One update for every batch of `batch_size` in `batches`; w changes in place.

    The sub-gradient of one batch is r w - C Σ sᵢ yᵢ xᵢ over its violations, with r = 1 where the
    regularizer is `whole`, else the batch's share of all rows. After t updates, `updates` of them
    before this call, the learning rate is learning_rate (1 + decay t)^-power. With epsilon > 0 the
    cost-change rule is tested after every update, and its being met ends the loop.

    Returns (intercept, updates made, cost, smoothed change).
    """
    gradient = np.empty_like(w)
    made = 0
    rate = learning_rate
    for start in range(0, len(batches), batch_size):
        gradient[:] = 0.0
        intercept_gradient = 0.0
        batch = batches[start : start + batch_size]
        for i in batch:
            if y[i] * (dot(operand, rows[i], w) + intercept) < 1.0:
                pull = C * weights[i] * y[i]
                add(operand, rows[i], -pull, gradient)
                intercept_gradient -= pull
        r = 1.0 if whole else share * len(batch)
        if penalized:
            intercept_gradient += r * intercept
        if power > 0.0:
            rate = learning_rate * (1.0 + decay * (updates + made)) ** -power
        for j in range(len(w)):
            w[j] -= rate * (r * w[j] + gradient[j])
        if has_intercept:
            intercept -= rate * intercept_gradient
        made += 1
        if epsilon > 0.0:
            previous = cost
            cost = C * hinge_sum(operand, rows, y, weights, w, intercept)
            for j in range(len(w)):
                cost += 0.5 * w[j] * w[j]
            if penalized:
                cost += 0.5 * intercept * intercept
            change *= smoothing
            change += (1.0 - smoothing) * 100.0 * abs(previous - cost) / previous
            if change < epsilon or not np.isfinite(cost):
                break
    return intercept, made, cost, change
