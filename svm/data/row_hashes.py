"""Hashes of rows, to find equal ones: the same for dense and sparse rows."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from svm.data.columns import Columns, text_columns
from svm.data.matrices import Matrix, is_sparse
from svm.data.texts import Texts, texts_of

Words = npt.NDArray[np.uint64]
TEXTS_AT_ONCE = 1024


def row_hashes(X: Matrix, truth: npt.NDArray[Any], columns: Columns = ()) -> Words:
    """(n_samples,) from the values, NaN for missing, and class numbers or targets. Of the cells in
    `columns` that are texts, the texts count."""
    if is_sparse(X):
        hashes = np.zeros(X.shape[0], dtype=np.uint64)
        rows = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        np.add.at(hashes, rows, entry_hashes(X.indices, X.data))
    else:
        values = np.ascontiguousarray(X) + 0.0  # of two zeros one
        values[np.isnan(values)] = np.nan  # and of many NaNs
        for j in text_columns(columns):
            given = np.flatnonzero(~np.isnan(values[:, j]))
            places = values[given, j].astype(np.int64)
            values.view(np.uint64)[given, j] = text_hashes(texts_of(X), places)
        hashes = dense_hashes(values, multipliers(X.shape[1]))
    if truth.dtype.kind == "f":
        return mixed(hashes) + mixed((truth + 0.0).view(np.uint64))
    return mixed(hashes) + mixed(truth.astype(np.uint64) + np.uint64(1))


def text_hashes(texts: Texts, places: npt.NDArray[np.int64]) -> Words:
    """(n_places,) of the texts at these places."""
    hashes = [np.zeros(0, dtype=np.uint64)]
    for start in range(0, len(places), TEXTS_AT_ONCE):
        some = texts.take(places[start : start + TEXTS_AT_ONCE].tolist())
        hashes.append(hashes_of(text.encode(errors="surrogatepass") for text in some))
    return np.concatenate(hashes)


def hashes_of(texts: Iterable[bytes]) -> Words:
    """(n_texts,) of texts in UTF-8."""
    made = b"".join(blake2b(text, digest_size=8).digest() for text in texts)
    return np.frombuffer(made, dtype=np.uint64)


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
