"""How a text file is written: its encoding, delimiter, header, comments."""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from service.errors import Fault, InvalidContent, InvalidRequest
from service.rows.cell_texts.reading import DELIMITERS
from service.rows.cell_texts.text import UTF16, Slice, slices
from service.rows.faults import too_many
from service.rows.spec import TSV, ParseSpec
from service.rows.table.layout import has_header

COMMENT = "#"
BLOCK_BYTES = 1024 * 1024
RECORDS = 200
"""Of the head of a file, to find its delimiter."""


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


def recognized(spec: ParseSpec) -> Dialect:
    """The dialect of a file. Raises InvalidRequest and InvalidContent."""
    path, encoding = _as_utf8(spec)
    parts = slices(path, record_bytes=spec.limits.line_bytes)
    head = next((part for part in parts if part.text.strip()), None)
    if head is None:
        raise InvalidContent("empty-data", "the file is empty")
    delimiter = spec.delimiter or _delimiter(spec, head)
    rows = first_records(head.text, delimiter)
    if not rows:
        raise InvalidContent("empty-data", "the file has no rows, but comments")
    first = rows[0]
    width = Counter(map(len, rows[1:])).most_common(1)[0][0] if len(rows) > 1 else len(first)
    if width > spec.limits.columns + 2:
        raise too_many("columns", spec.limits.columns)
    trailing = width > 1 and all(len(row) < width or not row[-1].strip() for row in rows[1:])
    trailing = trailing and len(rows) > 1 and (len(first) == width - 1 or not first[-1].strip())
    if trailing:
        width -= 1
        first = first[:width]
    header = has_header(spec, list(first), head.text)
    names = None
    unnamed: list[int] = []
    if not header:
        width = len(first) if len(rows) == 1 else width
    else:
        names = [name.strip() for name in first]
        if len(names) == width - 1 and _are_different([row[0] for row in rows[1:]]):
            # R leaves out the name of the row names
            names = ["", *names]
        width = len(names)
        if not names[0] and width > 1:
            unnamed = [0]
    return Dialect(
        path=path,
        encoding=encoding,
        delimiter=delimiter,
        header=header,
        names=names,
        n_cells=width,
        trailing=trailing,
        unnamed=unnamed,
    )


def split_records(part: Slice, delimiter: str) -> Iterator[list[list[str]]]:
    """The records of a slice, some at a time, without blank lines. Raises csv.Error."""
    if part.quoted or delimiter == " ":
        file = io.StringIO(part.text, newline="")
        for record in csv.reader(
            file, delimiter=delimiter, strict=True, skipinitialspace=delimiter == " "
        ):
            if record and (len(record) > 1 or record[0].strip()):
                yield [record]
        return
    lines = part.text.split("\n")
    yield [line.split(delimiter) for line in lines if line and not line.isspace()]


def split_columns(part: Slice, dialect: Dialect) -> list[list[str]] | None:
    """The columns of a slice; None if it has quotes, blank lines, or rows of another width.

    Twice as fast as row by row: there is no list for each row.
    """
    width, delimiter = dialect.n_cells, dialect.delimiter
    if part.quoted or dialect.trailing or delimiter == " " or width == 1:
        return None
    text = part.text if part.text.endswith("\n") else f"{part.text}\n"
    cells = text.replace("\n", f"{delimiter}\n{delimiter}").split(delimiter)
    cells.pop()
    n_rows = text.count("\n")
    if len(cells) != n_rows * (width + 1) or cells[width :: width + 1].count("\n") != n_rows:
        return None
    return [cells[column :: width + 1] for column in range(width)]


def is_comment(record: list[str], width: int) -> bool:
    """Whether a record is a comment: `#` before its first cell, and another number of cells."""
    return record[0].startswith(COMMENT) and len(record) != width


def _are_different(texts: list[str]) -> bool:
    return len(set(texts)) == len(texts)


def _as_utf8(spec: ParseSpec) -> tuple[Path, str]:
    """The file in UTF-8, and its encoding."""
    path = Path(spec.data)
    with path.open("rb") as file:
        head = file.read(4)
    encoding = spec.encoding
    if encoding is None:
        encoding = "utf-16" if head.startswith(UTF16) else "utf-8"
        if encoding == "utf-8":
            if _is_utf8(path):
                return path, encoding
            encoding = "windows-1252"
    elif encoding == "utf-8":
        return path, encoding
    new = Path(spec.out) / "as-utf-8"
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        with path.open("rb") as file, new.open("wb") as out:
            while block := file.read(BLOCK_BYTES):
                out.write(decoder.decode(block).encode())
            out.write(decoder.decode(b"", final=True).encode())
    except UnicodeError:  # also UTF-16 and UTF-32 without a byte order mark
        if spec.encoding is None:
            what = "the text is neither UTF-8 nor Windows-1252"
        else:
            what = f"the text is not in the encoding {encoding}"
        hint = "say which it is with `encoding`, or save the file as UTF-8"
        fault = Fault(code="bad-encoding", message=what, hint=hint)
        raise InvalidRequest("bad-encoding", f"{what}; {hint}", (fault,)) from None
    return new, encoding


def _is_utf8(path: Path) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with path.open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _delimiter(spec: ParseSpec, head: Slice) -> str:
    """The one that gives most records the cells of the first one, at least two."""
    default = "\t" if spec.media_type == TSV else ","
    candidates = (default, *(one for one in DELIMITERS if one != default))
    best, best_share = default, 0.0
    for one in candidates:
        try:
            rows = first_records(head.text, one)
        except csv.Error:
            continue
        if not rows or len(rows[0]) < 2:
            continue
        widths = len(rows[0]), len(rows[0]) + 1
        share = sum(len(row) in widths for row in rows) / len(rows)
        if share > best_share:
            best, best_share = one, share
    return best


def first_records(text: str, delimiter: str) -> list[list[str]]:
    """The first records without comments."""
    part = Slice(text, '"' in text)
    found: list[list[str]] = []
    comments: list[list[str]] = []
    try:
        for record in chain.from_iterable(split_records(part, delimiter)):
            (comments if record[0].startswith(COMMENT) else found).append(record)
            if len(found) == RECORDS:
                break
    except csv.Error:
        if not found:
            raise
    if comments and found and len(comments[-1]) == len(found[0]) > 1 and len(comments) == 1:
        return [comments[0], *found]
    return found
