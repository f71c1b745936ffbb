"""Raw values of a table to outputs, row by row; a row's outputs depend on that row alone."""

from __future__ import annotations

import math

from svm.data.matrices import Indices, Vector
from svm.loops import compiled

YEAR, MONTH, WEEKDAY = 1, 2, 3
"""Parts of a date. 0 is the number itself, for all other numbers too."""


@compiled
def part_of(days: float, part: int) -> float:
    """A part of a date, by days since 1970-01-01: months 1 … 12, weekdays 1 (Monday) … 7."""
    if part == 0:
        return days
    whole = math.floor(days)
    if part == WEEKDAY:
        return float((whole + 3) % 7 + 1)
    # Years that begin in March, in eras of 400 years: leap days are their last ones.
    shifted = whole + 719_468
    era = shifted // 146_097
    day = shifted - era * 146_097
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    month = (5 * (day - (365 * year + year // 4 - year // 100)) + 2) // 153
    if part == MONTH:
        return float(month + 3 if month < 10 else month - 9)
    return float(year + era * 400 + (1 if month >= 10 else 0))


@compiled
def slot_of(code: float, start: int, unknown: int) -> int:
    """The slot of a category's cell: its level's, `unknown`, or the next one if it is missing."""
    if math.isnan(code):
        return unknown + 1
    if 0.0 <= code < unknown - start:
        return start + int(code)
    return unknown


@compiled
def number_outputs(
    X: Vector, sources: Indices, parts: Indices, fills: Vector, indicated: Indices, out: Vector
) -> None:
    """outᵢ = these parts of the columns `sources`, with `fills` for NaN; then 1 for NaN and 0
    otherwise in each of the columns `indicated`."""
    for i in range(len(X)):
        for j in range(len(sources)):
            value = X[i, sources[j]]
            out[i, j] = fills[j] if math.isnan(value) else part_of(value, parts[j])
        for j in range(len(indicated)):
            missing = math.isnan(X[i, indicated[j]])
            out[i, len(sources) + j] = 1.0 if missing else 0.0


@compiled
def dense_outputs(
    X: Vector,
    numbers: Vector,
    categories: Indices,
    starts: Indices,
    unknown: Indices,
    slots: Indices,
    out: Vector,
) -> None:
    """outᵢ, of zeros, becomes the numbers, and 1 in the output of each category if it has one."""
    m, n_outputs = numbers.shape[1], out.shape[1]
    for i in range(len(X)):
        for j in range(m):
            out[i, j] = numbers[i, j]
        for j in range(len(categories)):
            output = slots[slot_of(X[i, categories[j]], starts[j], unknown[j])]
            if output < n_outputs:
                out[i, output] = 1.0


@compiled
def sparse_outputs(
    X: Vector,
    numbers: Vector,
    categories: Indices,
    starts: Indices,
    unknown: Indices,
    slots: Indices,
    n_outputs: int,
    data: Vector,
    indices: Indices,
    indptr: Indices,
) -> None:
    """The same in CSR; all numbers are stored, zeros too. Entries after the last one are unused."""
    m = numbers.shape[1]
    k = 0
    indptr[0] = 0
    for i in range(len(X)):
        for j in range(m):
            data[k] = numbers[i, j]
            indices[k] = j
            k += 1
        for j in range(len(categories)):
            output = slots[slot_of(X[i, categories[j]], starts[j], unknown[j])]
            if output < n_outputs:
                data[k] = 1.0
                indices[k] = output
                k += 1
        indptr[i + 1] = k


@compiled
def count_cells(
    X: Vector, categories: Indices, starts: Indices, missing: Indices, counts: Indices
) -> None:
    """Add the missing cells of each column, and the rows of each level; those of category j begin
    at `starts[j]`."""
    for i in range(len(X)):
        for j in range(X.shape[1]):
            if math.isnan(X[i, j]):
                missing[j] += 1
        for j in range(len(categories)):
            code = X[i, categories[j]]
            if code >= 0.0:
                counts[starts[j] + int(code)] += 1
