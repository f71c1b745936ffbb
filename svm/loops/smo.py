"""The inner loops of sequential minimal optimization: a small quadratic program by steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numba import carray, types  # type: ignore[attr-defined]
from numba.extending import intrinsic

from svm.data.matrices import Indices, Signs, Vector
from svm.loops import compiled
from svm.loops.row_operations import add_rows
from svm.loops.row_operations import scores as scores_of

LEAST_CURVATURE = 1e-12
"""Relative to the largest kernel value."""
LANES = 8
"""Numbers that a search compares at once."""


@compiled
def largest_diagonal(gram: Vector) -> float:
    """The largest diagonal value of the kernel matrix; at least the smallest number that can be a
    divisor."""
    largest = 1e-300
    for k in range(len(gram)):
        largest = max(largest, gram[k, k])
    return largest


@compiled
def largest(values: Vector, lanes: Vector) -> float:
    """The largest value. Vector registers hold the largest of each of the `lanes` (LANES,): a loop
    with one variable compares number by number."""
    found, whole = -np.inf, len(values) - len(values) % LANES
    lanes[:] = -np.inf
    for first in range(0, whole, LANES):
        for lane in range(LANES):
            value = values[first + lane]
            lanes[lane] = value if value > lanes[lane] else lanes[lane]
    for lane in range(LANES):
        found = max(found, lanes[lane])
    for k in range(whole, len(values)):
        found = max(found, values[k])
    return found


@compiled
def first_of(values: Vector, value: float) -> int:
    """The first position of a value; the last position if it is not there."""
    for k in range(len(values) - 1):
        if values[k] == value:
            return k
    return len(values) - 1


@compiled
def room(y: float, a: float, upper: float) -> tuple[float, float]:
    """0 if aᵢ yᵢ may rise, else an infinity; the same for falling."""
    below, above = -np.inf if a >= upper else 0.0, -np.inf if a <= 0.0 else 0.0
    return (below, above) if y > 0.0 else (above, below)


@compiled
def solve_pairs(
    gram: Vector,
    y: Signs,
    corners: Signs | Vector,
    upper: Vector,
    a: Vector,
    scores: Vector,
    tolerance: float,
    steps: int,
) -> int:
    """At most `steps` steps in two variables that keep Σ aᵢ yᵢ; a and `scores` change in place.

    Minimizes ½ Σ aᵢ aⱼ yᵢ yⱼ gramᵢⱼ - Σ aᵢ qᵢ + (the part of the other rows in the scores) over
    0 ≤ aᵢ ≤ upperᵢ; the `corners` are yᵢ qᵢ, those of margins 1 the labels. `scores` are
    fᵢ = Σⱼ aⱼ yⱼ k(xⱼ, xᵢ) over all rows of the problem. Variable i violates most, j gives the
    largest decrease together with it (Fan, Chen, Lin 2005). Ends when no pair violates by more than
    `tolerance`. Returns the steps made.
    """
    n = len(y)
    least_curvature = LEAST_CURVATURE * largest_diagonal(gram)
    diagonal, residuals, lanes = np.empty(n), np.empty(n), np.empty(LANES)
    rises, falls, differences, gains = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for k in range(n):
        diagonal[k], residuals[k] = gram[k, k], corners[k] - scores[k]
        rises[k], falls[k] = room(y[k], a[k], upper[k])
    for step in range(steps):
        for k in range(n):
            differences[k] = residuals[k] + rises[k]
        most = largest(differences, lanes)
        i = first_of(differences, most)
        row, own = gram[i], gram[i, i]
        for k in range(n):
            difference = most - residuals[k] + falls[k]
            curvature = own + diagonal[k] - 2.0 * row[k]
            curvature = curvature if curvature > least_curvature else least_curvature
            differences[k] = difference if difference > 0.0 else 0.0
            gains[k] = differences[k] * differences[k] / curvature
        best = largest(gains, lanes)
        if not (best > 0.0 and largest(differences, lanes) > tolerance):
            return step
        j = first_of(gains, best)
        other = gram[j]
        curvature = max(own + diagonal[j] - 2.0 * row[j], least_curvature)
        change = differences[j] / curvature  # of aᵢ yᵢ, and of -aⱼ yⱼ
        change = min(change, upper[i] - a[i] if y[i] > 0.0 else a[i])
        change = min(change, a[j] if y[j] > 0.0 else upper[j] - a[j])
        a[i] = min(max(a[i] + change * y[i], 0.0), upper[i])
        a[j] = min(max(a[j] - change * y[j], 0.0), upper[j])
        for k in (i, j):
            rises[k], falls[k] = room(y[k], a[k], upper[k])
        for k in range(n):
            moved = change * (row[k] - other[k])
            scores[k] += moved
            residuals[k] = corners[k] - scores[k]
    return steps


@compiled
def solve_singles(
    gram: Vector,
    y: Signs,
    corners: Signs | Vector,
    upper: Vector,
    a: Vector,
    scores: Vector,
    tolerance: float,
    steps: int,
) -> int:
    """`solve_pairs` without the constraint on the sum: steps in the variable of the largest
    decrease.

    Ends when no projected gradient exceeds `tolerance`.
    """
    n = len(y)
    least_curvature = LEAST_CURVATURE * largest_diagonal(gram)
    diagonal, gradients, lanes = np.empty(n), np.empty(n), np.empty(LANES)
    falls, rises, sizes, gains = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    for k in range(n):
        diagonal[k] = max(gram[k, k], least_curvature)
        gradients[k] = y[k] * scores[k] - y[k] * corners[k]
        rises[k], falls[k] = room(1.0, a[k], upper[k])
    for step in range(steps):
        for k in range(n):
            rise, fall = rises[k] - gradients[k], falls[k] + gradients[k]
            size = rise if rise > fall else fall
            sizes[k] = size if size > 0.0 else 0.0
            gains[k] = sizes[k] * sizes[k] / diagonal[k]
        best = largest(gains, lanes)
        if not (best > 0.0 and largest(sizes, lanes) > tolerance):
            return step
        i = first_of(gains, best)
        row, old = gram[i], a[i]
        a[i] = min(max(old - gradients[i] / diagonal[i], 0.0), upper[i])
        change = (a[i] - old) * y[i]
        rises[i], falls[i] = room(1.0, a[i], upper[i])
        for k in range(n):
            scores[k] += change * row[k]
            gradients[k] = y[k] * scores[k] - y[k] * corners[k]
    return steps


def _pointer(typing_context: Any, address: Any) -> Any:
    """The address of float64 values as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    pointer: Any = types.CPointer(types.float64)  # type: ignore[no-untyped-call]
    return pointer(types.intp), generate


_values = cast(Callable[[int], Any], intrinsic(_pointer))


@compiled
def add_values(
    addresses: Indices, rows: Indices, first: int, last: int, factors: Vector, out: Vector
) -> None:
    """out[rows[i]] += Σ factors[k] · valuesₖ[i], the values at addresses[k], for i from `first` to
    `last` - 1; `rows` are ascending, so if there are as many as in `out`, they are all rows."""
    for k in range(len(addresses)):
        values, factor = carray(_values(addresses[k]), len(rows)), factors[k]
        if len(rows) == len(out):
            for i in range(first, last):
                out[i] += factor * values[i]
        else:
            for i in range(first, last):
                out[rows[i]] += factor * values[i]


@compiled
def take_values(
    addresses: Indices,
    length: int,
    positions: Indices,
    columns: Indices,
    rows: Indices,
    gram: Vector,
) -> None:
    """gram[rows[k], columns[i]] = valuesₖ[positions[i]], with the `length` values at addresses[k],
    on the diagonal and to the left of it; `columns` are ascending."""
    for k in range(len(addresses)):
        values, row = carray(_values(addresses[k]), length), gram[rows[k]]
        for i in range(len(positions)):
            if columns[i] > rows[k]:
                break
            row[columns[i]] = values[positions[i]]


@compiled
def mirror(gram: Vector, first: int) -> None:
    """gram[j, i] = gram[i, j] for j < i, from the row `first` on."""
    n, tile = len(gram), 16  # columns of a tile stay in the nearest cache
    for left in range(0, n, tile):
        for i in range(max(first, left + 1), n):
            for j in range(left, min(left + tile, i)):
                gram[j, i] = gram[i, j]


@compiled
def solve_sets(
    values: Vector,
    rows: Indices,
    working: Indices,
    y: Signs,
    upper: Vector,
    a: Vector,
    scores: Vector,
    pairs: bool,
    augmented: bool,
    tolerance: Vector,
    most_steps: int,
    changes: Vector,
    steps: Indices,
) -> None:
    """Solve the working set of each of many problems, by `solve_pairs` or `solve_singles`.

    `values` are k(xᵢ, xⱼ) of all rows i and j; set p has `rows[p]` of them, which are `working[p]`
    among the rows of problem p, of which it has `y`, `upper` and `scores`. The `a` change in place,
    `changes` become those of aᵢ yᵢ in the order of the set, and `steps` the steps made.
    """
    size = rows.shape[1]
    gram = np.empty((size, size))
    for p in range(len(rows)):
        for i in range(size):
            for j in range(size):
                value = values[rows[p, max(i, j)], rows[p, min(i, j)]]
                gram[i, j] = value + (1.0 if augmented else 0.0)
        some = working[p]
        own_y, own_a = y[p][some], a[p][some]
        inside = own_y, own_y, upper[p][some], own_a, scores[p][some], tolerance[p], most_steps
        steps[p] = solve_pairs(gram, *inside) if pairs else solve_singles(gram, *inside)
        for i in range(size):
            changes[p, i] = (own_a[i] - a[p, some[i]]) * own_y[i]
            a[p, some[i]] = own_a[i]


@compiled
def add_sets(
    values: Vector, rows: Indices, everywhere: Indices, changes: Vector, scores: Vector
) -> None:
    """scores[p, i] += Σ changes[p, k] · k(x_rows[p, k], x_everywhere[p, i]), in the order of k."""
    for p in range(len(rows)):
        for k in range(rows.shape[1]):
            factor, row = changes[p, k], values[rows[p, k]]
            if factor != 0.0:
                for i in range(everywhere.shape[1]):
                    scores[p, i] += factor * row[everywhere[p, i]]


@compiled
def weigh_sets(
    operand: Any, rows: Indices, coefficients: Vector, intercepts: Vector, w: Vector, scores: Vector
) -> None:
    """The weights w[p] += Σ coefficients[p, k] · x of rows[p, k] of each of many problems, and the
    scores of its rows by them and its intercept."""
    for p in range(len(rows)):
        add_rows(operand, rows[p], coefficients[p], w[p])
        scores_of(operand, rows[p], w[p], intercepts[p], scores[p])
