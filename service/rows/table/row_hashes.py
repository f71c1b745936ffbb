"""Hashes of rows, to find equal ones: the same for dense and sparse rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from svm.data.matrices import Matrix, is_sparse

Words = npt.NDArray[np.uint64]


def row_hashes(X: Matrix, truth: npt.NDArray[Any]) -> Words:
    """(n_samples,) from the values, NaN for missing, and class numbers or targets."""
    if is_sparse(X):
        hashes = np.zeros(X.shape[0], dtype=np.uint64)
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        np.add.at(hashes, rows, entry_hashes(X.indices, X.data))
    else:
        values = np.ascontiguousarray(X) + 0.0  # of two zeros one
        values[np.isnan(values)] = np.nan  # and of many NaNs
        hashes = dense_hashes(values, multipliers(X.shape[1]))
    if truth.dtype.kind == "f":
        return mixed(hashes) + mixed((truth + 0.0).view(np.uint64))
    return mixed(hashes) + mixed(truth.astype(np.uint64) + np.uint64(1))


def dense_hashes(block: npt.NDArray[np.float64], multipliers: Words) -> Words:
    """(n_samples,) of rows of numbers, by their bits."""
    hashes: Words = (mixed(block.view(np.uint64)) * multipliers).sum(axis=1, dtype=np.uint64)
    return hashes


def multipliers(n_columns: int) -> Words:
    """(n_columns,) one for each column."""
    return mixed(np.arange(n_columns, dtype=np.uint64)) | np.uint64(1)


def entry_hashes(indices: npt.NDArray[Any], values: npt.NDArray[np.float64]) -> Words:
    """(n_entries,) of the entries of sparse rows; that of a row is their sum."""
    return mixed(values.view(np.uint64)) * (mixed(indices.astype(np.uint64)) | np.uint64(1))


def mixed(words: Words) -> Words:
    """A bijection that spreads every bit, and keeps 0 (the finalizer of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
