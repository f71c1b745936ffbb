"""Sparse arrays with their zeros, if few values are zero."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from service.rows.spec import ParseSpec, ReadLimits
from service.rows.table.arrays import sparse_rows
from service.rows.table.writers import DenseWriter

FULL = 0.5
"""Share of values that are not zero from which on a dense matrix is smaller."""
VALUES_AT_ONCE = 2_000_000
_ARRAYS = ("indptr", "indices", "data")


def fill_if_full(spec: ParseSpec, shape: tuple[int, int], n_stored: int) -> bool:
    """Write `X.npy` in place of the CSR arrays, if the caller demands a dense matrix, or most is
    stored and the limits allow it; whether it was. Raises TooLarge."""
    n_values = shape[0] * shape[1]
    fits = shape[1] <= spec.limits.columns and n_values <= spec.limits.stored_values
    full = fits and n_stored >= FULL * n_values
    dense = {"auto": full, "always": True, "never": False}[spec.asked.dense]
    if dense:
        _fill(Path(spec.out), shape[1], spec.limits)
    return dense


def _fill(folder: Path, n_features: int, limits: ReadLimits) -> None:
    paths = [folder / f"{name}.npy" for name in _ARRAYS]
    at_once = max(1, VALUES_AT_ONCE // n_features)
    with DenseWriter(folder, n_features, limits) as writer:
        writer.check(int(np.load(paths[0], mmap_mode="r").shape[0]) - 1)
        for lengths, indices, values in sparse_rows(*paths):
            ends = np.concatenate(([0], np.cumsum(lengths)))
            for start in range(0, len(lengths), at_once):
                some = lengths[start : start + at_once]
                first, last = ends[start], ends[start + len(some)]
                block = np.zeros((len(some), n_features))
                rows = np.repeat(np.arange(len(some)), some)
                block[rows, indices[first:last]] = values[first:last]
                writer.add(block)
        writer.finish()
    for path in paths:
        path.unlink()
