"""CSV and TSV: RFC 4180, UTF-8, with or without a header."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from service.errors import InvalidContent, InvalidRequest
from service.rows.cell_texts.text import Slice, check_lengths, records, slices, unterminated
from service.rows.cell_texts.words import MISSING_TEXTS
from service.rows.faults import Faults, refuse, too_many
from service.rows.formats import text_table
from service.rows.formats.shared.cells import examine, matrix
from service.rows.spec import TSV, ParseSpec
from service.rows.table.labels import Labels
from service.rows.table.layout import Layout, has_header, make_layout
from service.rows.table.writers import DenseWriter, Table, dense_table, labels_of

FIRST_ROWS = 50
_QUOTED = re.compile(r'"[^"]*"')
_PADDED = re.compile(r'[\n,;\t| "]0[0-9]')
"""At the beginning of a cell."""


class _NotPlain(Exception):
    """There is something to say of the cells: they are read as texts."""


def read(spec: ParseSpec) -> Table:
    """Write the arrays. Raises ServiceError with every fault of the file.

    A file of finite numbers is read at once. If it is something else it is read again, as a table
    whose columns have kinds.
    """
    if _may_be_plain(spec):
        try:
            return _read_plain(spec)
        except (InvalidContent, InvalidRequest, _NotPlain):
            pass
    return text_table.read(spec)


def _may_be_plain(spec: ParseSpec) -> bool:
    onto = spec.onto
    asked = spec.encoding, spec.decimal, spec.thousands, spec.missing, spec.roles
    kinds = onto is not None and (onto.table or onto.weight or onto.ignored)
    return not any(asked) and not kinds and spec.delimiter != ";"


def _read_plain(spec: ParseSpec) -> Table:
    """Write `X.npy`. Raises ServiceError at the first fault, and _NotPlain."""
    delimiter = delimiter_of(spec, spec.media_type)
    parts = slices(Path(spec.data))
    layout, first = _layout(spec, delimiter, parts)
    faults = Faults()
    words = spec.no_label(MISSING_TEXTS)
    labels = labels_of(layout, faults, kind=spec.label_kind, missing=words)
    with DenseWriter(Path(spec.out), layout.n_features, spec.limits) as writer:
        n_samples = 0
        for part in chain([first], parts):
            n_samples += _read_slice(
                part, layout, spec, delimiter, n_samples, writer, labels, faults
            )
            faults.check()
        if n_samples == 0:
            raise InvalidContent("empty-data", "there is no row below the header")
        writer.finish()
    reading: dict[str, Any] = {
        "names": layout.names,
        "encoding": "utf-8",
        "delimiter": delimiter,
        "header": "absent" if layout.names is None else "present",
        "trailing_delimiter": False,
        "decimal": ".",
        "thousands": None,
        "missing": [],
        "columns": {},
    }
    return replace(dense_table(layout, n_samples, labels), reading=reading)


def delimiter_of(spec: ParseSpec, media_type: str) -> str:
    return spec.delimiter or ("\t" if media_type == TSV else ",")


def _layout(spec: ParseSpec, delimiter: str, parts: Iterator[Slice]) -> tuple[Layout, Slice]:
    """The layout, and the first slice without its header."""
    first = next((part for part in parts if part.text.strip("\n")), None)
    if first is None:
        raise InvalidContent("empty-data", "the file is empty")
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
    if header and not all(map(str.strip, cells)):
        raise _NotPlain
    layout = make_layout(spec, len(cells), cells if header else None)
    if header:
        text = _without_first_record(text, delimiter)
    if _PADDED.search(text):
        raise _NotPlain
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
        for count in (FIRST_ROWS, None):  # texts are mostly found in the first rows
            some = islice(records(part.text, delimiter), count)
            rows = examine(some, layout, done + 1, limits.cell_bytes, faults)
            if faults.total:
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
