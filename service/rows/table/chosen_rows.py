"""Some rows of a table as arrays of their own: the parts of a split, or the rows with labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from service.rows.spec import ReadLimits, Stored, TableColumn
from service.rows.table.arrays import blocks, sparse_rows, write_array
from service.rows.table.joining_tables import table_of, write_blocks
from service.rows.table.raw import raw_blocks
from service.rows.table.writers import DenseWriter, SparseWriter, Table

Mask = npt.NDArray[np.bool_]
Files = Callable[[str], Path]
"""The path of an array, by its name."""


def write_rows(
    source: Stored | Table, files: Files, rows: Mask, folder: Path, limits: ReadLimits
) -> list[TableColumn] | None:
    """Write the features and weights of these rows to `folder`; the columns, with the levels of all
    rows."""
    folder.mkdir(exist_ok=True)
    columns = None
    if source.sparse:
        _write_sparse(files, rows, folder, limits)
    elif source.table is not None:
        columns = _write_table(source.table, files, rows, folder, limits)
    else:
        _write_dense(files, rows, folder, limits)
    if source.weight is not None:
        write_array(folder / "weights.npy", np.load(files("weights"))[rows])
    return columns


def _write_dense(files: Files, rows: Mask, folder: Path, limits: ReadLimits) -> None:
    width = np.load(files("X"), mmap_mode="r").shape[1]
    with DenseWriter(folder, width, limits) as writer:
        start = 0
        for block in blocks(files("X")):
            writer.add(block[rows[start : start + len(block)]])
            start += len(block)
        writer.finish()


def _write_table(
    columns: list[TableColumn], files: Files, rows: Mask, folder: Path, limits: ReadLimits
) -> list[TableColumn] | None:
    missing = np.zeros(len(columns), dtype=np.int64)

    def parts() -> Iterator[npt.NDArray[np.float64]]:
        start = 0
        for block in raw_blocks(files, columns):
            part = block[rows[start : start + len(block)]]
            start += len(block)
            missing[:] += np.isnan(part).sum(axis=0)
            yield part

    write_blocks(parts(), columns, folder, limits)
    counted = zip(columns, missing.tolist(), strict=True)
    return table_of([{**column, "missing": count} for column, count in counted])


def _write_sparse(files: Files, rows: Mask, folder: Path, limits: ReadLimits) -> None:
    with SparseWriter(folder, limits) as writer:
        start = 0
        for lengths, indices, values in sparse_rows(*map(files, ("indptr", "indices", "data"))):
            mask = rows[start : start + len(lengths)]
            entries = np.repeat(mask, lengths)
            writer.add(lengths[mask], indices[entries], values[entries])
            start += len(lengths)
        writer.finish()
