"""The inner loops of (batch, mini-batch and stochastic) gradient descent."""

from __future__ import annotations

from typing import Any

from svm.data.matrices import Indices, Signs, Vector
from svm.loops import compiled
from svm.loops.row_operations import add, dot


@compiled
def descend(
    operand: Any,
    rows: Indices,
    drawn: Indices,
    y: Signs,
    margins: Vector | None,
    weights: Vector,
    C: float,
    share: float,
    whole: bool,
    learning_rate: float,
    decay: float,
    power: float,
    has_intercept: bool,
    penalized: bool,
    batch_size: int,
    to_come: int,
    once: bool,
    updates: int,
    w: Vector,
    intercept: float,
    gradient: Vector,
    intercept_gradient: float,
    seen: int,
    w_sum: Vector,
    intercept_sum: float,
) -> tuple[float, float, int, int, int, float]:
    """Batches of `batch_size` rows, one after the other; w and `gradient` change in place.

    `gradient` and `intercept_gradient` have the sum over `seen` rows of the first batch; a batch
    that does not end here is continued by the next call. `to_come` rows of the epoch are left,
    including `drawn`, so the last batch may be short. With `once` the loop ends after the first
    update.

    The sub-gradient of one batch is r w - C Σ sᵢ yᵢ xᵢ over its violations, with r = 1 if the
    regularizer is `whole`, else the batch's share of all rows. After `updates` updates the learning
    rate is learning_rate (1 + decay updates)^-power. w_sum, if it is not empty, and `intercept_sum`
    add up the iterates.

    Returns (intercept, its gradient, rows seen of the open batch, updates, rows taken of `drawn`,
    intercept_sum).
    """
    for position in range(len(drawn)):
        i = drawn[position]
        margin = 1.0 if margins is None else margins[i]
        if y[i] * (dot(operand, rows[i], w) + intercept) < margin:
            change = C * weights[i] * y[i]
            add(operand, rows[i], -change, gradient)
            intercept_gradient -= change
        seen += 1
        if seen < batch_size and position + 1 < to_come:
            continue
        r = 1.0 if whole else share * seen
        if penalized:
            intercept_gradient += r * intercept
        rate = learning_rate
        if power > 0.0:
            rate *= (1.0 + decay * updates) ** -power
        for j in range(len(w)):
            w[j] -= rate * (r * w[j] + gradient[j])
        if has_intercept:
            intercept -= rate * intercept_gradient
        gradient[:] = 0.0
        intercept_gradient = 0.0
        seen = 0
        updates += 1
        for j in range(len(w_sum)):
            w_sum[j] += w[j]
        intercept_sum += intercept
        if once:
            return intercept, intercept_gradient, seen, updates, position + 1, intercept_sum
    return intercept, intercept_gradient, seen, updates, len(drawn), intercept_sum


@compiled
def add_violations(
    operand: Any,
    rows: Indices,
    y: Signs,
    margins: Vector | None,
    weights: Vector,
    w: Vector,
    intercept: float,
    out: Vector,
    total: Vector,
) -> None:
    """out += Σ sᵢ yᵢ xᵢ over the rows with yᵢ f(xᵢ) < 1, and total[0] += Σ sᵢ yᵢ."""
    for i in range(len(rows)):
        margin = 1.0 if margins is None else margins[i]
        if y[i] * (dot(operand, rows[i], w) + intercept) < margin:
            change = weights[i] * y[i]
            add(operand, rows[i], change, out)
            total[0] += change
