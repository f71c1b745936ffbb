"""Rows to predict in CSV and TSV: with or without a header, whose names may come in any order."""

from __future__ import annotations

import csv
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.errors import MAX_FAULTS, InvalidContent
from service.rows.cell_faults import fault_of_text, ragged
from service.rows.cell_texts.number_text import is_value
from service.rows.cell_texts.reading import DELIMITERS, Reading
from service.rows.cell_texts.text import Slice, decode_text, records, unterminated
from service.rows.cell_values import BadCell, Reader, read_cell
from service.rows.columns import Columns
from service.rows.faults import Faults, too_many
from service.rows.json_reading.numbers import PIECE_BYTES, read_lines
from service.rows.kinds.dialect import first_records, is_comment, split_records
from service.rows.spec import RowLimits, Rows
from svm.data.columns import UNKNOWN

BLOCK_ROWS = 4096
"""Rows whose values are kept as Python objects at a time."""
HEAD_BYTES = 64
"""Of UTF-16 without a byte order mark, enough to have a NUL."""
HEAD_CHARACTERS = 1 << 20
"""Of a text, enough for its first lines."""
_UNUSUAL = b'"\r\0#='
"""What is more than cells: such as quotes, comments, Excel's line that says the delimiter."""


def read_converted_rows(body: bytes, columns: Columns, limits: RowLimits) -> Rows:
    """Rows of a workbook or a Parquet file, which the parsing process wrote as CSV."""
    return read_rows(body, columns.of_csv, limits, ",")


def read_rows(body: bytes, columns: Columns, limits: RowLimits, delimiter: str) -> Rows:
    """Raises InvalidRequest, TooLarge, and InvalidContent with every bad cell."""
    if not body[:1].isascii() or b"\0" in body[:HEAD_BYTES]:
        body = columns.reading.as_utf8(body)
    if columns.is_plain:
        body = _without_blank_end(body, delimiter, columns.reading.delimiter)
    read = _read_plain if columns.reading.has_usual_form(delimiter) else _read_either
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
    line = body.removeprefix(BOM_UTF8).partition(b"\n")[0].decode(errors="replace")
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
    own, plain = _possible(text, columns, delimiter)
    refused = None
    if own:
        try:
            read = partial(_uploaded_records, text, columns)
            return _read_records(read, columns, limits, columns.styled_readers)
        except InvalidContent as error:
            refused = _explained(error, columns.reading, delimiter)
            if not plain:
                raise refused from None
    try:
        return _read_plain(body, columns, limits, delimiter)
    except InvalidContent as error:
        raise refused or _explained(error, columns.reading, delimiter) from None


def _read_plain(body: bytes, columns: Columns, limits: RowLimits, delimiter: str) -> Rows:
    at_once = _numbers_at_once if columns.is_plain else _table_at_once
    rows = at_once(body, columns, limits, delimiter)
    if rows is not None:
        return rows
    text = decode_text(body)
    own = columns.reading.delimiter == delimiter
    read = partial(_uploaded_records, text, columns) if own else partial(records, text, delimiter)
    return _read_records(read, columns, limits, columns.text_readers)


def _numbers_at_once(
    body: bytes, columns: Columns, limits: RowLimits, delimiter: str
) -> Rows | None:
    """The matrix of rows that have the features in their order; None if that takes a closer
    look."""
    text = body.removeprefix(BOM_UTF8).replace(b"\r\n", b"\n").strip(b"\n")
    if b"\r" in text:
        return None
    if delimiter == "\t":
        if b"," in text:
            return None
        text = text.replace(b"\t", b",")
    first, _, rest = text.partition(b"\n")
    if first == columns.header:
        text = rest
    if b"[" in text:
        return None
    # Lines of plain numbers are JSON but for the brackets.
    X = read_lines(text, columns.n_features, limits.rows, _as_lists)
    return None if X is None else Rows(X)


def _as_lists(lines: bytes) -> bytes:
    return b"[[%b]]" % lines.replace(b"\n", b"],[")


def _table_at_once(body: bytes, columns: Columns, limits: RowLimits, delimiter: str) -> Rows | None:
    """Rows as raw values, if they are few, and their header, if there is one, has the names of the
    model in its order."""
    if len(body) > PIECE_BYTES or columns.n_features == 1 or body.startswith(BOM_UTF8):
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
        X = columns.matrix(list(map(columns.raw_texts, rows)))
    except (UnicodeDecodeError, BadCell):
        return None
    if not named:
        unknown = X[0] == UNKNOWN
        unknown[columns.text_columns] = True
        if unknown.all() or not columns.names_set.isdisjoint(map(str.strip, first)):
            return None
    return Rows(X, again=lambda: rows)


def _read_records(
    read: Callable[[], Iterator[list[str]]],
    columns: Columns,
    limits: RowLimits,
    readers: list[Reader],
) -> Rows:
    """`read`: gives the records. `readers`: of the cells."""
    rows = read()
    try:
        first = next(rows, None)
        if first is None:
            raise InvalidContent("empty-data", "the body holds no row")
        order = columns.reading.order(len(first), columns.n_features)
        named = _named(first, order, columns, readers)
    except csv.Error:
        raise unterminated(1) from None
    width, check_width, n_skipped = len(first), order is None, 0
    ignored: tuple[str, ...] = ()
    if named is not None:
        order, ignored = named
        check_width, n_skipped = not ignored, 1
    elif order is None:
        width = columns.n_features
    X = _read(
        islice(chain([first], rows), n_skipped, None),
        *(order, width, columns, limits, readers),
        check_width=check_width,
    )
    again = partial(_in_order, read, n_skipped, order)
    return Rows(X, ignored=ignored, again=again)


def _in_order(
    read: Callable[[], Iterator[list[str]]], n_skipped: int, order: list[int] | None
) -> Iterator[list[str]]:
    rows = islice(read(), n_skipped, None)
    return rows if order is None else ([row[i] for i in order] for row in rows)


def _read(
    rows: Iterator[list[str]],
    order: list[int] | None,
    width: int,
    columns: Columns,
    limits: RowLimits,
    readers: list[Reader],
    *,
    check_width: bool,
) -> NDArray[np.float64]:
    """`order`: the positions of the features in a row of `width` cells."""
    faults = Faults()
    blocks = []
    values: list[list[Any]] = []
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
            values.append(_raw_row(cells, columns, readers, done, faults))
            if len(values) == BLOCK_ROWS:
                blocks.append(columns.matrix(values))
                values.clear()
    except csv.Error:
        raise unterminated(done + 1) from None
    if len(widths) == 1 and check_width:
        columns.check_width(widths.pop())
    faults.check()
    if done == 0:
        raise InvalidContent("empty-data", "there is no row below the header")
    return columns.joined([*blocks, columns.matrix(values)])


def _raw_row(
    cells: list[str], columns: Columns, readers: list[Reader], number: int, faults: Faults
) -> list[Any]:
    """The raw values; every bad cell is a fault, and NaN."""
    try:
        if readers is columns.text_readers:
            return columns.raw_texts(cells)
        return [read(cell) for read, cell in zip(readers, cells, strict=True)]
    except BadCell:
        values = []
        for position, (read, cell) in enumerate(zip(readers, cells, strict=True)):
            try:
                values.append(read_cell(read, cell))
            except BadCell as error:
                plain = fault_of_text(cell) if columns.is_plain else None
                faults.add(*(plain or error.fault), row=number, column=columns.column(position))
                values.append(np.nan)
        return values


def _named(
    first: list[str], order: list[int] | None, columns: Columns, readers: list[Reader]
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


def is_row(cells: list[str], columns: Columns) -> bool:
    """Whether cells, without blanks around them, may be a row of plain texts: see `_is_row`."""
    return _is_row(cells, columns, columns.text_readers)


def _is_row(cells: list[str], columns: Columns, readers: list[Reader]) -> bool:
    """Whether cells that are not names may be a row: one of them is empty, or a value that is no
    likely name, as any text is."""
    if len(cells) != columns.n_features:
        return any(is_value(cell) or not cell for cell in cells)
    for read, cell in zip(readers, cells, strict=True):
        try:
            value = read(cell) if cell else None
            if value != UNKNOWN and type(value) is not str:
                return True
        except BadCell:
            pass
    return False


def _possible(text: str, columns: Columns, delimiter: str) -> tuple[bool, bool]:
    """Whether the text may be written as the training file, and whether it may have this
    delimiter: by the cells of its first line that are names of features, else by their number."""
    own, plain = (
        _likeness(text, columns, one) for one in (columns.reading.delimiter or ",", delimiter)
    )
    return own >= plain, plain >= own


def _likeness(text: str, columns: Columns, delimiter: str) -> tuple[int, int]:
    names, _ = _first(text, delimiter)
    stripped = {name.strip() for name in names}
    return len(columns.names_set & stripped), -abs(len(names) - columns.n_features)


def _first(text: str, delimiter: str) -> tuple[list[str], int]:
    """The first record that is not a comment, and the cells of the next one, 0 if there is none."""
    try:
        rows = first_records(text[:HEAD_CHARACTERS], delimiter)
    except csv.Error:
        rows = []
    return (rows[0] if rows else []), (len(rows[1]) if len(rows) > 1 else 0)


def _uploaded_records(text: str, columns: Columns) -> Iterator[list[str]]:
    """The records without comments, and without the delimiter that ends each. Raises csv.Error."""
    reading = columns.reading
    delimiter = reading.delimiter or ","
    first, next_width = _first(text, delimiter)
    records = chain.from_iterable(split_records(Slice(text, '"' in text), delimiter))
    width = len(first)
    if reading.trailing and first and not first[-1].strip():
        width -= 1
    named = not columns.names_set.isdisjoint(name.strip() for name in first)
    begun = False
    for record in records:
        row = record
        if not begun:
            if row != first:  # a comment
                continue
            begun = True
            if named and not reading.trailing and next_width == width + 1:
                row = ["", *row]  # R leaves out the name of the row names
                width += 1
        elif is_comment(row, width) and len(row) != width + reading.trailing:
            continue
        if reading.trailing and len(row) == width + 1 and not row[-1].strip():
            row = row[:-1]
        yield row


def _explained(error: InvalidContent, reading: Reading, delimiter: str) -> InvalidContent:
    """The error with a hint that says which delimiters are expected, if it is about columns."""
    own = reading.delimiter or ","
    if error.code not in ("feature-mismatch", "ragged-row") or own == delimiter:
        return error
    expected = f"separate cells by {own!r} as the training file does, or by {delimiter!r}"
    faults = tuple(
        replace(fault, hint=expected if fault.hint is None else f"{fault.hint}; {expected}")
        for fault in error.faults
    )
    return InvalidContent(error.code, error.detail, faults, error.faults_total, error.extra)
