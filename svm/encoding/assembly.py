"""Numbers and one output for each category, joined into one matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from svm.data.matrices import Indices, Matrix, Vector, read_only


def outputs(
    X: Vector,
    numbers: Vector,
    places: tuple[Indices, Indices, Indices, Indices],
    n_outputs: int,
    *,
    sparse: bool,
) -> Matrix:
    """(n_samples, n_outputs), dense or CSR: the numbers, and 1 in the output of each category.

    X holds raw values. `places`: the columns of categories, their first slots, the slots of their
    unknown levels, and the output of each slot. The output `n_outputs` does not exist: it is left
    out. In CSR all numbers are stored, zeros too.
    """
    from svm.loops.tables import dense_outputs, sparse_outputs

    n, width = len(X), numbers.shape[1] + len(places[0])
    X, numbers = read_only(X), read_only(numbers)
    if not sparse:
        out = np.zeros((n, n_outputs))
        dense_outputs(X, numbers, *places, out)
        return out
    from scipy.sparse import csr_array

    wide = np.int32 if n * width <= np.iinfo(np.int32).max else np.int64
    data = np.empty(n * width)
    indices: npt.NDArray[Any] = np.empty(n * width, dtype=wide)
    indptr: npt.NDArray[Any] = np.empty(n + 1, dtype=wide)
    sparse_outputs(X, numbers, *places, n_outputs, data, indices, indptr)
    if indptr[-1] < len(data):
        data, indices = data[: indptr[-1]].copy(), indices[: indptr[-1]].copy()
    return csr_array((data, indices, indptr), shape=(n, n_outputs))
