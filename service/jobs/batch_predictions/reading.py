"""Some rows of a file of predictions, as tables show them."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedReader, TextIOWrapper
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from service.datasets.browse import RowsPage, ShownColumn
from service.jobs.batch_predictions.run import LABELS
from service.jobs.batch_predictions.schemas import Format
from service.storage.locked_duckdb import connect

_NOTHING: Mapping[str, Sequence[str]] = {}


def predicted_rows(
    file: BufferedReader,
    format_: Format,
    outputs: Sequence[str],
    names: Mapping[str, Sequence[str]] = _NOTHING,
    *,
    total: int,
    offset: int,
    limit: int,
) -> RowsPage:
    """Rows from `offset` of the `total` ones, in the order of the dataset. `names`: of the columns
    of each of the outputs, which CSV and Parquet hold; numbered without them."""
    offset = min(offset, total)
    some = offset, min(limit, total - offset)
    match format_:
        case "csv":
            titles, rows = _of_csv(file, *some)
        case "parquet":
            titles, rows = _of_parquet(file, *some)
        case "ndjson":
            titles, rows = _flat(list(_of_ndjson(file, *some)), outputs, names)
        case "npy":
            titles, rows = _flat(list(_of_npy(file, *some)), outputs, names)
    kinds = ["category" if title in LABELS else "number" for title in titles]
    return RowsPage(
        columns=[ShownColumn(*pair, "predicted") for pair in zip(titles, kinds, strict=True)],
        numbers=range(offset + 1, offset + len(rows) + 1),
        cells=rows,
        offset=offset,
        total=total,
    )


_Table = tuple[list[str], list[list[Any]]]


def _of_csv(file: BufferedReader, offset: int, limit: int) -> _Table:
    lines = TextIOWrapper(file, "utf-8", newline="")
    records = csv.reader(lines)
    titles = next(records)
    texts = [title in LABELS for title in titles]
    rows = []
    for record in islice(records, offset, offset + limit):
        cells = zip(record, texts, strict=True)
        rows.append([cell or None if text else float(cell) for cell, text in cells])
    lines.detach()  # the caller closes the file
    return titles, rows


def _of_parquet(file: BufferedReader, offset: int, limit: int) -> _Table:
    path = Path(f"/proc/self/fd/{file.fileno()}")
    with connect(path) as connection:
        query = "SELECT * FROM read_parquet(?) LIMIT ? OFFSET ?"
        read = connection.execute(query, [str(path), limit, offset])
        titles = [column[0] for column in read.description or ()]
        return titles, list(map(list, read.fetchall()))


def _of_ndjson(file: BufferedReader, offset: int, limit: int) -> Iterator[list[Any]]:
    for line in islice(file, offset, offset + limit):
        yield list(orjson.loads(line).values())


def _of_npy(file: BufferedReader, offset: int, limit: int) -> Iterator[list[Any]]:
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    values = np.memmap(file, dtype, "r", file.tell(), shape)
    return ([value] for value in values[offset : offset + limit].tolist())


def _flat(
    rows: list[list[Any]], outputs: Sequence[str], names: Mapping[str, Sequence[str]]
) -> _Table:
    """The outputs with several values a row as a column each."""
    titles: list[str] = []
    for name, cell in zip(outputs, rows[0] if rows else (), strict=bool(rows)):
        numbered = (
            [f"{name} {i + 1}" for i in range(len(cell))] if isinstance(cell, list) else [name]
        )
        titles += names.get(name) or numbered
    flat = [
        [one for cell in row for one in (cell if isinstance(cell, list) else [cell])]
        for row in rows
    ]
    return titles, flat
