"""Rows to predict in CSV and TSV: with or without a header, whose names may come in any order."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain, islice

import numpy as np
from numpy.typing import NDArray

from service.errors import MAX_FAULTS, InvalidContent
from service.rows.cell_faults import ragged
from service.rows.cell_texts.number_text import is_value
from service.rows.cell_texts.reading import DELIMITERS
from service.rows.cell_texts.text import BOM, UTF16, decode_text, records, unterminated
from service.rows.cell_values import BadCell, Reader, read_cell
from service.rows.columns import Columns
from service.rows.faults import Faults, too_many
from service.rows.formats.shared.cells import examine
from service.rows.formats.shared.uploaded_rows import explained, possible, uploaded_records
from service.rows.json_reading.numbers import PIECE_BYTES, read_lines
from service.rows.spec import RowLimits, Rows
from service.rows.table.layout import Layout
from svm.data.columns import UNKNOWN

BLOCK_ROWS = 4096
"""Rows whose values are kept as Python objects at a time."""
HEAD_BYTES = 64
"""Of UTF-16 without a byte order mark, enough to have a NUL."""
_UNUSUAL = b'"\r\0#='
"""What is more than cells: such as quotes, comments, Excel's line that says the delimiter."""


def read_csv_rows(body: bytes, columns: Columns, limits: RowLimits) -> Rows:
    return _read_rows(body, columns, limits, ",")


def read_tsv_rows(body: bytes, columns: Columns, limits: RowLimits) -> Rows:
    return _read_rows(body, columns, limits, "\t")


def read_converted_rows(body: bytes, columns: Columns, limits: RowLimits) -> Rows:
    """Rows of a workbook or a Parquet file, which the parsing process wrote as CSV."""
    return _read_rows(body, columns.of_csv, limits, ",")


def _read_rows(body: bytes, columns: Columns, limits: RowLimits, delimiter: str) -> Rows:
    """Raises InvalidRequest, TooLarge, and InvalidContent with every bad cell."""
    if body.startswith(UTF16) or b"\0" in body[:HEAD_BYTES]:
        body = columns.reading.as_utf8(body)
    if columns.is_plain:
        body = _without_blank_end(body, delimiter, columns.reading.delimiter)
    read = _read_plain if columns.reading.is_plain(delimiter) else _read_either
    try:
        rows = read(body, columns, limits, delimiter)
    except InvalidContent as error:
        other = _between_names(body, columns) if error.code == "feature-mismatch" else None
        if other in (None, delimiter):
            raise
        rows = _read_plain(body, columns, limits, other)
    if rows.X.shape[0] > limits.rows:
        raise too_many("rows to predict", limits.rows)
    return rows


def _between_names(body: bytes, columns: Columns) -> str | None:
    """The delimiter with which the first line has the names of all features, such as that of a
    German Excel; None if there is none."""
    line = body.removeprefix(BOM).partition(b"\n")[0].decode(errors="replace")
    for delimiter in DELIMITERS:
        names = {name.strip().strip('"') for name in line.split(delimiter)}
        if columns.names and names.issuperset(columns.names):
            return delimiter
    return None


def _without_blank_end(body: bytes, *delimiters: str | None) -> bytes:
    """The body without the rows of delimiters only at its end, as Excel writes below a table."""
    marks = "".join(mark for mark in delimiters if mark is not None)
    end = len(body.rstrip(f"{marks} \t\r\n".encode()))
    return body[: body.find(b"\n", end) + 1] if b"\n" in body[end:-1] else body


def _read_either(body: bytes, columns: Columns, limits: RowLimits, delimiter: str) -> Rows:
    """Rows as the training file is written, or plain ones: as the first line says. If it may be
    either, they are read as the training file if all cells can be."""
    body = columns.reading.as_utf8(body)
    text = decode_text(body)
    own, plain = possible(text, columns, delimiter)
    refused = None
    if own:
        try:
            read = partial(uploaded_records, text, columns)
            return _read_records(read, columns, limits, columns.styled_readers)
        except InvalidContent as error:
            refused = explained(error, columns.reading, delimiter)
            if not plain:
                raise refused from None
    try:
        return _read_plain(body, columns, limits, delimiter)
    except InvalidContent as error:
        raise refused or explained(error, columns.reading, delimiter) from None


def _read_plain(body: bytes, columns: Columns, limits: RowLimits, delimiter: str) -> Rows:
    at_once = _numbers_at_once if columns.is_plain else _table_at_once
    rows = at_once(body, columns, limits, delimiter)
    if rows is not None:
        return rows
    text = decode_text(body)
    readers = None if columns.is_plain else columns.text_readers
    own = columns.reading.delimiter == delimiter
    read = partial(uploaded_records, text, columns) if own else partial(records, text, delimiter)
    return _read_records(read, columns, limits, readers)


def _numbers_at_once(
    body: bytes, columns: Columns, limits: RowLimits, delimiter: str
) -> Rows | None:
    """The matrix, and the names that are not of features; None if that takes a closer look."""
    text = body.removeprefix(BOM).replace(b"\r\n", b"\n").strip(b"\n")
    if b"\r" in text:
        return None
    if delimiter == "\t":
        if b"," in text:
            return None
        text = text.replace(b"\t", b",")
    first, _, rest = text.partition(b"\n")
    ignored: tuple[str, ...] = ()
    if first == columns.header:
        text = rest
    elif columns.names_set:
        text, ignored = _selected(text, columns) or (text, ())
    if b"[" in text:
        return None
    # Lines of plain numbers are JSON but for the brackets.
    X = read_lines(text, columns.n_features, limits.rows, _as_lists)
    return None if X is None else Rows(X, ignored=ignored)


def _as_lists(lines: bytes) -> bytes:
    return b"[[%b]]" % lines.replace(b"\n", b"],[")


def _table_at_once(body: bytes, columns: Columns, limits: RowLimits, delimiter: str) -> Rows | None:
    """The same of raw values: of some rows whose header, if there is one, has the names of the
    model in its order."""
    if len(body) > PIECE_BYTES or columns.n_features == 1 or body.startswith(BOM):
        return None
    if len(body.translate(None, _UNUSUAL)) < len(body):
        return None
    try:
        lines = body.decode().strip("\n").split("\n")
        rows = [line.split(delimiter) for line in lines]
        first = rows[0]
        named = first == columns.names
        if named:
            del rows[0]
        if set(map(len, rows)) != {columns.n_features}:
            return None
        X = np.array(list(map(columns.raw_texts, rows)), np.float64)
    except (UnicodeDecodeError, BadCell):
        return None
    if not named and (
        not columns.names_set.isdisjoint(map(str.strip, first)) or (X[0] == UNKNOWN).all()
    ):
        return None
    return Rows(X, again=lambda: rows)


def _selected(text: bytes, columns: Columns) -> tuple[bytes, tuple[str, ...]] | None:
    """The lines without their header, with the cells of the features in order; and the names of
    the other columns. None if that takes a closer look."""
    if b'"' in text or b"\0" in text:
        return None
    first, *lines = text.split(b"\n")
    try:
        text.decode()
        names = [name.strip() for name in first.decode().split(",")]
        if columns.names_set.isdisjoint(names):
            return None
        order, ignored = columns.select("the header", names)
    except (UnicodeDecodeError, InvalidContent):
        return None
    chosen = []
    for line in lines:
        cells = line.split(b",")
        if len(cells) != len(names):
            return None
        chosen.append(b",".join([cells[i] for i in order]))
    return b"\n".join(chosen), ignored


def _read_records(
    read: Callable[[], Iterator[list[str]]],
    columns: Columns,
    limits: RowLimits,
    readers: list[Reader] | None,
) -> Rows:
    """`read`: gives the records. `readers`: of the cells; None for finite numbers."""
    rows = read()
    try:
        first = next(rows, None)
        if first is None:
            raise InvalidContent("empty-data", "the body holds no row")
        order = columns.reading.order(len(first), columns.n_features)
        named = _named(first, order, columns, readers)
    except csv.Error:
        raise unterminated(1) from None
    if named is None:
        width = columns.n_features if order is None else len(first)
        every = chain([first], rows)
        X = _read(every, order, width, columns, limits, readers, check_width=order is None)
        return Rows(X, again=lambda: _in_order(read(), order))
    order, ignored = named
    width = len(first)
    X = _read(rows, order, width, columns, limits, readers, check_width=not ignored)
    return Rows(X, ignored=ignored, again=lambda: _in_order(islice(read(), 1, None), order))


def _in_order(rows: Iterator[list[str]], order: list[int] | None) -> Iterator[list[str]]:
    return rows if order is None else ([row[i] for i in order] for row in rows)


def _read(
    rows: Iterator[list[str]],
    order: list[int] | None,
    width: int,
    columns: Columns,
    limits: RowLimits,
    readers: list[Reader] | None,
    *,
    check_width: bool = True,
) -> NDArray[np.float64]:
    """`order`: the positions of the features in a row of `width` cells."""
    features = range(columns.n_features)
    layout = Layout(n_cells=columns.n_features, names=columns.names, features=features)
    faults = Faults()
    blocks = []
    values: list[list[float]] = []
    widths = set()
    done = 0
    try:
        for done, row in enumerate(rows, 1):
            if done > limits.rows:
                raise too_many("rows to predict", limits.rows)
            widths.add(len(row))
            if len(row) != width:
                faults.add(*ragged(len(row), width), row=done)
                if faults.total > MAX_FAULTS:
                    break
                continue
            cells = row if order is None else [row[i] for i in order]
            if readers is None:
                values += examine([cells], layout, done, limits.cell_bytes, faults)
            else:
                values.append(_table_row(cells, columns, readers, done, faults))
            if len(values) == BLOCK_ROWS:
                blocks.append(np.array(values, np.float64))
                values.clear()
    except csv.Error:
        raise unterminated(done + 1) from None
    if len(widths) == 1 and check_width:
        columns.check_width(widths.pop())
    faults.check()
    if done == 0:
        raise InvalidContent("empty-data", "there is no row below the header")
    last = np.array(values, np.float64).reshape(len(values), columns.n_features)
    return np.concatenate([*blocks, last]) if blocks else last


def _table_row(
    cells: list[str], columns: Columns, readers: list[Reader], number: int, faults: Faults
) -> list[float]:
    """The raw values; every bad cell is a fault, and NaN."""
    try:
        return [read(cell) for read, cell in zip(readers, cells, strict=True)]
    except BadCell:
        values = []
        for position, (read, cell) in enumerate(zip(readers, cells, strict=True)):
            try:
                values.append(read_cell(read, cell))
            except BadCell as error:
                faults.add(*error.fault, row=number, column=columns.column(position))
                values.append(np.nan)
        return values


def _named(
    first: list[str], order: list[int] | None, columns: Columns, readers: list[Reader] | None
) -> tuple[list[int], tuple[str, ...]] | None:
    """The position of each feature, and the names that are not of features, if the first record
    names the columns; None if it is a row, whose features may be in some `order`.

    Raises InvalidContent `feature-mismatch`.
    """
    names = [name.strip() for name in first]
    if columns.names is None:
        unlike = _is_row(names, columns, readers)
        nameless = unlike or len(names) != columns.n_features
        return None if nameless else (list(range(len(names))), ())
    cells = names if order is None else [names[i] for i in order]
    if columns.names_set.isdisjoint(names) and _is_row(cells, columns, readers):
        return None
    return columns.select("the header", names)


def _is_row(cells: list[str], columns: Columns, readers: list[Reader] | None) -> bool:
    """Whether cells that are not names may be a row: one of them is a value that is no likely
    name."""
    if readers is None or len(cells) != columns.n_features:
        return any(is_value(cell) or not cell for cell in cells)
    for read, cell in zip(readers, cells, strict=True):
        try:
            if read(cell) != UNKNOWN:
                return True
        except BadCell:
            pass
    return False
