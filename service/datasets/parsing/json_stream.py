"""A JSON object with long arrays, read element by element: it is never whole in memory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import orjson

from service.datasets.parsing.text import bad_encoding
from service.errors import InvalidContent, InvalidRequest

BLOCK_BYTES = 1024 * 1024
BLANKS = b" \t\r\n"
MAX_DEPTH = 16
MAX_MEMBERS = 100

_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_QUOTE, _COMMA, _COLON = b'",:'
_DEEPER = np.zeros(256, dtype=np.int8)
_DEEPER[[*b"[{"]] = 1
_DEEPER[[*b"]}"]] = -1


@dataclass(frozen=True, slots=True)
class Span:
    """Where a value stands in the file, in bytes."""

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


def members(path: Path, block_bytes: int = BLOCK_BYTES) -> dict[str, Span]:
    """The names of the file's object and where their values stand.

    Raises InvalidRequest `malformed-json`, also where a name stands twice. What is inside of the
    values is looked at when they are read.
    """
    start = _start_of_object(path)
    marks = _marks(path, start, block_bytes)
    if marks.end is None:
        malformed("it ends too early")
    found: dict[str, Span] = {}
    begin = start + 1
    if not marks.colons and not _read(path, begin, marks.end).strip(BLANKS):
        return found
    ends = [*marks.commas, marks.end]
    if len(marks.colons) != len(ends):
        malformed("an object is made of names and values")
    for colon, end in zip(marks.colons, ends, strict=True):
        if not begin <= colon < end:
            malformed("an object is made of names and values")
        name = loads(_read(path, begin, colon))
        if not isinstance(name, str):
            malformed("a name stands in quotes")
        if name in found:
            malformed(f"{name[:64]!r} stands twice in one object")
        found[name] = Span(colon + 1, end)
        begin = end + 1
    return found


def _start_of_object(path: Path) -> int:
    with path.open("rb") as file:
        head = file.read(1024)
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip(BLANKS)
    if text.startswith(b"["):
        raise InvalidContent("invalid-field", 'the body is an object, such as {"rows": [[1, 2]]}')
    if not text.startswith(b"{"):
        malformed("it does not begin with {")
    return len(head) - len(text)


def _marks(path: Path, start: int, block_bytes: int) -> _Marks:
    marks = _Marks()
    scanner = _Scanner()
    with path.open("rb") as file:
        file.seek(start)
        while block := file.read(block_bytes):
            if marks.end is not None:
                if block.strip(BLANKS):
                    malformed("something follows its end")
                continue
            characters, depth = scanner.scan(block)
            marks.colons += _positions(start, (characters == _COLON) & (depth == 1))
            marks.commas += _positions(start, (characters == _COMMA) & (depth == 1))
            if len(marks.commas) > MAX_MEMBERS:
                malformed(f"more than {MAX_MEMBERS} names in one object")
            if (closing := np.flatnonzero(depth == 0)).size:
                end = int(closing[0])
                if characters[end] != ord("}") or block[end + 1 :].strip(BLANKS):
                    malformed("something follows its end")
                marks.end = start + end
            start += len(block)
    return marks


def _positions(start: int, mask: npt.NDArray[np.bool_]) -> list[int]:
    return [start + int(position) for position in np.flatnonzero(mask)]


def _read(path: Path, start: int, end: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(end - start)


def value(path: Path, span: Span) -> Any:
    """A whole value; one of many megabytes is refused."""
    if span.end - span.start > BLOCK_BYTES:
        raise InvalidContent("invalid-field", f"a value has more than {BLOCK_BYTES:,} bytes")
    return loads(_read(path, span.start, span.end))


def elements(path: Path, span: Span, block_bytes: int = BLOCK_BYTES) -> Iterator[list[Any]] | None:
    """The elements of an array, some at a time; None where the value is no array.

    Raises InvalidRequest `malformed-json`, on the way.
    """
    start = span.start
    with path.open("rb") as file:
        file.seek(start)
        head = file.read(min(1024, span.end - start))
    stripped = head.lstrip(BLANKS)
    if not stripped.startswith(b"["):
        value(path, span)
        return None
    return _elements(path, start + len(head) - len(stripped) + 1, span.end, block_bytes)


def _elements(path: Path, start: int, end: int, block_bytes: int) -> Iterator[list[Any]]:
    scanner = _Scanner(depth=1)
    rest = b""
    first = True
    with path.open("rb") as file:
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
                last = rest + block[:cut]
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
                if len(rest) > 2 * BLOCK_BYTES:
                    malformed(f"an element of an array has more than {BLOCK_BYTES:,} bytes")
                continue
            cut = int(commas[-1])
            yield _batch(rest + block[:cut])
            first = False
            rest = block[cut + 1 :]
    malformed("an array does not end")


def _batch(text: bytes) -> list[Any]:
    if not text.strip(BLANKS):
        malformed("a comma without a value")
    batch: list[Any] = loads(b"[" + text + b"]")
    return batch


def loads(text: bytes) -> Any:
    """Raises InvalidRequest `malformed-json`. A number beyond 1.8e308 is given as infinity."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        _check_encoding(text)
        if "infinity" in error.msg:
            return _loads_with_infinity(text)
        near = text[max(0, error.pos - 10) : error.pos + 20].decode("utf-8", "replace")
        malformed(f"{error.msg}, near {near!r}")


def _loads_with_infinity(text: bytes) -> Any:
    try:
        found = json.loads(
            text,
            parse_constant=lambda name: malformed(f"{name} is not JSON"),
            parse_int=lambda digits: int(digits) if len(digits) < 19 else float(digits),
        )
        orjson.dumps(found)  # refuses lone surrogates
    except (ValueError, TypeError, RecursionError):
        malformed("a syntax error")
    return found


def _check_encoding(text: bytes) -> None:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise bad_encoding(f"byte 0x{text[error.start]:02x}") from None
    if b"\0" in text:
        raise bad_encoding("a NUL byte")


def malformed(reason: str) -> NoReturn:
    raise InvalidRequest("malformed-json", f"the body is not valid JSON: {reason}")
