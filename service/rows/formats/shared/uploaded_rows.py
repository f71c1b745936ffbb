"""Rows to predict in a text that is written as the training file: delimiter, header, comments."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from service.errors import InvalidContent
from service.rows.cell_texts.reading import Reading
from service.rows.cell_texts.text import Slice
from service.rows.columns import Columns
from service.rows.kinds.dialect import first_records, is_comment, split_records

HEAD_CHARACTERS = 1 << 20
"""Of a text, enough for its first lines."""


def possible(text: str, columns: Columns, delimiter: str) -> tuple[bool, bool]:
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


def uploaded_records(text: str, columns: Columns) -> Iterator[list[str]]:
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


def explained(error: InvalidContent, reading: Reading, delimiter: str) -> InvalidContent:
    """The same error; of columns, its hint says which delimiters are expected."""
    own = reading.delimiter or ","
    if error.code not in ("feature-mismatch", "ragged-row") or own == delimiter:
        return error
    expected = f"separate cells by {own!r} as the training file does, or by {delimiter!r}"
    faults = tuple(
        replace(fault, hint=expected if fault.hint is None else f"{fault.hint}; {expected}")
        for fault in error.faults
    )
    return InvalidContent(error.code, error.detail, faults, error.faults_total, error.extra)
