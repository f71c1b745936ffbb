"""Newton's method on the smoothed hinge loss, many steps in one call: for a problem so small that
its passes take less time than their calls.

`Z` (n_features + 1, n) has the columns yᵢ xᵢ, and as last row yᵢ, or 0 without an intercept: the
products with (w, b) are yᵢ fᵢ. Its features are contiguous, so that loops over the rows use whole
vector registers. `ridge` (n_features + 1,) is λ, or 0 for an intercept that is `free`.
"""

from __future__ import annotations

import numpy as np

from svm.data.matrices import Floats, Indices, Mask, Signs, Vector
from svm.loops import compiled

BRACKETS = 50
MOST_JITTER = 1e-6


@compiled
def signed_columns(X: Floats, rows: Indices, y: Signs, first: int, out: Vector) -> None:
    """The columns yᵢ (x of rows[i], 1) of `out`, from the column `first` on."""
    for i in range(len(rows)):
        x, side = X[rows[i]], float(y[i])
        for j in range(len(x)):
            out[j, first + i] = side * x[j]
        out[len(x), first + i] = side


@compiled
def products(Z: Vector, v: Vector, out: Vector) -> None:
    """out = the products of all columns with v."""
    out[:] = 0.0
    for j in range(len(v)):
        z, factor = Z[j], v[j]
        for i in range(len(out)):
            out[i] += factor * z[i]


@compiled
def combination(Z: Vector, coefficients: Vector, out: Vector) -> None:
    """out = the sum of all columns, each times its coefficient."""
    for j in range(len(out)):
        z, total = Z[j], 0.0
        for i in range(len(coefficients)):
            total += coefficients[i] * z[i]
        out[j] = total


@compiled
def solve(h: Vector, x: Vector, jitter: float) -> bool:
    """x becomes the solution of (H + jitter) s = x by Cholesky's method; False if H is not positive
    definite. H has a diagonal of ones, and is above the diagonal of h; its factor below."""
    n = len(x)
    roots = np.empty(n)
    for i in range(n):
        row, square = h[i], 1.0 + jitter
        for j in range(i):
            other, total = h[j], h[j, i]
            for k in range(j):
                total -= row[k] * other[k]
            row[j] = total * roots[j]
            square -= row[j] * row[j]
        if not square > 0.0:
            return False
        roots[i] = 1.0 / np.sqrt(square)
    for i in range(n):
        for k in range(i):
            x[i] -= h[i, k] * x[k]
        x[i] *= roots[i]
    for i in range(n - 1, -1, -1):
        x[i] *= roots[i]
        for k in range(i):
            x[k] -= h[i, k] * x[i]
    return True


@compiled
def best_multiple(sums: Vector, sides: Vector, largest: Vector, ridge: Vector, free: bool) -> float:
    """The largest D(c α) over feasible factors c, from the αᵢ of each class in `sides`, their
    `sums` Σ αᵢ yᵢ (xᵢ, 1), and the `largest` αᵢ/sᵢ."""
    n = sides.shape[1]
    totals, below, above = (np.sum(sides[0]), np.sum(sides[1])), 1.0, 1.0
    if free:
        least = min(totals[0], totals[1])
        if least <= 0.0:
            return 0.0
        below, above = least / totals[0], least / totals[1]
    most = max(below * largest[0], above * largest[1])
    if most <= 0.0:
        return 0.0
    below, above = below / most, above / most
    linear, quadratic = (below * totals[0] + above * totals[1]) / n, 0.0
    for j in range(len(ridge)):
        weight = (below * sums[0, j] + above * sums[1, j]) / (ridge[0] * n)
        quadratic += 0.5 * ridge[j] * weight * weight
    if not quadratic < np.inf or linear <= 0.0:
        return 0.0
    factor = min(1.0, linear / (2.0 * quadratic)) if quadratic > 0.0 else 1.0
    bound: float = factor * linear - factor * factor * quadratic
    return bound


@compiled
def line_search(
    margins: Vector,
    changes: Vector,
    centers: Vector,
    weights: Vector,
    smoothing: float,
    linear: float,
    quadratic: float,
    near: float,
) -> float:
    """As `svm.solvers.smoothing.smoothed_hinge.line_search`: the t ≥ 0 with the smallest smoothed
    objective at the margins + t changes; the penalty has the slope linear + t quadratic."""
    n = len(margins)
    low, high, t = 0.0, np.inf, 1.0
    for _ in range(BRACKETS):
        slope = curvature = 0.0
        for i in range(n):
            short = 1.0 - margins[i] - t * changes[i] + smoothing * centers[i]
            slope -= weights[i] * changes[i] * min(max(short, 0.0), smoothing)
            square = weights[i] * changes[i] * changes[i]
            curvature += square * ((short > 0.0) & (short < smoothing))
        slope = slope / (smoothing * n) + linear + t * quadratic
        curvature = curvature / (smoothing * n) + quadratic
        if slope < 0.0:
            low = t
        else:
            high = t
        following = t - slope / curvature if curvature > 0.0 else np.inf
        if high == np.inf:  # an almost flat piece would move t far beyond its end
            following = min(following, 4.0 * t)
        if not low < following < high:
            following = 2.0 * t if high == np.inf else 0.5 * (low + high)
        near_enough = abs(following - t) <= near * t
        t = following
        if near_enough:
            break
    return t


@compiled
def slopes_at(
    margins: Vector,
    positive: Mask,
    weights: Vector,
    centers: Vector,
    smoothing: float,
    slopes: Vector,
    sides: Vector,
    largest: Vector,
) -> tuple[float, float, int]:
    """The slopes aᵢ = clip(centerᵢ + (1 - marginᵢ)/μ, 0, 1), the αᵢ = sᵢ aᵢ of the rows of each
    class in `sides` (2, n), and the `largest` slope of each. Returns the sum of the hinges, by how
    much they are above their tangents, and the number of rows on the wrong side."""
    hinge = cost = below = above = 0.0
    wrong = 0
    for i in range(len(margins)):
        short, side = 1.0 - margins[i], positive[i]
        slope = min(max(centers[i] + short / smoothing, 0.0), 1.0)
        slopes[i], alpha, loss = slope, weights[i] * slope, weights[i] * max(short, 0.0)
        sides[0, i], sides[1, i] = alpha * (not side), alpha * side
        below, above = max(below, slope * (not side)), max(above, slope * side)
        hinge += loss
        cost += loss - alpha * short
        wrong += (margins[i] < 0.0) | ((margins[i] == 0.0) & side)
    largest[0], largest[1] = below, above
    return hinge, cost, wrong


@compiled
def system(
    Z: Vector,
    slopes: Vector,
    margins: Vector,
    centers: Vector,
    weights: Vector,
    mu: float,
    reduced: float,
    ridge: Vector,
    point: Vector,
    free: bool,
    block: Vector,
    slope: Vector,
    h: Vector,
    scale: Vector,
) -> int:
    """Minus the gradient from the sum Σ αᵢ yᵢ (xᵢ, 1), both in `slope`; and the Hessian above the
    diagonal of h, in the `scale` that makes its diagonal one. Returns how many rows are near the
    margin."""
    d, n = Z.shape
    count = 0
    for i in range(n):
        if 0.0 < slopes[i] < 1.0:
            # After the smoothing was reduced, as if no slope were clipped.
            change = weights[i] * (centers[i] + (1.0 - margins[i]) / mu - slopes[i]) * reduced
            factor = np.sqrt(weights[i] / (mu * n))
            for j in range(d):
                slope[j] += change * Z[j, i]
                block[j, count] = factor * Z[j, i]
            count += 1
    for j in range(d):
        slope[j] = slope[j] / n - ridge[j] * point[j]
        for i in range(j + 1):
            one, other, total = block[i], block[j], 0.0
            for k in range(count):
                total += one[k] * other[k]
            h[i, j] = total
        h[j, j] += ridge[j]
    if count == 0 and free:  # b has no curvature: that of one row
        h[d - 1, d - 1] = 1.0 / (mu * n)
    for j in range(d):
        scale[j] = 1.0 / np.sqrt(h[j, j])
        for i in range(j):
            h[i, j] *= scale[i] * scale[j]
    return count


@compiled
def newton_steps(
    Z: Vector,
    positive: Mask,
    weights: Vector,
    ridge: Vector,
    free: bool,
    gap: float,
    steps: int,
    limits: tuple[float, ...],
    point: Vector,
    centers: Vector,
    best: Vector,
    numbers: tuple[float, ...],
) -> tuple[float, ...]:
    """At most `steps` steps from `point`, (w, b); fewer if the relative gap is reached, nothing
    more can be gained, or one leaves the range of floating-point numbers.

    `point`, `centers` and `best`, the best point so far, change in place. `limits`: the factors of
    μ after one step and after more, the least μ, the precision of a line search, rounding, and the
    first jitter; the work of a step, and of a row near the margin. `numbers`: μ, that of the slopes
    at the point, whether it was reduced after the latest step, the steps with it, the best primal
    value, its error, the best dual value, and the work so far. Returns the new numbers; the number
    of steps; and whether the last one can be followed (1), is the last one of use (0) or of none
    (-1).
    """
    less, little_less, least, near, rounding, first_jitter, work_of_step, work_of_row = limits
    mu, slope_mu, reduced, tries, best_primal, error, dual, work = numbers
    (d, n), end, made, moved, gain = Z.shape, 1.0, 0, 0.0, 0.0
    margins, slopes, changes = np.empty(n), np.empty(n), np.empty(n)
    sides, sums, largest = np.empty((2, n)), np.empty((2, d)), np.empty(2)
    h, scale, block = np.empty((d, d)), np.empty(d), np.empty((d, n))
    slope, step = np.empty(d), np.empty(d)
    while True:
        products(Z, point, margins)
        at = margins, positive, weights, centers, slope_mu
        hinge, cost, wrong = slopes_at(*at, slopes, sides, largest)
        combination(Z, sides[0], sums[0])
        combination(Z, sides[1], sums[1])
        if made > 0:
            primal = hinge / n + 0.5 * np.sum(ridge * point * point)
            lower = best_multiple(sums, sides, largest, ridge, free)
            if primal < best_primal:
                best[:] = point
                best_primal, error = primal, wrong / n
            dual = max(dual, lower)
            # See `svm.solvers.newton`.
            solved = primal - lower <= 2.0 * cost / n
            if reduced == 0.0:
                lost = moved <= rounding * np.max(np.abs(point))
                solved = solved or lost or gain <= rounding * primal
            if solved:
                centers[:] = slopes
                mu *= less if tries == 0.0 else little_less
            slope_mu = np.inf if solved else mu
            reduced, tries = (1.0, 0.0) if solved else (0.0, tries + 1.0)
            if best_primal - dual <= 1e-13 * best_primal or mu < least:
                end = 0.0
            if end == 0.0 or (best_primal - dual) / best_primal <= gap:
                break
        if made == steps:
            break
        slope[:] = sums[0] + sums[1]
        near_rows = Z, slopes, margins, centers, weights, mu, reduced
        count = system(*near_rows, ridge, point, free, block, slope, h, scale)
        work += work_of_step + work_of_row * count
        jitter = first_jitter
        step[:] = scale * slope
        while not solve(h, step, jitter):
            jitter *= 100.0
            if jitter > MOST_JITTER:
                end = -1.0
                break
        if end < 0.0:
            break
        step *= scale
        gain = np.sum(slope * step)
        products(Z, step, changes)
        along = np.sum(ridge * point * step), np.sum(ridge * step * step)
        length = line_search(margins, changes, centers, weights, mu, *along, near)
        moved = length * np.max(np.abs(step))
        point += length * step
        slope_mu = mu
        made += 1
    return mu, slope_mu, reduced, tries, best_primal, error, dual, work, made, end
