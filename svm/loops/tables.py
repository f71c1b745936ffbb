"""Raw values of a table to outputs, row by row; a row's outputs depend on that row alone."""

from __future__ import annotations

import math

import numpy as np

from svm.data.matrices import Indices, Mask, Vector
from svm.loops import compiled


@compiled
def slot_of(code: float, start: int, unknown: int) -> int:
    """The slot of a category's cell: its level's, `unknown`, or the next one if it is missing."""
    if math.isnan(code):
        return unknown + 1
    if 0.0 <= code < unknown - start:
        return start + int(code)
    return unknown


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
    """Outputs in CSR, as `dense_outputs` in a dense matrix, from the place `indptr[0]` on; all
    numbers are stored, zeros too. Entries after the last one are unused."""
    m = numbers.shape[1]
    k = indptr[0]
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
def are_raw(X: Vector, low: Vector, high: Vector, whole: Mask) -> bool:
    """Whether every cell is missing or between the bounds of its column, and whole if those of the
    column are."""
    for i in range(len(X)):
        for j in range(X.shape[1]):
            cell = X[i, j]
            if math.isnan(cell):
                continue
            if not low[j] <= cell <= high[j] or (whole[j] and cell != np.floor(cell)):
                return False
    return True


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
