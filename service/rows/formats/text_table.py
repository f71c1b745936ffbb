"""CSV and TSV as people have them: other dialects, texts, gaps, dates."""

from __future__ import annotations

import csv
import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeAlias

from service.rows.cell_faults import CellFault, ragged
from service.rows.cell_texts.text import Slice, check_lengths, slices, unterminated
from service.rows.faults import Faults
from service.rows.formats.shared import plain_table
from service.rows.formats.shared.cells import has_long_cell
from service.rows.kinds.blocks import Cells
from service.rows.kinds.building import PLACEHOLDER, Builder
from service.rows.kinds.dialect import (
    COMMENT,
    Dialect,
    is_blank,
    is_comment,
    recognize,
    split_records,
)
from service.rows.kinds.feature import Batch
from service.rows.spec import ParseSpec, ReadLimits
from service.rows.table.layout import Layout, make_layout
from service.rows.table.writers import Table

Columns: TypeAlias = list[Sequence[str]]

DELIMITER_HINT = "give one value for each column; put a text with the delimiter in it in quotes"


def read(spec: ParseSpec) -> Table:
    """Write the arrays. Raises ServiceError with every fault of the file."""
    try:
        dialect = recognize(spec)
    except csv.Error:
        raise unterminated(1) from None
    columns = make_layout(spec, dialect.n_cells, dialect.names, dialect.unnamed)
    table = plain_table.read(spec, dialect, columns)
    blank: list[int] = []

    def passes(faults: Faults) -> Iterator[Batch]:
        blank.clear()
        return _batches(dialect, spec.limits, faults, columns, blank)

    if table is None:
        with _without_cycles():
            builder = Builder(spec, columns, passes)
            table = builder.build(comma_likely=dialect.comma_likely)
    return replace(
        table,
        reading={
            "names": columns.names,
            **_reading(dialect, sum(blank)),
            **(table.reading or {}),
        },
        warnings=[*dialect.warnings, *table.warnings],
    )


@contextmanager
def _without_cycles() -> Iterator[None]:
    """No search for cycles of objects: cells are lists of texts, which form none."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _reading(dialect: Dialect, n_blank: int) -> dict[str, Any]:
    return {
        **({"blank_rows": n_blank} if n_blank else {}),
        "encoding": dialect.encoding,
        "delimiter": dialect.delimiter,
        "header": "present" if dialect.header else "absent",
        "trailing_delimiter": dialect.trailing,
        **({"first_line": dialect.first_line} if dialect.first_line > 1 else {}),
    }


def _batches(
    dialect: Dialect,
    limits: ReadLimits,
    faults: Faults,
    columns: Layout,
    blank: list[int],
) -> Iterator[Batch]:
    """The cells of some rows, column by column; a row with another width is a fault. How many rows
    of delimiters only were left out is added to `blank`."""
    width = dialect.n_cells
    header, done = dialect.header, 0
    simple = not dialect.trailing and dialect.delimiter != " "
    for part in slices(dialect.path, record_bytes=limits.line_bytes):
        if not part.quoted:  # before there is an object for each cell
            _check_lines(part.text, limits, done)
        long = part.quoted or has_long_cell(part.text, dialect.delimiter, limits.cell_bytes)
        if simple and not header and not long:
            cells = Cells.of(part.text, dialect.delimiter, width)
            if cells is not None:
                yield cells
                done += cells.n_rows
                continue
        rows = _rows(part, dialect, done + 1 - header, blank)
        if header and rows:
            rows = _without_header(rows, width)
            header = False
        if set(map(len, rows)) - {width}:
            rows = _checked(rows, width, done, faults)
        if not rows:
            continue
        batch: Columns = list(zip(*rows, strict=True))
        if long:
            batch = _without_long(batch, limits.cell_bytes, done, faults, columns)
        yield batch
        done += len(batch[0])


def _rows(part: Slice, dialect: Dialect, first_row: int, blank: list[int]) -> list[list[str]]:
    """The records of a slice without their trailing delimiters."""
    rows: list[list[str]] = []
    try:
        for records in split_records(part, dialect.delimiter):
            kept = [record for record in records if not is_blank(record)]
            rows += kept
            blank.append(len(records) - len(kept))
    except csv.Error:
        before = sum(not row[0].startswith(COMMENT) for row in rows)
        raise unterminated(first_row + before) from None
    if not dialect.trailing:
        return rows
    width = dialect.n_cells
    return [row[:-1] if len(row) == width + 1 and not row[-1].strip() else row for row in rows]


def _without_header(rows: list[list[str]], width: int) -> list[list[str]]:
    for i, row in enumerate(rows):
        if not is_comment(row, width):
            return rows[i + 1 :]
    return []


def _check_lines(text: str, limits: ReadLimits, done: int) -> None:
    if has_long_cell(text, "\n", limits.line_bytes // 4):
        lines = [line for line in text.split("\n") if line]
        check_lengths(lines, limits.line_bytes, done + 1)


def _checked(rows: list[list[str]], width: int, done: int, faults: Faults) -> list[list[str]]:
    """The rows without comments; those of another width are faults, others are in their places."""
    kept: list[list[str]] = []
    for row in rows:
        if len(row) == width:
            kept.append(row)
        elif not is_comment(row, width):
            fault = ragged(len(row), width)
            if len(row) > width:
                fault = fault._replace(hint=DELIMITER_HINT)
            faults.add(*fault, row=done + len(kept) + 1)
            kept.append([PLACEHOLDER] * width)
    return kept


def _without_long(batch: Columns, limit: int, done: int, faults: Faults, roles: Layout) -> Columns:
    """The cells; one that is too long is a fault, another is in its place."""
    columns: list[Sequence[str]] = []
    read = {*roles.features, roles.target, roles.weight}
    for position, column in enumerate(batch):
        if position not in read or len(max(column, key=len)) <= limit // 4:
            columns.append(column)
            continue
        cells = list(column)
        for row, cell in enumerate(column, done + 1):
            if len(cell.encode()) > limit:
                message = f"has more than {limit:,} bytes"
                hint = "is a delimiter or a quote missing?"
                fault = CellFault("csv-cell-too-large", message, cell, hint)
                faults.add(*fault, row=row, column=roles.column(position))
                cells[row - done - 1] = PLACEHOLDER
        columns.append(cells)
    return columns
