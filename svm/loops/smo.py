"""The inner loops of sequential minimal optimization: a small quadratic program by steps."""

from __future__ import annotations

import numpy as np

from svm.data.matrices import Indices, Vector
from svm.loops import compiled

LEAST_CURVATURE = 1e-12
"""Relative to the largest kernel value."""


@compiled
def largest_diagonal(gram: Vector) -> float:
    """Of the kernel matrix; at least the smallest number that can be a divisor."""
    largest = 1e-300
    for k in range(len(gram)):
        largest = max(largest, gram[k, k])
    return largest


@compiled
def solve_pairs(
    gram: Vector, y: Vector, upper: Vector, a: Vector, scores: Vector, tolerance: float, steps: int
) -> int:
    """At most `steps` steps in two variables that keep Σ aᵢ yᵢ; a and `scores` change in place.

    Minimizes ½ Σ aᵢ aⱼ yᵢ yⱼ gramᵢⱼ - Σ aᵢ + (the part of the other rows in the scores) over
    0 ≤ aᵢ ≤ upperᵢ. `scores` are fᵢ = Σⱼ aⱼ yⱼ k(xⱼ, xᵢ) over all rows of the problem. Variable i
    violates most, j gives the largest decrease together with it (Fan, Chen, Lin 2005). Ends
    when no pair violates by more than `tolerance`. Returns the steps made.
    """
    n = len(y)
    least_curvature = LEAST_CURVATURE * largest_diagonal(gram)
    for step in range(steps):
        i, most = -1, -np.inf
        least = np.inf
        for k in range(n):
            residual = y[k] - scores[k]
            rises = a[k] < upper[k] if y[k] > 0.0 else a[k] > 0.0
            falls = a[k] > 0.0 if y[k] > 0.0 else a[k] < upper[k]
            if rises and residual > most:
                i, most = k, residual
            if falls and residual < least:
                least = residual
        if i < 0 or most - least <= tolerance:
            return step
        j, best = -1, 0.0
        for k in range(n):
            falls = a[k] > 0.0 if y[k] > 0.0 else a[k] < upper[k]
            difference = most - (y[k] - scores[k])
            if falls and difference > 0.0:
                curvature = max(gram[i, i] + gram[k, k] - 2.0 * gram[i, k], least_curvature)
                decrease = difference * difference / curvature
                if decrease > best:
                    j, best = k, decrease
        if j < 0:
            return step
        curvature = max(gram[i, i] + gram[j, j] - 2.0 * gram[i, j], least_curvature)
        change = (most - (y[j] - scores[j])) / curvature  # of aᵢ yᵢ, and of -aⱼ yⱼ
        change = min(change, upper[i] - a[i] if y[i] > 0.0 else a[i])
        change = min(change, a[j] if y[j] > 0.0 else upper[j] - a[j])
        a[i] = min(max(a[i] + change * y[i], 0.0), upper[i])
        a[j] = min(max(a[j] - change * y[j], 0.0), upper[j])
        for k in range(n):
            scores[k] += change * (gram[i, k] - gram[j, k])
    return steps


@compiled
def solve_singles(
    gram: Vector, y: Vector, upper: Vector, a: Vector, scores: Vector, tolerance: float, steps: int
) -> int:
    """The same without the constraint on the sum: steps in the variable with the largest decrease.

    Ends when no projected gradient exceeds `tolerance`.
    """
    n = len(y)
    least_curvature = LEAST_CURVATURE * largest_diagonal(gram)
    for step in range(steps):
        i, best, largest = -1, 0.0, 0.0
        for k in range(n):
            gradient = y[k] * scores[k] - 1.0
            if a[k] <= 0.0:
                gradient = min(gradient, 0.0)
            elif a[k] >= upper[k]:
                gradient = max(gradient, 0.0)
            largest = max(largest, abs(gradient))
            decrease = gradient * gradient / max(gram[k, k], least_curvature)
            if decrease > best:
                i, best = k, decrease
        if i < 0 or largest <= tolerance:
            return step
        gradient = y[i] * scores[i] - 1.0
        old = a[i]
        a[i] = min(max(old - gradient / max(gram[i, i], least_curvature), 0.0), upper[i])
        change = (a[i] - old) * y[i]
        for k in range(n):
            scores[k] += change * gram[i, k]
    return steps


@compiled
def add_values(values: Vector, rows: Indices, factor: float, out: Vector) -> None:
    """out[rows[i]] += factor · values[i]; `rows` are ascending, so if there are as many as in
    `out`, they are all rows."""
    if len(rows) == len(out):
        for i in range(len(out)):
            out[i] += factor * values[i]
    else:
        for i in range(len(rows)):
            out[rows[i]] += factor * values[i]


@compiled
def take_values(values: Vector, positions: Indices, columns: Indices, out: Vector) -> None:
    """out[columns[i]] = values[positions[i]]."""
    for i in range(len(positions)):
        out[columns[i]] = values[positions[i]]
