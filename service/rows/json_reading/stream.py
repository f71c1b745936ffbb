"""JSON with long arrays, read element by element: its values are never all in memory."""

from __future__ import annotations

import io
import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson

from service.errors import InvalidContent, InvalidRequest
from service.rows.cell_texts.text import bad_encoding

BLOCK_BYTES = 256 * 1024
"""Small: an element as a Python object takes many times its length."""
VALUE_BYTES = 1024 * 1024
"""Of one that is read whole."""
BLANKS = b" \t\r\n"
MAX_DEPTH = 16
MAX_MEMBERS = 100

OBJECT_BYTES = 48 * 1024 * 1024
"""Of a body that is in memory as a whole."""
_OBJECT_BYTES = {",": 32, "[": 64, "{": 64, ":": 100, '"': 25}
"""What each of these characters may cost: a number, a list, an object, a member, half a text."""

Source: TypeAlias = Path | bytes
"""A file, or a body in memory."""

_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_STRUCTURE = (b'"', b"\\", b"[", b"]", b"{", b"}")
_QUOTE, _COMMA, _COLON = b'",:'
_DEEPER = np.zeros(256, dtype=np.int8)
_DEEPER[[*b"[{"]] = 1
_DEEPER[[*b"]}"]] = -1


@dataclass(frozen=True, slots=True)
class Span:
    """The position of a value in its source, in bytes."""

    start: int
    end: int


@dataclass(slots=True)
class _Scanner:
    """Follows quotes and brackets through a text that comes in blocks."""

    depth: int = 0
    in_string: int = 0
    escaped: bool = False
    """The last block ended with a backslash."""

    def scan(self, block: bytes) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32]]:
        """The characters of `block`, those of strings as 0; and the depth after each."""
        if not (self.in_string or any(mark in block for mark in _STRUCTURE)):  # long lists
            depth = np.full(len(block), self.depth, dtype=np.int32)
            return np.frombuffer(block, dtype=np.uint8), depth
        if self.escaped:
            block = b"_" + block[1:]
        if b"\\" in block:
            block = _ESCAPE.sub(b"__", block)
        self.escaped = block.endswith(b"\\")
        characters = np.frombuffer(block, dtype=np.uint8)
        is_quote = characters == _QUOTE
        inside = ((np.cumsum(is_quote) + self.in_string) & 1).astype(bool)
        self.in_string = int(inside[-1])
        characters = np.where(inside & ~is_quote, 0, characters)
        depth = self.depth + np.cumsum(_DEEPER[characters], dtype=np.int32)
        self.depth = int(depth[-1])
        if depth.max() > MAX_DEPTH:
            malformed(f"more than {MAX_DEPTH} levels")
        if depth.min() < 0:
            malformed("a bracket closes that was not opened")
        return characters, depth


@dataclass(slots=True)
class _Marks:
    """Positions in the file that divide the outermost object."""

    colons: list[int] = field(default_factory=list)
    commas: list[int] = field(default_factory=list)
    end: int | None = None


def members(
    source: Source,
    span: Span | None = None,
    block_bytes: int = BLOCK_BYTES,
    most: int = MAX_MEMBERS,
) -> dict[str, Span]:
    """The names of the source's object, or of the one at `span`, and the positions of their values.

    Raises InvalidRequest `malformed-json`, also if a name comes twice. What is inside of the
    values is looked at when they are read.
    """
    start = _start_of_object(source, span)
    end = _size(source) if span is None else span.end
    marks = _marks(source, start, end, block_bytes, most)
    if marks.end is None:
        malformed("it ends too early")
    spans: dict[str, Span] = {}
    begin = start + 1
    if not marks.colons and not marks.commas:
        if marks.end - begin > VALUE_BYTES or raw(source, Span(begin, marks.end)).strip(BLANKS):
            malformed("an object is made of names and values")
        return spans
    ends = [*marks.commas, marks.end]
    if len(marks.colons) != len(ends):
        malformed("an object is made of names and values")
    for colon, end in zip(marks.colons, ends, strict=True):
        if not begin <= colon < end:
            malformed("an object is made of names and values")
        if colon - begin > VALUE_BYTES:
            malformed(f"a name has more than {VALUE_BYTES:,} bytes")
        name = loads(raw(source, Span(begin, colon)))
        if not isinstance(name, str):
            malformed("a name needs quotes")
        if name in spans:
            malformed(f"{name[:64]!r} comes twice in one object")
        spans[name] = Span(colon + 1, end)
        begin = end + 1
    return spans


_AS_COLUMNS = "it is too large to be read as columns; send a list of objects, one a row"


def check_object_bytes(source: Source, refusal: str = _AS_COLUMNS) -> None:
    """Raises InvalidContent if the source would take more than OBJECT_BYTES as Python's objects."""
    counts = np.zeros(256, np.int64)
    with _opened(source) as file:
        while block := file.read(BLOCK_BYTES):
            counts += np.bincount(np.frombuffer(block, np.uint8), minlength=256)
    if (
        sum(int(counts[ord(mark)]) * n_bytes for mark, n_bytes in _OBJECT_BYTES.items())
        > OBJECT_BYTES
    ):
        raise InvalidContent("invalid-field", refusal)


def is_object(source: Source, span: Span) -> bool:
    """Whether the value begins as an object does."""
    return beginning(source, span).startswith(b"{")


def beginning(source: Source, span: Span) -> bytes:
    """How a value begins, without the blanks before it."""
    return raw(source, Span(span.start, min(span.end, span.start + 1024))).lstrip(BLANKS)


def whole(source: Source) -> Span:
    """All of the source but a byte order mark."""
    size = _size(source)
    start = len(BOM_UTF8) if raw(source, Span(0, min(size, len(BOM_UTF8)))) == BOM_UTF8 else 0
    return Span(start, size)


def _start_of_object(source: Source, span: Span | None) -> int:
    start, end = (0, 1024) if span is None else (span.start, span.end)
    head = raw(source, Span(start, min(end, start + 1024)))
    text = head.removeprefix(BOM_UTF8 if span is None else b"").lstrip(BLANKS)
    if text.startswith(b"[") and span is None:
        raise InvalidContent("invalid-field", 'the body is an object, such as {"rows": [[1, 2]]}')
    if not text.startswith(b"{"):
        malformed("it does not begin with {")
    return start + len(head) - len(text)


def _marks(source: Source, start: int, end_of_all: int, block_bytes: int, most: int) -> _Marks:
    marks = _Marks()
    scanner = _Scanner()
    with _opened(source) as file:
        file.seek(start)
        while block := file.read(min(block_bytes, end_of_all - start)):
            if marks.end is not None:
                if block.strip(BLANKS):
                    malformed("something follows its end")
                start += len(block)
                continue
            characters, depth = scanner.scan(block)
            marks.colons += _positions(start, (characters == _COLON) & (depth == 1))
            marks.commas += _positions(start, (characters == _COMMA) & (depth == 1))
            if max(len(marks.commas), len(marks.colons)) > most:
                malformed(f"more than {most:,} names in one object")
            if (closing := np.flatnonzero(depth == 0)).size:
                end = int(closing[0])
                if characters[end] != ord("}") or block[end + 1 :].strip(BLANKS):
                    malformed("something follows its end")
                marks.end = start + end
            start += len(block)
    return marks


def _positions(start: int, mask: npt.NDArray[np.bool_]) -> list[int]:
    return [start + int(position) for position in np.flatnonzero(mask)]


def _opened(source: Source) -> BinaryIO:
    return io.BytesIO(source) if isinstance(source, bytes) else source.open("rb")


def _size(source: Source) -> int:
    return len(source) if isinstance(source, bytes) else source.stat().st_size


def raw(source: Source, span: Span) -> bytes:
    """The text of a value."""
    with _opened(source) as file:
        file.seek(span.start)
        return file.read(span.end - span.start)


def value(source: Source, span: Span) -> Any:
    """A whole value; one of many megabytes is refused."""
    if span.end - span.start > VALUE_BYTES:
        raise InvalidContent("invalid-field", f"a value has more than {VALUE_BYTES:,} bytes")
    return loads(raw(source, span))


def elements(
    source: Source, span: Span, block_bytes: int = BLOCK_BYTES
) -> Iterator[list[Any]] | None:
    """The elements of an array, some at a time; None if the value is not an array.

    Raises InvalidRequest `malformed-json`, on the way.
    """
    if not beginning(source, span).startswith(b"["):
        value(source, span)
        return None
    return map(loads, raw_elements(source, span, block_bytes))


def raw_elements(
    source: Source, span: Span, block_bytes: int = BLOCK_BYTES, most_bytes: int = VALUE_BYTES
) -> Iterator[bytes]:
    """The elements of an array, each time some of them as the text of an array. An element of more
    than `most_bytes` is refused."""
    head = raw(source, Span(span.start, min(span.end, span.start + 1024)))
    start = span.start + len(head) - len(head.lstrip(BLANKS)) + 1
    return _elements(source, start, span.end, block_bytes, most_bytes)


def _elements(
    source: Source, start: int, end: int, block_bytes: int, most_bytes: int
) -> Iterator[bytes]:
    scanner = _Scanner(depth=1)
    rest = bytearray()
    first = True
    with _opened(source) as file:
        file.seek(start)
        while start < end:
            block = file.read(min(block_bytes, end - start))
            start += len(block)
            characters, depth = scanner.scan(block)
            closing = np.flatnonzero(depth == 0)
            if len(closing):
                cut = int(closing[0])
                if characters[cut] != ord("]"):
                    malformed("an array ends with ]")
                last = bytes(rest) + block[:cut]
                if last.strip(BLANKS) or not first:
                    yield _batch(last)
                after = block[cut + 1 :]
                while not after.strip(BLANKS) and start < end:
                    after = file.read(min(block_bytes, end - start))
                    start += len(after)
                if after.strip(BLANKS):
                    malformed("something follows the end of an array")
                return
            commas = np.flatnonzero((characters == _COMMA) & (depth == 1))
            if not len(commas):
                rest += block
                if len(rest) > most_bytes:
                    malformed(f"an element of an array has more than {most_bytes:,} bytes")
                continue
            cut = int(commas[-1])
            yield _batch(bytes(rest) + block[:cut])
            first = False
            rest[:] = block[cut + 1 :]
    malformed("an array does not end")


def _batch(text: bytes) -> bytes:
    if not text.strip(BLANKS):
        malformed("a comma without a value")
    return b"[" + text + b"]"


def loads(text: bytes) -> Any:
    """Raises InvalidRequest `malformed-json`. A number beyond 1.8e308 is given as infinity,
    NaN as null."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        _check_encoding(text)
        if "infinity" in error.msg or b"NaN" in text or b"Infinity" in text:
            return _loads_with_infinity(text)
        near = text[max(0, error.pos - 10) : error.pos + 20].decode("utf-8", "replace")
        malformed(f"{error.msg}, near {near!r}")


def _loads_with_infinity(text: bytes) -> Any:
    try:
        value = json.loads(
            text,
            parse_constant=lambda name: None if name == "NaN" else float(name),
            parse_int=lambda digits: int(digits) if len(digits) < 19 else float(digits),
        )
        orjson.dumps(value)  # refuses lone surrogates
    except (ValueError, TypeError, RecursionError):
        malformed("a syntax error")
    return value


def _check_encoding(text: bytes) -> None:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise bad_encoding(f"byte 0x{text[error.start]:02x}") from None
    if b"\0" in text:
        raise bad_encoding("a NUL byte")


def malformed(reason: str) -> NoReturn:
    raise InvalidRequest("malformed-json", f"the body is not valid JSON: {reason}")
