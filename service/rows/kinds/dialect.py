"""How a text file is written: its encoding, delimiter, header, comments."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from service.errors import InvalidContent
from service.rows.cell_texts.encodings import as_utf8
from service.rows.cell_texts.number_text import is_value
from service.rows.cell_texts.reading import DELIMITERS
from service.rows.cell_texts.text import Slice, records, slices
from service.rows.cell_texts.tidying import (
    tidy,
    with_closed_quotes,
    without_nul_end,
    without_outer_quotes,
)
from service.rows.faults import refuse, too_many, warning
from service.rows.spec import DELIMITED, MOST_OTHERS, ParseSpec
from service.rows.table.layout import has_header

COMMENT = "#"
SEPARATOR = "sep="
"""Excel's first line: the delimiter follows, maybe in quotes with it."""
_SEPARATORS = frozenset({SEPARATOR, *(SEPARATOR + delimiter for delimiter in DELIMITERS)})
RECORDS = 200
"""Of the head of a file, to find its delimiter."""
MIN_ROWS_OF_NAMES = 10
"""Below a first record to say that its texts come only once."""
HALF = 0.5
_FRACTION = re.compile(r"[+-]?[0-9]*[.,][0-9]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A text file, in UTF-8 by now."""

    path: Path
    encoding: str
    delimiter: str
    header: bool
    names: list[str] | None
    """Of all cells of a row."""
    n_cells: int
    trailing: bool
    """Whether each row ends with a delimiter."""
    unnamed: list[int]
    """Columns without a name that are not kept."""
    first_line: int
    """The line of its first record."""
    comma_likely: bool
    """Whether numbers may have a decimal comma without a cell that can only have one."""
    warnings: list[dict[str, Any]]


def recognize(spec: ParseSpec) -> Dialect:
    """The dialect of a file. Raises InvalidRequest and InvalidContent."""
    folder = Path(spec.out)
    path, encoding, warnings = as_utf8(
        Path(spec.file.path), spec.asked.encoding, folder / "as-utf-8"
    )
    path = without_nul_end(path, folder / "without-nul")
    usual = spec.asked.delimiter or DELIMITED.get(spec.file.media_type, ",")
    delimiters = (usual,) if spec.asked.delimiter else (usual, *DELIMITERS)
    opened, head = path, _head(spec, path)
    path = with_closed_quotes(path, folder / "with-quotes", head.text, delimiters)
    if path != opened:
        head = _head(spec, path)
        message = "a quote that is not closed in its line was read as a letter"
        warnings.append(warning("open-quotes", message))
    quoted = path
    path = without_outer_quotes(path, folder / "without-quotes", head.text, DELIMITERS)
    if path != quoted:
        head = _head(spec, path)
        message = "each line is one cell in quotes: what is in the quotes was read as the line"
        warnings.append(warning("quoted-lines", message))
    delimiter = spec.asked.delimiter or _delimiter(spec, head)

    def is_header(cells: list[str]) -> bool:
        return spec.asked.header != "absent" and not any(is_value(cell.strip()) for cell in cells)

    table = tidy(path, folder / "tidied", head.text, delimiter, is_header)
    if table.path != path:
        path, head = table.path, _head(spec, table.path)
        warnings += table.warnings
    rows = first_records(head.text, delimiter)
    if not rows:
        raise InvalidContent("empty-data", "the file has no rows, but comments")
    first = rows[0]
    ((width, count),) = Counter(map(len, rows[1:] or rows)).most_common(1)
    if count < HALF * len(rows) and len(rows) > MIN_ROWS_OF_NAMES:
        raise _no_table(rows, delimiter)
    if width > spec.limits.columns + MOST_OTHERS:
        raise too_many("columns", spec.limits.columns)
    trailing = width > 1 and all(len(row) < width or not row[-1].strip() for row in rows[1:])
    trailing = trailing and len(rows) > 1 and (len(first) == width - 1 or not first[-1].strip())
    if trailing:
        width -= 1
        first = first[:width]
    elif len(first) == width + 1 > 2 and not first[-1].strip():
        first = first[:-1]
        message = "the header alone ends with a delimiter, left out"
        warnings.append(warning("left-out-lines", message))
    if spec.asked.header != "absent" and is_title(first, width):
        raise title(first, width)
    header = has_header(spec, list(first), head.text)
    if not header and spec.asked.header == "auto" and _may_be_names(rows):
        message = "the first record may be a header with numbers in it, or data"
        raise refuse("bad-column-name", message, hint="say header=present or header=absent")
    names = None
    unnamed: list[int] = []
    if not header:
        width = len(first) if len(rows) == 1 else width
    else:
        names = table.names or [name.strip() for name in first]
        firsts = [row[0] for row in rows[1:]]
        if (
            len(names) == width - 1
            and _are_row_names(firsts)
            and not _may_be_split(firsts, delimiter)
        ):
            # R leaves out the name of the row names
            names = ["", *names]
        width = len(names)
        if width > 1:
            empty = [i for i, name in enumerate(names) if not name and _is_empty(rows[1:], i)]
            if not names[0] and (_ignores_first(spec) or _are_row_names(firsts)):
                empty = sorted({0, *empty})
            unnamed = empty
    return Dialect(
        path=path,
        encoding=encoding,
        delimiter=delimiter,
        header=header,
        names=names,
        n_cells=width,
        trailing=trailing,
        unnamed=unnamed,
        first_line=table.first_line,
        comma_likely=delimiter == ";" and not table.of_program,
        warnings=warnings,
    )


def _head(spec: ParseSpec, path: Path) -> Slice:
    """The first slice with a text."""
    parts = slices(path, record_bytes=spec.limits.line_bytes)
    head = next((part for part in parts if part.text.strip()), None)
    if head is None:
        raise InvalidContent("empty-data", "the file is empty")
    return head


def split_records(part: Slice, delimiter: str) -> Iterator[list[list[str]]]:
    """The records of a slice, some at a time, without blank lines. Raises csv.Error."""
    if part.quoted or delimiter == " ":
        for record in records(part.text, delimiter):
            if len(record) > 1 or record[0].strip():
                yield [record]
        return
    lines = part.text.split("\n")
    for start in range(0, len(lines), RECORDS):
        yield [
            line.split(delimiter)
            for line in lines[start : start + RECORDS]
            if line and (delimiter in line or not line.isspace())
        ]


def is_blank(record: list[str]) -> bool:
    """Whether no cell has a text: a line of delimiters, as Excel writes below a table."""
    return not any(map(str.strip, record))


def is_comment(record: list[str], width: int) -> bool:
    """Whether a record is a comment: `#` before its first cell, and another number of cells; or
    Excel's line that says the delimiter."""
    return _says_delimiter(record) or (record[0].startswith(COMMENT) and len(record) != width)


def _says_delimiter(record: list[str]) -> bool:
    return record[0] in _SEPARATORS and not any(record[1:])


def _are_row_names(texts: list[str]) -> bool:
    """Whether cells without a name of their column may be names of rows: texts or whole numbers
    that are all different."""
    return len(set(texts)) == len(texts) and not any(map(_FRACTION.fullmatch, texts))


def _may_be_split(texts: list[str], delimiter: str) -> bool:
    """Whether numbers before the first delimiter may have lost a part to it: a comma without
    quotes makes a cell more. R counts its rows from 1."""
    numbers = delimiter == "," and any(map(is_value, texts))
    return numbers and texts != [str(i) for i in range(1, len(texts) + 1)]


def _ignores_first(spec: ParseSpec) -> bool:
    """Whether the dataset that the rows are appended to has left out a column without a name."""
    return spec.onto is not None and any(one["name"] == "" for one in spec.onto.ignored)


def _is_empty(rows: list[list[str]], position: int) -> bool:
    """Whether no row has a cell there."""
    return not any(row[position].strip() for row in rows if position < len(row))


def _may_be_names(rows: list[list[str]]) -> bool:
    """Whether the first record has numbers and texts, and its texts, those of features and of the
    last column, come only once: as a header with years in it."""
    first = [cell.strip() for cell in rows[0]]
    places = [i for i, cell in enumerate(first) if cell and not is_value(cell)]
    if len(rows) <= MIN_ROWS_OF_NAMES or len(places) < 2 or len(set(first)) < len(first):
        return False
    others = rows[1:]
    return places[-1] == len(first) - 1 and not any(
        row[i].strip() == first[i] for row in others if len(row) == len(first) for i in places
    )


def _no_table(rows: list[list[str]], delimiter: str) -> InvalidContent:
    widths = sorted({len(row) for row in rows})
    some = ", ".join(repr(delimiter.join(row)[:64]) for row in rows[:3])
    message = f"the lines have {widths[0]} to {widths[-1]} cells, as in {some}: they are no table"
    hint = "give each line one value for each column; is the delimiter right?"
    return refuse("ragged-row", message, hint=hint)


def is_title(first: list[str], width: int) -> bool:
    """Whether the first record has one cell with a text, and the others have more."""
    texts = [cell for cell in first if cell.strip()]
    return width > 2 and len(texts) == 1 and first[0] == texts[0] and not is_value(texts[0].strip())


def title(first: list[str], width: int) -> InvalidContent:
    message = f"the first line has {first[0][:64]!r} alone, the lines below it {width} cells"
    hint = "if it is a title, remove it: the names of the columns come first"
    return refuse("ragged-row", message, value=first[0][:64], hint=hint)


def _delimiter(spec: ParseSpec, head: Slice) -> str:
    """The one that gives most records the cells of the first one, at least two."""
    said = head.text.lstrip("\n").partition("\n")[0].strip().strip('"')
    if said.startswith(SEPARATOR) and said[len(SEPARATOR) :] in DELIMITERS:
        return said[len(SEPARATOR) :]
    default = DELIMITED.get(spec.file.media_type, ",")
    candidates = (default, *(one for one in DELIMITERS if one != default))
    best, best_share = default, 0.0
    for one in candidates:
        try:
            rows = first_records(head.text, one)
        except csv.Error:
            continue
        share = _share(rows, len(rows[0])) if rows else 0.0
        if share < HALF:  # the first line may be a title
            width = Counter(map(len, rows[1:])).most_common(1)
            share = _share(rows, width[0][0]) if width else share
        if share > best_share:
            best, best_share = one, share
    return best


def _share(rows: list[list[str]], width: int) -> float:
    """Of rows with that many cells, at least two, or one more: R's have a name each."""
    return sum(len(row) in (width, width + 1) for row in rows) / len(rows) if width > 1 else 0.0


def first_records(text: str, delimiter: str) -> list[list[str]]:
    """The first records without comments."""
    part = Slice(text, '"' in text)
    records: list[list[str]] = []
    comments: list[list[str]] = []
    try:
        for record in chain.from_iterable(split_records(part, delimiter)):
            if is_blank(record):
                continue
            if not records and (record[0].startswith(COMMENT) or _says_delimiter(record)):
                comments.append(record)
            elif not records or not is_comment(record, len(records[0])):
                records.append(record)
            if len(records) == RECORDS:
                break
    except csv.Error:
        if not records:
            raise
    if len(comments) == 1 and records and len(comments[0]) == len(records[0]) > 1:
        return [comments[0], *records]  # such as "#id": the names
    return records
