"""Numbers and one output for each category, joined into one matrix."""

from __future__ import annotations

import numpy as np

from svm.data.matrices import Indices, Matrix, Vector


def dense_outputs(numbers: Vector, outputs: Indices, n_outputs: int) -> Matrix:
    """(n_samples, n_outputs): the numbers, and 1 in each output named in `outputs`
    (n_samples, n_categories). The output `n_outputs` does not exist: it is left out."""
    n, m = numbers.shape
    X = np.zeros((n, n_outputs))
    X[:, :m] = numbers
    rows, categories = np.nonzero(outputs < n_outputs)
    X[rows, outputs[rows, categories]] = 1.0
    return X


def sparse_outputs(numbers: Vector, outputs: Indices, n_outputs: int) -> Matrix:
    """As `dense_outputs`, in CSR; all numbers are stored, zeros too."""
    from scipy.sparse import csr_array

    n, m = numbers.shape
    width = m + outputs.shape[1]
    indices = np.empty((n, width), dtype=np.int32)
    indices[:, :m] = np.arange(m)
    indices[:, m:] = outputs
    data = np.ones((n, width))
    data[:, :m] = numbers
    kept = indices < n_outputs
    ends = np.cumsum(kept.sum(axis=1))
    wide = np.int32 if n * width <= np.iinfo(np.int32).max else np.int64
    indptr = np.concatenate([[0], ends]).astype(wide)
    if kept.all():
        parts = data.ravel(), indices.ravel().astype(wide, copy=False), indptr
    else:
        parts = data[kept], indices[kept].astype(wide, copy=False), indptr
    return csr_array(parts, shape=(n, n_outputs))
