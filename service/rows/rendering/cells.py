"""Cells of a table with kinds as values of JSON: numbers, texts, booleans, ISO dates, null."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from service.rows.cell_texts.dates import iso
from service.rows.spec import Stored, TableColumn
from service.rows.table.writers import Block, stored_blocks


def names_of(stored: Stored) -> list[str] | None:
    """Of the features, then of the weights of the rows; None if the columns have no names."""
    if stored.columns is None or stored.weight is None:
        return stored.columns
    return [*stored.columns, stored.weight]


def weights_of(stored: Stored) -> npt.NDArray[np.float64] | None:
    """(n_samples,), if the rows have weights."""
    return None if stored.weight is None else np.load(stored.path("weights"), mmap_mode="r")


def weighted_blocks(stored: Stored) -> Iterator[Block]:
    """The features and the weights of dense rows some MiB at a time, as numbers."""
    weights, done = weights_of(stored), 0
    for block in stored_blocks(stored):
        if weights is None:
            yield block
        else:
            yield np.column_stack((block, weights[done : done + len(block)]))
        done += len(block)


def rows_of_cells(stored: Stored) -> Iterator[list[tuple[Any, ...]]]:
    """The features and the weights row by row, some MiB at a time."""
    weight: list[TableColumn] = [{"kind": "number"}] * (stored.weight is not None)
    for block in weighted_blocks(stored):
        kinds = enumerate((*stored.table, *weight))
        yield list(zip(*(_cells(block[:, i], column) for i, column in kinds), strict=True))


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
