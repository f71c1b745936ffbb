"""The inner loops of Newton's method on the smoothed hinge loss.

A row has the slope aᵢ = clip(centerᵢ + (1 - yᵢ fᵢ)/μ, 0, 1), computed where it is needed. `weights`
are those of the rows, or empty if all are 1. Classes are 0 for yᵢ = -1, and 1. Loops over `edges`
read the rows of some leaves, edges[k] … edges[k + 1] - 1, and write a row of `out` for each.
"""

from __future__ import annotations

from typing import Any

from numba.extending import register_jitable

from svm.data.matrices import Floats, Indices, Signs, Vector
from svm.loops import compiled
from svm.loops.row_operations import add, dot


@register_jitable
def slope_of(center: float, short: float, smoothing: float) -> float:
    """aᵢ of a row whose margin is short of 1 by `short`."""
    return min(max(center + short / smoothing, 0.0), 1.0)


@compiled
def slope_and_curvature(
    edges: Indices,
    y: Signs,
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
        slope = curvature = 0.0
        for i in range(edges[k], edges[k + 1]):
            s = weights[i] if len(weights) else 1.0
            change = y[i] * changes[i]
            short = 1.0 - y[i] * scores[i] - t * change + smoothing * centers[i]
            linear = min(max(short, 0.0), smoothing)
            slope -= s * change * linear
            if 0.0 < short < smoothing:
                curvature += s * change * change
        out[k, 0] = slope / smoothing
        out[k, 1] = curvature / smoothing


@compiled
def near_margin(
    edges: Indices,
    y: Signs,
    weights: Vector,
    scores: Vector,
    centers: Vector,
    smoothing: float,
    following: float,
    starts: Indices,
    positions: Indices,
    pulls: Vector,
    out: Vector,
) -> None:
    """The rows with 0 < aᵢ < 1, and cᵢ = sᵢ yᵢ (a of the smoothing `following`, not clipped, - aᵢ).

    Writes Σ sᵢ aᵢ yᵢ of all rows, their Σ cᵢ and their number into out[k]; and, if `positions` is
    not empty, their numbers and cᵢ to positions[starts[k]:] and pulls[starts[k]:]. With `following`
    0, cᵢ = 0.
    """
    for k in range(len(edges) - 1):
        total = pull = 0.0
        count = 0
        for i in range(edges[k], edges[k + 1]):
            s = weights[i] if len(weights) else 1.0
            short = 1.0 - y[i] * scores[i]
            slope = slope_of(centers[i], short, smoothing)
            total += s * slope * y[i]
            if 0.0 < slope < 1.0:
                c = 0.0
                if following > 0.0:
                    c = s * y[i] * (centers[i] + short / following - slope)
                if len(positions):
                    positions[starts[k] + count] = i
                    pulls[starts[k] + count] = c
                pull += c
                count += 1
        out[k, 0], out[k, 1], out[k, 2] = total, pull, count


@compiled
def slopes_at(y: Signs, scores: Vector, centers: Vector, smoothing: float, out: Vector) -> None:
    """out[i] = aᵢ."""
    for i in range(len(y)):
        out[i] = slope_of(centers[i], 1.0 - y[i] * scores[i], smoothing)


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
    weights: Vector,
    centers: Vector,
    smoothing: float,
    scores: Vector,
    sums: Vector,
    totals: Vector,
    largest: Vector,
) -> None:
    """scores[i] = ⟨x of rows[i], w⟩ + intercept, and sums over the rows of each class k: sums[k] +=
    Σ sᵢ aᵢ xᵢ, totals[k] += Σ sᵢ aᵢ, largest[k] = max aᵢ; totals[2] += Σ sᵢ max(0, 1 - yᵢ fᵢ)."""
    for i in range(len(rows)):
        s = weights[i] if len(weights) else 1.0
        k = 1 if y[i] > 0 else 0
        scores[i] = dot(operand, rows[i], w) + intercept
        short = 1.0 - y[i] * scores[i]
        slope = slope_of(centers[i], short, smoothing)
        totals[2] += s * max(short, 0.0)
        if slope > 0.0:
            add(operand, rows[i], s * slope, sums[k])
            totals[k] += s * slope
            largest[k] = max(largest[k], slope)


@compiled
def end_of_step(
    y: Signs,
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
    it that is not Σ sᵢ aᵢ (1 - yᵢ fᵢ); and the rows on the wrong side. largest: the largest aᵢ of
    each class, in the same order.
    """
    count = wrong = 0
    hinge = cost = 0.0
    for i in range(len(y)):
        s = weights[i] if len(weights) else 1.0
        k = 1 if y[i] > 0 else 0
        old = slope_of(centers[i], 1.0 - y[i] * scores[i], before)
        score = scores[i] + length * changes[i]
        short = 1.0 - y[i] * score
        slope = end = slope_of(centers[i], short, smoothing)
        if len(ends):
            end = old
            if 0.0 < old < 1.0:
                end = slope_of(centers[i], 1.0 - y[i] * (scores[i] + changes[i]), smoothing)
            ends[i] = end
            totals[2 + k] += s * end
            largest[2 + k] = max(largest[2 + k], end)
        changes[i] = score
        wrong += (score > 0.0) != (y[i] > 0)
        if slope > 0.0:
            totals[k] += s * slope
            largest[k] = max(largest[k], slope)
        loss = max(short, 0.0)
        hinge += s * loss
        cost += s * (loss - slope * short)
        if slope != old or end != old:
            changed[count] = i
            first[count] = s * (end - old)
            further[count] = s * (slope - end)
            count += 1
    totals[4] += hinge
    totals[5] += cost
    totals[6] += wrong
    return count


@compiled
def add_changes(
    operand: Any, rows: Indices, changes: Vector, further: Vector, y: Signs, sums: Vector
) -> None:
    """sums[0, k] += Σ changes[i] · x of rows[i], over the rows of class k; the same for `further`
    and sums[1]."""
    for i in range(len(rows)):
        k = 1 if y[i] > 0 else 0
        if changes[i] != 0.0:
            add(operand, rows[i], changes[i], sums[0, k])
        if further[i] != 0.0:
            add(operand, rows[i], further[i], sums[1, k])
