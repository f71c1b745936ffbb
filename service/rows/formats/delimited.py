"""CSV and TSV: RFC 4180, UTF-8, with or without a header."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from service.errors import InvalidContent
from service.rows.cell_faults import ragged
from service.rows.columns import Columns
from service.rows.faults import Faults, refuse, too_many
from service.rows.formats.cells import examine, matrix, released_after
from service.rows.formats.json_numbers import read_lists
from service.rows.number_text import is_value
from service.rows.spec import TSV, ParseSpec, RowLimits, Rows
from service.rows.table.labels import Labels
from service.rows.table.layout import Layout, has_header, make_layout
from service.rows.table.writers import DenseWriter, Table, dense_table, labels_of
from service.rows.text import BOM, Slice, check_lengths, decode_text, records, slices, unterminated

_QUOTED = re.compile(r'"[^"]*"')


def read(spec: ParseSpec) -> Table:
    """Write `X.npy`. Raises ServiceError with every fault of the file."""
    delimiter = delimiter_of(spec, spec.media_type)
    path = Path(spec.data)
    parts = slices(path)
    layout, first = _layout(spec, delimiter, parts)
    faults = Faults()
    labels = labels_of(layout, faults, keep_text=spec.text_labels)
    with (
        released_after(path.stat().st_size),
        DenseWriter(Path(spec.out), layout.n_features, spec.limits) as writer,
    ):
        n_samples = 0
        for part in chain([first], parts):
            n_samples += _read_slice(
                part, layout, spec, delimiter, n_samples, writer, labels, faults
            )
        if n_samples == 0:
            raise InvalidContent("empty-data", "there is no row below the header")
        faults.check()
        writer.finish()
    return dense_table(layout, n_samples, labels)


def read_csv_rows(body: bytes, columns: Columns, limits: RowLimits) -> Rows:
    return _read_rows(body, columns, limits, ",")


def read_tsv_rows(body: bytes, columns: Columns, limits: RowLimits) -> Rows:
    return _read_rows(body, columns, limits, "\t")


def _read_rows(body: bytes, columns: Columns, limits: RowLimits, delimiter: str) -> Rows:
    """Rows to predict, with or without a header, whose names may come in any order.

    Raises InvalidRequest, TooLarge, and InvalidContent with every bad cell.
    """
    text = body.removeprefix(BOM).replace(b"\r\n", b"\n").strip(b"\n")
    plain = b"\r" not in text
    if delimiter == "\t":
        plain = plain and b"," not in text
        text = text.replace(b"\t", b",")
    first, _, rest = text.partition(b"\n")
    X = None
    ignored: tuple[str, ...] = ()
    if first == columns.header:
        text = rest
    elif plain and columns.names_set:
        text, ignored = _selected(text, columns) or (text, ())
    if plain and b"[" not in text:
        # Lines of plain numbers are JSON but for the brackets.
        X = read_lists(b"[[%b]]" % text.replace(b"\n", b"],["), columns.n_features)
    if X is None:
        X, ignored = _explained(body, columns, limits, delimiter)
    if len(X) > limits.rows:
        raise too_many("rows", limits.rows)
    return Rows(X, ignored=ignored)


def _selected(text: bytes, columns: Columns) -> tuple[bytes, tuple[str, ...]] | None:
    """The lines without their header, with the cells of the features in order; and the names of
    the other columns. None if that takes a closer look."""
    first, *lines = text.split(b"\n")
    if b'"' in text or b"\0" in text:
        return None
    try:
        text.decode()
        names = [name.strip() for name in first.decode().split(",")]
        if columns.names_set.isdisjoint(names):
            return None
        order, ignored = columns.select("the header", names)
    except (UnicodeDecodeError, InvalidContent):
        return None
    rows = [line.split(b",") for line in lines]
    if set(map(len, rows)) != {len(names)}:
        return None
    return b"\n".join([b",".join([row[i] for i in order]) for row in rows]), ignored


def _explained(
    body: bytes, columns: Columns, limits: RowLimits, delimiter: str
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """The matrix, and the names that are not of features."""
    text = decode_text(body)
    csv.field_size_limit(len(text) + 1)
    rows = records(text, delimiter)
    done = 0
    try:
        first = next(rows, None)
        if first is None:
            raise InvalidContent("empty-data", "the body holds no row")
        named = _named(first, columns)
        order, ignored = named or (None, ())
        rows = rows if named else chain([first], rows)
        width = len(first) if named else columns.n_features
        layout = Layout(columns.n_features, columns.names, None)
        faults = Faults()
        numbers = []
        widths = set()
        for done, row in enumerate(rows, 1):
            if done > limits.rows:
                raise too_many("rows", limits.rows)
            widths.add(len(row))
            if len(row) != width:
                faults.add(*ragged(len(row), width), row=done)
            else:
                cells = [row] if order is None else [[row[i] for i in order]]
                numbers += examine(cells, layout, done, limits.cell_bytes, faults)
    except csv.Error:
        raise unterminated(done + 1) from None
    if len(widths) == 1 and not ignored:
        columns.check_width(widths.pop())
    faults.check()
    if not numbers:
        raise InvalidContent("empty-data", "there is no row below the header")
    return np.array(numbers, dtype=np.float64), ignored


def _named(first: list[str], columns: Columns) -> tuple[list[int], tuple[str, ...]] | None:
    """The position of each feature, and the names that are not of features, if the first record
    names the columns; None if it is a row.

    Raises InvalidContent `feature-mismatch`.
    """
    names = [name.strip() for name in first]
    unlike = any(is_value(name) or not name for name in names)
    if columns.names is None:
        nameless = unlike or len(names) != columns.n_features
        return None if nameless else (list(range(len(names))), ())
    if unlike and columns.names_set.isdisjoint(names):
        return None
    return columns.select("the header", names)


def delimiter_of(spec: ParseSpec, media_type: str) -> str:
    return spec.delimiter or ("\t" if media_type == TSV else ",")


def _layout(spec: ParseSpec, delimiter: str, parts: Iterator[Slice]) -> tuple[Layout, Slice]:
    """The layout, and the first slice without its header."""
    first = next((part for part in parts if part.text.strip("\n")), None)
    if first is None:
        raise InvalidContent("empty-data", "the file is empty")
    csv.field_size_limit(len(first.text) + spec.limits.line_bytes)
    text = first.text.lstrip("\n")
    # Counted before there is an object for each.
    line = (_QUOTED.sub("", text) if first.quoted else text).partition("\n")[0]
    if line.count(delimiter) > spec.limits.columns + 1:
        raise too_many("columns", spec.limits.columns)
    try:
        cells = next(records(text, delimiter))
    except csv.Error:
        raise unterminated(1) from None
    header = has_header(spec, cells, text)
    guessed = spec.delimiter is None and len(cells) == 1 and not text.startswith('"')
    if guessed and (other := next((x for x in ";\t|," if x in cells[0]), None)):
        message = f"the delimiter {delimiter!r} is not in the first line, but {other!r} is"
        raise refuse("empty-data", message, hint="say which one it is with `delimiter`")
    layout = make_layout(spec, len(cells), cells if header else None)
    if header:
        text = _without_first_record(text, delimiter)
    return layout, Slice(text, '"' in text)


def _without_first_record(text: str, delimiter: str) -> str:
    if '"' not in text[: text.find("\n")]:
        return text.partition("\n")[2]
    reader = csv.reader(iter(text.split("\n")), delimiter=delimiter)
    next(reader)
    return "\n".join(text.split("\n")[reader.line_num :])


def _read_slice(
    part: Slice,
    layout: Layout,
    spec: ParseSpec,
    delimiter: str,
    done: int,
    writer: DenseWriter,
    labels: Labels | None,
    faults: Faults,
) -> int:
    """Write the rows of a slice, or add its faults; returns how many records it has."""
    limits = spec.limits
    try:
        lines, texts = _take_out(part, layout, delimiter)
    except csv.Error:
        raise unterminated(_first_broken(part, delimiter, done)) from None
    if not lines:
        return 0
    check_lengths(lines, limits.line_bytes, done + 1)
    if labels is not None:
        labels.add_texts(texts)
    X = matrix(lines, delimiter, layout.n_features, limits.cell_bytes)
    if X is None:
        found = faults.total
        rows = examine(records(part.text, delimiter), layout, done + 1, limits.cell_bytes, faults)
        if faults.total > found:
            return len(lines)
        X = np.array(rows, dtype=np.float64)
    if faults.total == 0:
        writer.add(X)
    return len(lines)


def _take_out(part: Slice, layout: Layout, delimiter: str) -> tuple[list[str], list[str]]:
    """The records as lines without the label column, and the labels.

    A record too short to have a label becomes an empty line, which has too few cells, too.
    """
    target = layout.target
    if part.quoted:
        return _take_out_quoted(part, target, delimiter)
    lines = [line for line in part.text.split("\n") if line]
    if target is None:
        return lines, []
    numbers, labels = [], []
    if target == layout.n_cells - 1:  # by far the most frequent case, and the fastest
        for line in lines:
            cells, _, label = line.rpartition(delimiter)
            numbers.append(cells)
            labels.append(label)
        return numbers, labels
    for line in lines:
        parts = line.split(delimiter, target + 1)
        labels.append(parts.pop(target) if len(parts) > target else _take_all(parts))
        numbers.append(delimiter.join(parts))
    return numbers, labels


def _take_all(cells: list[str]) -> str:
    cells.clear()
    return "?"


def _take_out_quoted(
    part: Slice, target: int | None, delimiter: str
) -> tuple[list[str], list[str]]:
    lines, labels = [], []
    for cells in records(part.text, delimiter):
        if target is not None:
            labels.append(cells.pop(target) if len(cells) > target else _take_all(cells))
        lines.append(delimiter.join(cells))
    return lines, labels


def _first_broken(part: Slice, delimiter: str, done: int) -> int:
    row = done + 1
    try:
        for _ in records(part.text, delimiter):
            row += 1
    except csv.Error:
        pass
    return row
