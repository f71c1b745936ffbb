"""Cells of a table with kinds as values of JSON: numbers, texts, booleans, ISO dates, null."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from service.rows.cell_texts.dates import iso
from service.rows.spec import Stored, TableColumn
from service.rows.table.raw import stored_blocks


def rows_of_cells(stored: Stored) -> Iterator[list[tuple[Any, ...]]]:
    """The features row by row, some MiB at a time."""
    assert stored.table is not None
    for block in stored_blocks(stored):
        columns = [_cells(block[:, i], column) for i, column in enumerate(stored.table)]
        yield list(zip(*columns, strict=True))


def _cells(values: npt.NDArray[np.float64], column: TableColumn) -> list[Any]:
    missing = np.isnan(values)
    if column["kind"] == "category":
        texts = [*column["levels"], None]
        codes = np.where(missing, len(texts) - 1, values).astype(np.int64)
        return [texts[code] for code in codes.tolist()]
    if column["kind"] == "date":
        return [None if value != value else iso(value) for value in values.tolist()]
    if column["kind"] == "boolean":
        return [None if value != value else value == 1 for value in values.tolist()]
    return [None if value != value else _number(value) for value in values.tolist()]


def _number(value: float) -> float | int:
    """Whole numbers without a fraction, as far as they are exact."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value
