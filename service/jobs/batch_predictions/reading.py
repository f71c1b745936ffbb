"""Some rows of a file of predictions, as tables show them."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import orjson

from service.datasets.browse import ShownColumn, scanning
from service.jobs.batch_predictions.run import LABELS
from service.jobs.batch_predictions.schemas import Format
from service.storage.locked_duckdb import connect
from svm.data.matrices import Indices
from svm.model.multiclass import label_name

T = TypeVar("T")
_NOTHING: Mapping[str, Sequence[str]] = {}


def predicted_rows(
    file: BufferedReader,
    format_: Format,
    outputs: Sequence[str],
    rows: Sequence[int],
    names: Mapping[str, Sequence[str]] = _NOTHING,
) -> tuple[list[ShownColumn], list[list[Any]]]:
    """The columns and the cells of some rows, ascending numbers of the dataset from 0. `names`: of
    the columns of each of the outputs, which CSV and Parquet hold; numbered without them."""
    match format_:
        case "csv":
            titles, records = _of_csv(file)
            texts = [title in LABELS for title in titles]
            cells = [
                [
                    cell or None if text else float(cell)
                    for cell, text in zip(one, texts, strict=True)
                ]
                for one in _at(records, rows)
            ]
        case "parquet":
            titles, cells = _of_parquet(file, rows)
        case "ndjson":
            lines = [list(orjson.loads(line).values()) for line in _at(file, rows)]
            titles, cells = _flat(lines, outputs, names)
        case "npy":
            titles, cells = _flat(
                [[one] for one in _of_npy(file)[list(rows)].tolist()], outputs, names
            )
    kinds = ["category" if title in LABELS else "number" for title in titles]
    return [ShownColumn(*one, "predicted") for one in zip(titles, kinds, strict=True)], cells


def rows_of_class(file: BufferedReader, format_: Format, output: str, label: str) -> Indices:
    """Numbers from 0 of the rows for which this label was predicted, by its text. `output` is one
    of `LABELS`. The file is at its beginning again. Raises Unavailable."""
    labels = _labels(file, format_, output)
    rows = (i for i, one in enumerate(labels) if one is not None and label_name(one) == label)
    with scanning():
        found = np.fromiter(rows, np.int64)
    file.seek(0)
    return found


def _labels(file: BufferedReader, format_: Format, output: str) -> Iterator[Any]:
    match format_:
        case "csv":
            titles, records = _of_csv(file)
            place = titles.index(output)
            yield from (record[place] for record in records)
        case "parquet":
            with _parquet(file, f'SELECT "{output}" FROM read_parquet(?)') as read:
                yield from (
                    label for some in iter(partial(read.fetchmany, 1000), []) for (label,) in some
                )
        case "ndjson":
            yield from (orjson.loads(line)[output] for line in file)
        case "npy":
            yield from _of_npy(file).tolist()


def _at(records: Iterable[T], rows: Sequence[int]) -> Iterator[T]:
    """Those at these positions, ascending."""
    last = -1
    left = iter(records)
    for row in rows:
        yield next(islice(left, row - last - 1, None))
        last = row


def _of_csv(file: BufferedReader) -> tuple[list[str], Iterator[list[str]]]:
    records = csv.reader(line.decode() for line in file)
    return next(records), records


def _of_parquet(file: BufferedReader, rows: Sequence[int]) -> tuple[list[str], list[list[Any]]]:
    query = "SELECT * EXCLUDE (file_row_number) FROM read_parquet(?, file_row_number = true) "
    query += "WHERE file_row_number IN (SELECT unnest(?)) ORDER BY file_row_number"
    with _parquet(file, query, list(rows)) as read:
        return [column[0] for column in read.description or ()], list(map(list, read.fetchall()))


@contextmanager
def _parquet(file: BufferedReader, query: str, *values: Any) -> Iterator[Any]:
    """What a query of the file has found."""
    path = Path(f"/proc/self/fd/{file.fileno()}")
    with connect(path) as connection:
        yield connection.execute(query, [str(path), *values])


def _of_npy(file: BufferedReader) -> npt.NDArray[Any]:
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    return np.memmap(file, dtype, "r", file.tell(), shape)


def _flat(
    rows: list[list[Any]], outputs: Sequence[str], names: Mapping[str, Sequence[str]]
) -> tuple[list[str], list[list[Any]]]:
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
