"""Text files in slices of whole records, so that no file is ever whole in memory."""

from __future__ import annotations

import csv
import sys
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from service.errors import Fault, InvalidRequest
from service.rows.cell_texts.encodings import said_by_mark
from service.rows.cell_texts.number_text import with_plain_ends
from service.rows.faults import refuse

SLICE_BYTES = 256 * 1024
"""Small: a line or cell as a Python object takes many times its length."""
RECORD_BYTES = 4 * 1024 * 1024
"""A longer record is refused."""


@dataclass(frozen=True, slots=True)
class Slice:
    """Some whole records. Line ends outside of quotes are \\n, a byte order mark is gone."""

    text: str
    quoted: bool
    """It holds a quote: a record may have several lines, and cells may need unquoting."""


def slices(
    path: Path,
    *,
    quotes: bool = True,
    slice_bytes: int = SLICE_BYTES,
    record_bytes: int = RECORD_BYTES,
) -> Iterator[Slice]:
    """The file, about `slice_bytes` at a time; more only if a record is longer.

    Raises InvalidRequest `bad-encoding`; InvalidContent `csv-unterminated-quote` and
    `csv-cell-too-large` if a record does not end within `record_bytes`.
    """
    line = 1
    rest = b""
    with path.open("rb") as file:
        if file.read(len(BOM_UTF8)) != BOM_UTF8:
            file.seek(0)
        # Of a record that has not ended yet as much again: it is looked through a few times only.
        while block := file.read(max(slice_bytes, len(rest))):
            data = rest + block
            end = _end_of_records(data, quotes)
            if end == 0 and len(data) >= record_bytes:
                raise _endless(data, line, quotes)
            text, rest = data[:end], data[end:]
            if text:
                yield _slice(text, line, quotes)
                line += text.count(b"\n")
    if rest:
        yield _slice(rest, line, quotes)


# Of the whole process. Cells have a limit of their own in `ReadLimits`.
csv.field_size_limit(sys.maxsize)


def records(text: str, delimiter: str) -> Iterator[list[str]]:
    """The cells of each record as RFC 4180 has it, without blanks before quotes or blank lines.

    Raises csv.Error at a quote that does not end, or ends inside a cell.
    """
    several = delimiter == " "
    if not several:
        text = _without_blanks_before_quotes(text, delimiter)
    rows = csv.reader(_lines(text), delimiter=delimiter, strict=True, skipinitialspace=several)
    return (record for record in rows if record)


def _without_blanks_before_quotes(text: str, delimiter: str) -> str:
    """Blanks before any other cell are of the cell."""
    if ' "' not in text:
        return text
    parts = text.split('"')
    for i in range(0, len(parts) - 1, 2):  # outside of quotes
        before = parts[i].rstrip(" ")
        if before[-1:] in ("", "\n", delimiter) and (before or i == 0):
            parts[i] = before
    return '"'.join(parts)


def _lines(text: str) -> Iterator[str]:
    """With their ends. `StringIO` would copy the text, with four bytes for each character."""
    start = 0
    while end := text.find("\n", start) + 1:
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def unterminated(row: int) -> Exception:
    """The error for a csv.Error in record number `row`."""
    message = f"row {row}: a quoted cell does not end, or text follows its closing quote"
    hint = "write a quote inside a quoted cell as two quotes"
    return refuse("csv-unterminated-quote", message, row=row, hint=hint)


def bad_encoding(what: str, line: int | None = None) -> InvalidRequest:
    """The error for bytes that are not UTF-8, or NUL."""
    place = "the body" if line is None else f"line {line}"
    message, hint = f"{place} is not UTF-8 text: {what}", "save the file as UTF-8"
    fault = Fault(code="bad-encoding", message=message, hint=hint)
    return InvalidRequest("bad-encoding", f"{message}; {hint}", (fault,))


def check_lengths(texts: list[str], limit_bytes: int, first_row: int) -> None:
    """Raises InvalidContent `csv-cell-too-large` if a line of a text is too long."""
    if not texts or 4 * max(map(len, texts)) <= limit_bytes:  # a character has four bytes at most
        return
    for row, text in enumerate(texts, first_row):
        if len(text.encode()) > limit_bytes:
            message = f"row {row}: the line has more than {limit_bytes:,} bytes"
            hint = "is a line end missing?"
            raise refuse("csv-cell-too-large", message, row=row, value=text[:64], hint=hint)


def _end_of_records(data: bytes, quotes: bool) -> int:
    """The end of the last record that ends in `data`: after a line end outside of quotes."""
    end = data.rfind(b"\n") + 1
    if not quotes:
        return end
    # An even number of quotes before a line end: it is outside of them.
    before = data.count(b'"', 0, end)
    while end and before % 2:
        previous = data.rfind(b"\n", 0, end - 1) + 1
        before -= data.count(b'"', previous, end)
        end = previous
    return end


def decode_text(data: bytes) -> str:
    """A whole text. Line ends outside of quotes are \\n, a byte order mark is gone. Raises
    InvalidRequest."""
    return _decode(data.removeprefix(BOM_UTF8), 1, quotes=True)


def _slice(data: bytes, line: int, quotes: bool) -> Slice:
    text = _decode(data, line, quotes)
    return Slice(text, quotes and '"' in text)


def _decode(data: bytes, line: int, quotes: bool) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        where = line + data.count(b"\n", 0, error.start)
        mark = said_by_mark(data) if line == 1 and error.start == 0 else None
        what = f"byte 0x{data[error.start]:02x}" if mark is None else f"this is {mark.upper()}"
        raise bad_encoding(what, where) from None
    if "\0" in text:
        raise bad_encoding("a NUL byte", line + text.count("\n", 0, text.index("\0")))
    if "\r" in text:
        parts = text.split('"') if quotes else [text]
        parts[::2] = map(with_plain_ends, parts[::2])  # those outside of quotes
        text = '"'.join(parts)
    return text


def _endless(data: bytes, line: int, quotes: bool) -> Exception:
    if quotes and b'"' in data:
        message = f"the record that begins in line {line} does not end: is a quote left open?"
        hint = "write a quote inside a quoted cell as two quotes"
        return refuse("csv-unterminated-quote", message, hint=hint)
    message = f"line {line} does not end within {len(data):,} bytes"
    return refuse("csv-cell-too-large", message, hint="is a line end missing?")
