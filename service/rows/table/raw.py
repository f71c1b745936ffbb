"""Tables with categories, dates or gaps on disk: `X` of numbers, `codes` of categories.

Read back they are one matrix of raw values, as `svm.data.columns` describes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.rows.spec import ReadLimits, Stored, TableColumn
from service.rows.table.arrays import BLOCK_BYTES, ArrayWriter, blocks
from service.rows.table.writers import DenseWriter, Table
from svm.data.columns import Column

Block = npt.NDArray[np.float64]

MISSING_CODE = -1


def kept_kinds(columns: Iterable[Column]) -> list[TableColumn]:
    """What is kept of the columns: nothing of finite numbers."""
    columns = list(columns)
    if not any(one.kind != "number" or one.missing for one in columns):
        return []
    return [
        {"name": one.name, "kind": one.kind, "levels": list(one.levels), "missing": one.missing}
        for one in columns
    ]


def category_positions(table: Sequence[TableColumn]) -> list[int]:
    """Positions of the columns that are in `codes`; the others are in `X`."""
    return [i for i, column in enumerate(table) if column["kind"] == "category"]


def arrays_of(source: Stored | Table) -> list[str]:
    """Names of the arrays that hold the features of a dense table."""
    n_categories = len(category_positions(source.table))
    return ["X"] * (n_categories < source.n_features) + ["codes"] * (n_categories > 0)


class RawWriter(DenseWriter):
    """The arrays of a table of this width. Raises TooLarge."""

    def __init__(
        self, folder: Path, table: Sequence[TableColumn], n_features: int, limits: ReadLimits
    ) -> None:
        super().__init__(folder, n_features, limits)
        self._categories = category_positions(table)
        self._numbers = np.delete(np.arange(n_features), self._categories)
        self._is_plain = not table
        most = max((len(table[i]["levels"]) for i in self._categories), default=0)
        if self._categories:
            self._files["codes"] = ArrayWriter(folder / "codes.npy", code_type(most))

    def add(self, block: Block) -> None:
        """Raw values, (rows, n_features)."""
        if self._is_plain:
            return super().add(block)
        self.n_samples += len(block)
        self.check(self.n_samples)
        numbers = block[:, self._numbers] + 0.0  # -0.0 becomes 0.0
        numbers[np.isnan(numbers)] = np.nan  # one pattern of bits
        self._files["X"].write(numbers)
        if self._categories:
            codes = block[:, self._categories]
            self._files["codes"].write(np.where(np.isnan(codes), MISSING_CODE, codes))

    def finish(self) -> None:
        if len(self._numbers):
            self._files["X"].finish((self.n_samples, len(self._numbers)))
        else:
            self._files["X"].close()
            (self.folder / "X.npy").unlink()
        if self._categories:
            self._files["codes"].finish((self.n_samples, len(self._categories)))


def write_rows(
    folder: Path,
    rows: Iterable[Block],
    table: list[TableColumn],
    n_features: int,
    limits: ReadLimits,
) -> None:
    """Write the arrays of raw rows. Raises TooLarge."""
    with RawWriter(folder, table, n_features, limits) as writer:
        for block in rows:
            writer.add(block)
        writer.finish()


def code_type(n_levels: int) -> str:
    """The smallest integers for codes of that many levels."""
    return next(kind for kind in ("|i1", "<i2", "<i4") if n_levels <= np.iinfo(kind).max + 1)


def raw_blocks(source: Stored | Table, path: Callable[[str], Path]) -> Iterator[Block]:
    """Raw values of a dense table some MiB at a time: (rows, n_features). `path` gives that of an
    array."""
    rows = max(1, BLOCK_BYTES // (8 * source.n_features))
    categories = category_positions(source.table)
    for some in zip(*(blocks(path(name), rows) for name in arrays_of(source)), strict=True):
        yield raw_values(some, categories)


def raw_values(parts: Sequence[npt.NDArray[Any]], categories: Sequence[int]) -> Block:
    """(rows, n_features) of the arrays that there are, `X` before `codes`."""
    if not categories:
        return parts[0]
    codes = parts[-1].astype(np.float64)
    codes[parts[-1] == MISSING_CODE] = np.nan
    if len(parts) == 1:
        return codes
    raw = np.empty((len(codes), parts[0].shape[1] + codes.shape[1]))
    numbers = np.ones(raw.shape[1], dtype=bool)
    numbers[list(categories)] = False
    raw[:, numbers] = parts[0]
    raw[:, ~numbers] = codes
    return raw


def stored_blocks(stored: Stored) -> Iterator[Block]:
    """The features of a dense dataset some MiB at a time: (rows, n_features)."""
    return raw_blocks(stored, stored.path)
