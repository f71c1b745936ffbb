"""Numbers and one output for each category, joined into one matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from svm.data.matrices import Indices, Matrix, Vector, read_only

BLOCK_ROWS = 4096
"""Whose numbers fit into the processor's cache."""


def outputs(
    X: Vector,
    numbers_of: Callable[[Vector], Vector],
    n_numbers: int,
    places: tuple[Indices, Indices, Indices, Indices],
    n_outputs: int,
    *,
    sparse: bool,
) -> Matrix:
    """(n_samples, n_outputs), dense or CSR: the numbers, and 1 in the output of each category.

    X holds raw values; `numbers_of` gives those of some rows. `places`: the columns of categories,
    their first slots, the slots of their unknown levels, and the output of each slot. The output
    `n_outputs` does not exist: it is left out. In CSR all numbers are stored, zeros too.
    """
    from svm.loops.tables import dense_outputs, sparse_outputs

    n, width = len(X), n_numbers + len(places[0])
    blocks = [slice(start, start + BLOCK_ROWS) for start in range(0, n, BLOCK_ROWS)]
    if not sparse:
        out = np.zeros((n, n_outputs))
        for rows in blocks:
            dense_outputs(read_only(X[rows]), read_only(numbers_of(X[rows])), *places, out[rows])
        return out
    from scipy.sparse import csr_array

    wide = np.int32 if n * width <= np.iinfo(np.int32).max else np.int64
    data = np.empty(n * width)
    indices: npt.NDArray[Any] = np.empty(n * width, dtype=wide)
    indptr: npt.NDArray[Any] = np.zeros(n + 1, dtype=wide)
    for rows in blocks:
        some = read_only(X[rows]), read_only(numbers_of(X[rows])), *places
        sparse_outputs(*some, n_outputs, data, indices, indptr[rows.start : rows.stop + 1])
    if indptr[-1] < len(data):
        data, indices = data[: indptr[-1]].copy(), indices[: indptr[-1]].copy()
    return csr_array((data, indices, indptr), shape=(n, n_outputs))
