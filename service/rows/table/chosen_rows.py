"""Some rows of a table as arrays of their own: the parts of a split, or the rows with labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from service.rows.spec import ReadLimits, Stored, TableColumn
from service.rows.table.arrays import sparse_rows, write_array
from service.rows.table.raw import kept_kinds, raw_blocks, write_rows
from service.rows.table.writers import SparseWriter, Table

Mask = npt.NDArray[np.bool_]
Files = Callable[[str], Path]
"""The path of an array, by its name."""


def write_chosen(
    source: Stored | Table, files: Files, rows: Mask, folder: Path, limits: ReadLimits
) -> list[TableColumn]:
    """Write the features and weights of these rows to `folder`; the columns, with the levels of all
    rows."""
    folder.mkdir(exist_ok=True)
    if source.weight is not None:
        write_array(folder / "weights.npy", np.load(files("weights"))[rows])
    if source.sparse:
        _write_sparse(files, rows, folder, limits)
        return []
    missing = np.zeros(source.n_features, dtype=np.int64)

    def parts() -> Iterator[npt.NDArray[np.float64]]:
        start = 0
        for block in raw_blocks(source, files):
            part = block[rows[start : start + len(block)]]
            start += len(block)
            missing[:] += np.isnan(part).sum(axis=0)
            yield part

    write_rows(folder, parts(), source.table, source.n_features, limits)
    counted = zip(source.table, missing.tolist(), strict=False)
    return kept_kinds([{**column, "missing": count} for column, count in counted])


def _write_sparse(files: Files, rows: Mask, folder: Path, limits: ReadLimits) -> None:
    with SparseWriter(folder, limits) as writer:
        start = 0
        for lengths, indices, values in sparse_rows(*map(files, ("indptr", "indices", "data"))):
            mask = rows[start : start + len(lengths)]
            entries = np.repeat(mask, lengths)
            writer.add(lengths[mask], indices[entries], values[entries])
            start += len(lengths)
        writer.finish()
