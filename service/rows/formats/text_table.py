"""CSV and TSV as people have them: other dialects, texts, gaps, dates."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from service.errors import InvalidContent
from service.rows.cell_faults import CellFault, ragged
from service.rows.cell_texts.text import Slice, check_lengths, records, slices, unterminated
from service.rows.faults import Faults, too_many
from service.rows.json_reading.numbers import read_lists
from service.rows.kinds.blocks import Cells
from service.rows.kinds.building import Builder
from service.rows.kinds.dialect import (
    COMMENT,
    Dialect,
    is_blank,
    is_comment,
    recognize,
    split_records,
)
from service.rows.kinds.feature import Batch
from service.rows.kinds.gathering import PLACEHOLDER
from service.rows.kinds.proposing_labels import LabelColumn
from service.rows.spec import ConvertSpec, ParseSpec, ReadLimits
from service.rows.table.layout import Layout, make_layout
from service.rows.table.writers import DenseWriter, Table, dense_table

Columns: TypeAlias = list[Sequence[str]]
Lines: TypeAlias = tuple[list[str], list[str]]
"""The records without the label column, and the labels."""

DELIMITER_HINT = "give one value for each column; put a text with the delimiter in it in quotes"


def read(spec: ParseSpec, *, padded: bool = False) -> Table:
    """Write the arrays. `padded`: the blanks around any cell but a text, which may be of any kind,
    are not of the cell. Raises ServiceError with every fault of the file."""
    try:
        dialect = recognize(spec)
    except csv.Error:
        raise unterminated(1) from None
    columns = make_layout(spec, dialect.n_cells, dialect.names, dialect.unnamed)
    blank: list[int] = []

    def passes(faults: Faults, texts: Collection[int]) -> Iterator[Batch]:
        blank.clear()
        batches = _batches(dialect, spec.limits, faults, columns, blank, texts)
        return (
            (_stripped(batch, dialect.n_cells, texts) for batch in batches) if padded else batches
        )

    plain = None if padded else _read_plain(spec, dialect, columns)
    table = plain or Builder(spec, columns, passes).build(comma_likely=dialect.comma_likely)
    return replace(
        table,
        reading={
            "names": columns.names,
            **_reading(dialect, sum(blank)),
            **(table.reading or {}),
        },
        warnings=[*dialect.warnings, *table.warnings],
    )


def as_csv(spec: ConvertSpec) -> bool:
    """Write rows to predict: their cells as they are, with commas, below their names if they have
    some; and whether they have. Raises ServiceError."""
    out = Path(spec.out)
    asked = ParseSpec(file=spec.file, out=str(out.parent), limits=spec.limits)
    try:
        dialect = recognize(asked)
    except csv.Error:
        raise unterminated(1) from None
    except InvalidContent as error:
        if error.code != "bad-column-name":
            raise
        dialect = recognize(asked.asking(header="absent"))  # the model may know the names
    header, done, faults = dialect.header, 0, Faults()
    with out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\r\n")  # cells with either are quoted
        if dialect.names is not None:
            writer.writerow(dialect.names)
        for part in slices(dialect.path, record_bytes=spec.limits.line_bytes):
            rows = _rows(part, dialect, done + 1 - header, [])
            if header and rows:
                rows, header = _without_header(rows, dialect.n_cells), False
            if set(map(len, rows)) - {dialect.n_cells}:
                rows = _checked(rows, dialect.n_cells, done, faults)
            done += len(rows)
            if done > spec.limits.rows:
                raise too_many("rows", spec.limits.rows)
            writer.writerows(rows)
    faults.check()
    return dialect.names is not None


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
    texts: Collection[int],
) -> Iterator[Batch]:
    """The cells of some rows, column by column; a row with another width is a fault. How many rows
    of delimiters only were left out is added to `blank`. The cells of `texts` may be long."""
    width = dialect.n_cells
    header, done = dialect.header, 0
    simple = not dialect.trailing and dialect.delimiter != " "
    for part in slices(dialect.path, record_bytes=limits.line_bytes):
        if not part.quoted:  # before there is an object for each cell
            _check_lines(part.text, limits, done)
        long = part.quoted or _has_long_cell(part.text, dialect.delimiter, limits.cell_bytes)
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
            batch = _without_long(batch, limits.cell_bytes, done, faults, columns, texts)
        yield batch
        done += len(batch[0])


def _stripped(batch: Batch, n_cells: int, texts: Collection[int]) -> Batch:
    return [batch[i] if i in texts else [cell.strip() for cell in batch[i]] for i in range(n_cells)]


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
    if _has_long_cell(text, "\n", limits.line_bytes // 4):
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


def _without_long(
    batch: Columns,
    limit: int,
    done: int,
    faults: Faults,
    roles: Layout,
    texts: Collection[int],
) -> Columns:
    """The cells; one that is too long, and none of `texts`, is a fault, and is cut: in the end its
    column may be one of texts."""
    columns: list[Sequence[str]] = []
    read = {*roles.features, roles.target, *roles.beside.values()}.difference(texts)
    for position, column in enumerate(batch):
        if position not in read or len(max(column, key=len)) <= limit // 4:
            columns.append(column)
            continue
        cells = list(column)
        for row, cell in enumerate(column, done + 1):
            if len(cell.encode()) > limit:
                message = f"has more than {limit:,} bytes"
                hint = "is a delimiter or a quote missing? else say in `schema` that it is a text"
                fault = CellFault("csv-cell-too-large", message, cell, hint)
                faults.add(*fault, row=row, column=roles.column(position))
                cells[row - done - 1] = cell[: limit // 4] if " " in cell else PLACEHOLDER
        columns.append(cells)
    return columns


def _read_plain(spec: ParseSpec, dialect: Dialect, columns: Layout) -> Table | None:
    """Write `X.npy` of a file whose features are finite numbers, written plainly.

    There is nothing to decide about such columns: each slice is read at once. At the first cell
    that is anything else it is None. Raises TooLarge.
    """
    special = dialect.trailing or spec.asked.decimal == "," or spec.asked.missing
    if special or dialect.delimiter in "; +-.eE" or not columns.may_be_plain:
        return None
    target, n_features = columns.target, len(columns.features)
    labels = LabelColumn(spec, Faults(), columns)
    parts = slices(dialect.path, record_bytes=spec.limits.line_bytes)
    first = next((part for part in parts if part.text.strip("\n")), None)
    if first is not None and dialect.header:
        first = _after_header(first)
    if first is None:
        return None
    with DenseWriter(Path(spec.out), n_features, spec.limits) as writer:
        try:
            for part in chain([first], parts):
                lines, texts = _lines(part, dialect.delimiter, target, dialect.n_cells)
                if not lines:
                    continue
                check_lengths(lines, spec.limits.line_bytes, writer.n_samples + 1)
                X = _matrix(lines, dialect.delimiter, n_features, spec.limits.cell_bytes)
                if X is None:
                    return None
                labels.add_texts(texts)
                writer.add(X)
            if writer.n_samples == 0:
                return None
            labeled = labels.decide()
        except (InvalidContent, csv.Error):
            return None
        if labels.lacks_advice:
            return None
        writer.finish()
    plain: dict[str, Any] = {"decimal": ".", "thousands": None, "missing": [], "columns": {}}
    return replace(dense_table(columns, writer.n_samples, labeled), reading=plain)


def _after_header(part: Slice) -> Slice | None:
    """None if it is not one line."""
    line, _, rest = part.text.lstrip("\n").partition("\n")
    if line.startswith(("#", "sep=", '"sep=')) or line.count('"') % 2:
        return None
    return Slice(rest, '"' in rest)


def _lines(part: Slice, delimiter: str, target: int | None, n_cells: int) -> Lines:
    """Raises csv.Error."""
    lines, labels = [], []
    if part.quoted:
        for cells in records(part.text, delimiter):
            right = len(cells) == n_cells
            if target is not None:
                labels.append(cells.pop(target) if right else "")
            lines.append(delimiter.join(cells) if right else "?")
        return lines, labels
    whole = [line for line in part.text.split("\n") if line]
    if target is None:
        return whole, []
    if target == n_cells - 1:  # by far the most frequent case, and the fastest
        split = [line.rpartition(delimiter) for line in whole]
        return [cells for cells, _, _ in split], [label for _, _, label in split]
    for line in whole:
        some = line.split(delimiter, target + 1)
        labels.append(some.pop(target) if len(some) > target else "")
        lines.append(delimiter.join(some))
    return lines, labels


def _matrix(
    lines: list[str], delimiter: str, n_columns: int, cell_bytes: int
) -> npt.NDArray[np.float64] | None:
    """(lines, n_columns) finite numbers, or None if some cell must be looked at closely.

    The cells hold neither quotes nor line ends. Lines of plain numbers are JSON but for brackets.
    """
    text = "\n".join(lines)
    if delimiter != ",":
        if "," in text:
            return None
        text = text.replace(delimiter, ",")
    if "[" in text or _has_long_cell(text, ",", cell_bytes):
        return None
    listed = b"[[%b]]" % text.replace("\n", "],[").encode()
    X = read_lists(listed, n_columns)
    return X if X is not None and len(X) == len(lines) and np.isfinite(X).all() else None


def _has_long_cell(text: str, delimiter: str, cell_bytes: int) -> bool:
    """Whether a cell may be longer; such a cell covers a stretch of half its length."""
    step = max(1, cell_bytes // 2)
    for start in range(0, len(text) - step + 1, step):
        stretch = text[start : start + step]
        if delimiter not in stretch and "\n" not in stretch:
            return True
    return False
