"""Tables with categories, dates or gaps on disk: `X` of numbers, `codes` of categories.

Read back they are one matrix of raw values, as `svm.data.columns` describes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.rows.spec import ReadLimits, Stored, TableColumn
from service.rows.table.arrays import BLOCK_BYTES, ArrayWriter, blocks
from service.rows.table.writers import DenseWriter

Block = npt.NDArray[np.float64]

MISSING_CODE = -1


def is_raw(table: Sequence[TableColumn]) -> bool:
    """Whether a table is more than finite numbers."""
    return any(column["kind"] in ("category", "date") or column["missing"] for column in table)


def category_positions(table: Sequence[TableColumn]) -> list[int]:
    """Positions of the columns that are in `codes`; the others are in `X`."""
    return [i for i, column in enumerate(table) if column["kind"] == "category"]


def arrays_of(table: Sequence[TableColumn]) -> list[str]:
    """Names of the arrays that hold a table's features."""
    n_categories = len(category_positions(table))
    return ["X"] * (n_categories < len(table)) + ["codes"] * (n_categories > 0)


class RawWriter(DenseWriter):
    """The arrays of a table. Raises TooLarge."""

    def __init__(self, folder: Path, table: Sequence[TableColumn], limits: ReadLimits) -> None:
        super().__init__(folder, len(table), limits)
        self._categories = category_positions(table)
        self._numbers = [i for i, column in enumerate(table) if column["kind"] != "category"]
        most = max((len(table[i]["levels"]) for i in self._categories), default=0)
        if self._categories:
            self._files["codes"] = ArrayWriter(folder / "codes.npy", code_type(most))

    def add(self, block: Block) -> None:
        """Raw values, (rows, n_features)."""
        self.n_samples += len(block)
        self.check(self.n_samples)
        if self._numbers:
            numbers = block[:, self._numbers] + 0.0  # -0.0 becomes 0.0
            numbers[np.isnan(numbers)] = np.nan  # one pattern of bits
            self._files["X"].write(numbers)
        if self._categories:
            codes = block[:, self._categories]
            self._files["codes"].write(np.where(np.isnan(codes), MISSING_CODE, codes))

    def finish(self) -> None:
        if self._numbers:
            self._files["X"].finish((self.n_samples, len(self._numbers)))
        else:
            self._files["X"].close()
            (self.folder / "X.npy").unlink()
        if self._categories:
            self._files["codes"].finish((self.n_samples, len(self._categories)))


def code_type(n_levels: int) -> str:
    """The smallest integers for codes of that many levels."""
    return next(kind for kind in ("|i1", "<i2", "<i4") if n_levels <= np.iinfo(kind).max + 1)


def raw_blocks(path: Callable[[str], Path], table: Sequence[TableColumn]) -> Iterator[Block]:
    """Raw values some MiB at a time: (rows, n_features). `path` gives that of an array."""
    rows = max(1, BLOCK_BYTES // (8 * len(table)))
    parts = [blocks(path(name), rows) for name in arrays_of(table)]
    categories = category_positions(table)
    for some in zip(*parts, strict=True):
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
    if stored.table is None:
        return blocks(stored.path("X"))
    return raw_blocks(stored.path, stored.table)
