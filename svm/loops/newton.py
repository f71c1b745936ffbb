"""The inner loops of Newton's method on the smoothed hinge loss.

A row has the slope aᵢ = clip(centerᵢ + (qᵢ - yᵢ fᵢ)/μ, 0, 1), computed where it is needed. Classes
are 0 for yᵢ = -1, and 1. `margins` are None if all qᵢ are 1; code for that is compiled apart. Loops
over `edges` read the rows of some leaves, edges[k] … edges[k + 1] - 1, and write a row of `out` for
each; their `weights` are those of all rows, or those of any leaf.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from svm.data.matrices import Floats, Indices, Signs, Vector
from svm.loops import compiled
from svm.loops.row_operations import add, dot
from svm.loops.short_rows import TOGETHER, add_short, is_short


@compiled
def slope_and_curvature(
    edges: Indices,
    y: Signs,
    margins: Vector | None,
    weights: Vector,
    scores: Vector,
    changes: Vector,
    centers: Vector,
    smoothing: float,
    t: float,
    out: Vector,
) -> None:
    """First and second derivative in t of the smoothed loss at the scores fᵢ + t changeᵢ."""
    for k in range(len(edges) - 1):
        # Slices, as compiled code tests each index that may be negative.
        leaf = slice(edges[k], edges[k + 1])
        labels, f, d, c = y[leaf], scores[leaf], changes[leaf], centers[leaf]
        q = f if margins is None else margins[leaf]
        s = weights[leaf] if len(weights) == len(y) else weights[: len(labels)]
        slope = curvature = 0.0
        for i in range(len(labels)):
            margin = 1.0 if margins is None else q[i]
            change = labels[i] * d[i]
            short = margin - labels[i] * f[i] - t * change + smoothing * c[i]
            slope -= s[i] * change * min(max(short, 0.0), smoothing)
            curvature += s[i] * change * change * ((short > 0.0) & (short < smoothing))
        out[k, 0] = slope / smoothing
        out[k, 1] = curvature / smoothing


@compiled
def slopes(
    y: Signs,
    margins: Vector | None,
    scores: Vector,
    centers: Vector,
    smoothing: float,
    out: Vector,
) -> None:
    """out[i] = aᵢ."""
    for i in range(len(y)):
        short = (1.0 if margins is None else margins[i]) - y[i] * scores[i]
        out[i] = min(max(centers[i] + short / smoothing, 0.0), 1.0)


@compiled
def near_margin(
    edges: Indices,
    y: Signs,
    margins: Vector | None,
    weights: Vector,
    scores: Vector,
    centers: Vector,
    smoothing: float,
    following: float,
    positions: Indices,
    changes: Vector,
    out: Vector,
) -> int:
    """The rows with 0 < aᵢ < 1, and cᵢ = sᵢ yᵢ (a of the smoothing `following`, not clipped, - aᵢ).

    Writes their positions and cᵢ, and Σ sᵢ aᵢ yᵢ of all rows of each leaf, their Σ cᵢ and their
    number into out[k]. Returns how many there are.
    """
    count = 0
    for k in range(len(edges) - 1):
        leaf = slice(edges[k], edges[k + 1])
        labels, f, c = y[leaf], scores[leaf], centers[leaf]
        q = f if margins is None else margins[leaf]
        s = weights[leaf] if len(weights) == len(y) else weights[: len(labels)]
        total = change = 0.0
        number = 0
        for i in range(len(labels)):  # in vector registers, without the next loop's positions
            short = (1.0 if margins is None else q[i]) - labels[i] * f[i]
            slope = min(max(c[i] + short / smoothing, 0.0), 1.0)
            total += s[i] * slope * labels[i]
            if 0.0 < slope < 1.0:
                change += s[i] * labels[i] * (c[i] + short / following - slope)
                number += 1
        out[k, 0], out[k, 1], out[k, 2] = total, change, number
        for i in range(len(labels)):
            short = (1.0 if margins is None else q[i]) - labels[i] * f[i]
            slope = min(max(c[i] + short / smoothing, 0.0), 1.0)
            positions[count] = edges[k] + i  # whether it is or not, as in `end_of_step`
            changes[count] = s[i] * labels[i] * (c[i] + short / following - slope)
            count += (slope > 0.0) & (slope < 1.0)
    return count


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
    y: Signs,
    margins: Vector | None,
    weights: Vector,
    centers: Vector,
    smoothing: float,
    scores: Vector,
    sums: Vector,
    totals: Vector,
    largest: Vector,
) -> None:
    """scores[i] = ⟨x of rows[i], w⟩ + intercept, and sums over the rows of each class k: sums[k] +=
    Σ sᵢ aᵢ xᵢ, totals[k] += Σ sᵢ aᵢ, largest[k] = max aᵢ; totals[2] += Σ sᵢ max(0, qᵢ - yᵢ fᵢ), and
    with margins totals[3 + k] += Σ sᵢ aᵢ qᵢ."""
    n, at_once = len(rows), is_short(operand)
    size = min(n, TOGETHER) if at_once else n
    chosen, factors = np.empty(TOGETHER, np.int64), np.empty((2, TOGETHER))
    for first in range(0, n, max(1, size)):
        count = 0
        for i in range(first, min(first + size, n)):
            s, positive = weights[i], y[i] > 0
            if margins is not None and i > 0 and rows[i] == rows[i - 1]:
                scores[i] = scores[i - 1]
            else:
                scores[i] = dot(operand, rows[i], w) + intercept
            short = (1.0 if margins is None else margins[i]) - y[i] * scores[i]
            slope = min(max(centers[i] + short / smoothing, 0.0), 1.0)
            totals[2] += s * max(short, 0.0)
            k = 1 if positive else 0
            if at_once:
                chosen[count] = rows[i]  # whether it is or not: a branch would be taken at random
                factors[0, count] = s * slope * (not positive)
                factors[1, count] = s * slope * positive
                count += slope > 0.0
            elif slope > 0.0:
                add(operand, rows[i], s * slope, sums[k])
            totals[k] += s * slope
            largest[k] = max(largest[k], slope)
            if margins is not None:
                totals[3 + k] += s * slope * margins[i]
        add_short(operand, chosen[:count], factors, sums)


@compiled
def end_of_step(
    y: Signs,
    margins: Vector | None,
    epsilon: float,
    weights: Vector,
    scores: Vector,
    changes: Vector,
    centers: Vector,
    before: float,
    smoothing: float,
    length: float,
    ends: Vector,
    changed: Indices,
    first: Vector,
    further: Vector,
    totals: Vector,
    largest: Vector,
) -> int:
    """The slopes after a step to the scores fᵢ + length · changeᵢ, which replace the changes.

    They were those of the smoothing `before`. `ends`, if not empty, become the slopes at the scores
    fᵢ + changeᵢ for the rows near the margin, and stay for the others; else those after the step.
    Rows with other slopes are `changed`; how much the ends change is `first`, and from there to the
    slopes after the step `further`, both with weights. Returns their number.

    totals: += Σ sᵢ aᵢ of each class after the step, then at the ends; the hinge loss; the part of
    it that is not Σ sᵢ aᵢ (qᵢ - yᵢ fᵢ); and the rows on the wrong side, or with margins the sum of
    the errors, and Σ sᵢ aᵢ qᵢ in place of the first four. largest: the largest aᵢ of each class, in
    the same order.
    """
    count = wrong = 0
    errors = line_below = line_above = end_line_below = end_line_above = 0.0
    below = above = end_below = end_above = hinge = cost = 0.0
    most_below = most_above = end_most_below = end_most_above = 0.0
    for i in range(len(y)):
        s, positive = weights[i], y[i] > 0
        margin = 1.0 if margins is None else margins[i]
        old = min(max(centers[i] + (margin - y[i] * scores[i]) / before, 0.0), 1.0)
        score = scores[i] + length * changes[i]
        short = margin - y[i] * score
        slope = end = min(max(centers[i] + short / smoothing, 0.0), 1.0)
        if len(ends):
            end_short = margin - y[i] * (scores[i] + changes[i])
            end = min(max(centers[i] + end_short / smoothing, 0.0), 1.0)
            end = end if 0.0 < old < 1.0 else old
            ends[i] = end
            end_below += s * end * (not positive)
            end_above += s * end * positive
            end_most_above = max(end_most_above, end * positive)
            end_most_below = max(end_most_below, end * (not positive))
        if margins is not None:
            errors += max(short + epsilon, 0.0)
            line_below += s * slope * margin * (not positive)
            line_above += s * slope * margin * positive
            if len(ends):
                end_line_below += s * end * margin * (not positive)
                end_line_above += s * end * margin * positive
        changes[i] = score
        wrong += (score > 0.0) != positive
        below += s * slope * (not positive)
        above += s * slope * positive
        most_above = max(most_above, slope * positive)
        most_below = max(most_below, slope * (not positive))
        loss = max(short, 0.0)
        hinge += s * loss
        cost += s * (loss - slope * short)
        changed[count] = i  # whether it is or not: a branch would be taken at random
        first[count] = s * (end - old)
        further[count] = s * (slope - end)
        count += (slope != old) | (end != old)
    sums = below, above, end_below, end_above, hinge, cost, float(wrong)
    for k in range(7):
        totals[k] += sums[k]
    if margins is not None:
        totals[6] += errors - float(wrong)
        lines = line_below, line_above, end_line_below, end_line_above
        for k in range(4):
            totals[7 + k] += lines[k]
    most = most_below, most_above, end_most_below, end_most_above
    for k in range(4):
        largest[k] = max(largest[k], most[k])
    return count


@compiled
def add_changes(
    operand: Any, rows: Indices, changes: Vector, further: Vector, y: Signs, sums: Vector
) -> None:
    """sums[0, k] += Σ changes[i] · x of rows[i], over the rows of class k; the same for `further`
    and sums[1]."""
    if is_short(operand):
        factors, last = np.empty((2, TOGETHER)), 0
        for first in range(0, len(rows), TOGETHER):
            last = min(first + TOGETHER, len(rows))
            for part, values in enumerate((changes, further)):
                moved = False
                for i in range(first, last):
                    moved |= values[i] != 0.0
                    factors[0, i - first] = values[i] * (y[i] <= 0)
                    factors[1, i - first] = values[i] * (y[i] > 0)
                if moved:
                    add_short(operand, rows[first:last], factors, sums[part])
        return
    for i in range(len(rows)):
        k = 1 if y[i] > 0 else 0
        if changes[i] != 0.0:
            add(operand, rows[i], changes[i], sums[0, k])
        if further[i] != 0.0:
            add(operand, rows[i], further[i], sums[1, k])
