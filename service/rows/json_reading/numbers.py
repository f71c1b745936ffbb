"""Numbers in JSON to an array: simdjson reads lists of numbers, orjson whatever else is right.

Both give up at anything unusual. The readers that look for faults then read the text again. All of
them give a number the bits that Python's `float` gives it.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any, TypeAlias, TypeVar

import numpy as np
import orjson
import simdjson
from numpy.typing import NDArray

from service.errors import TooLarge
from service.rows.columns import Columns
from service.rows.faults import too_many

PIECE_BYTES = 256 * 1024
"""Longer texts are parsed in pieces: parsers hold the GIL meanwhile."""
LINES_AT_ONCE = 256
ROW_BYTES = 1024 * 1024
"""A row may have this many, and CELL_BYTES for each feature."""
CELL_BYTES = 32
ROWS = "instances"
"""The member of a document that holds the rows."""

_BETWEEN_ROWS = re.compile(rb"(?<=[\]}])[ \t\r\n]*,[ \t\r\n]*(?=[\[{])")
_OPENING, _CLOSING = b'{"%b":[' % ROWS.encode(), b"]}"
_BETWEEN_NUMBERS = re.compile(rb",")
_GIVEN_UP = (ValueError, TypeError, KeyError, RuntimeError, AttributeError, OverflowError)

T = TypeVar("T")

Array: TypeAlias = NDArray[np.float64]
Part: TypeAlias = tuple[Array, tuple[str, ...]]
"""Some rows, and the names that are not of features."""


class _Local(threading.local):
    """One parser for each thread: its memory is used again."""

    def __init__(self) -> None:
        self.parser = simdjson.Parser()


_local = _Local()


def read_document(
    body: bytes, n_features: int, most_rows: int = sys.maxsize
) -> tuple[Array, dict[str, Any]] | None:
    """`{"instances": [[…], …], …}`: (n_samples, n_features), and the other members.

    Raises TooLarge for more than `most_rows`, without reading them.
    """
    others: dict[str, Any] = {}
    X = _read(body, n_features, most_rows, _OPENING, _CLOSING, others)
    return None if X is None else (X, others)


def read_lists(
    text: bytes | memoryview, n_features: int, most_rows: int = sys.maxsize
) -> Array | None:
    """`[[…], …]`: (n_samples, n_features). Raises as `read_document`."""
    return _read(text, n_features, most_rows, b"[", b"]")


def read_lines(
    text: bytes, n_features: int, most_rows: int, as_lists: Callable[[bytes], bytes | None]
) -> Array | None:
    """A row on each line: (n_samples, n_features). `as_lists` makes some lines the text of a list
    of lists, or gives up. Raises as `read_document`."""
    parts: list[Array] = []
    start = n_rows = 0
    while start < len(text):
        end = text.find(b"\n", start + PIECE_BYTES)
        lines = text[start : len(text) if end < 0 else end]
        lists = as_lists(lines)
        X = None if lists is None else read_lists(lists, n_features, most_rows)
        if X is None or len(X) != lines.count(b"\n") + 1:
            return None
        n_rows += len(X)
        _check_count(n_rows, most_rows)
        parts.append(X)
        start += len(lines) + 1
    return parts[0] if len(parts) == 1 else np.concatenate(parts) if parts else None


def read_list(text: bytes | memoryview, most_numbers: int = sys.maxsize) -> Array | None:
    """`[…]`: (n,); None for more than `most_numbers`."""
    try:
        return _read(text, None, most_numbers, b"[", b"]")
    except TooLarge:
        return None


def _read(
    text: bytes | memoryview,
    n_features: int | None,
    most: int,
    opening: bytes,
    closing: bytes,
    others: dict[str, Any] | None = None,
) -> Array | None:
    try:
        if len(text) <= PIECE_BYTES:
            X = _numbers(bytes(text), n_features, others)
            _check_count(len(X), most)
            return X
        width = 2 * n_features + 1 if n_features else 2  # bytes of a row, at the least
        room = min(len(text) // width + 1, most)
        X = np.empty((room, *([n_features] if n_features else [])))
        done = 0
        for piece in _pieces(text, opening, closing, n_features):
            part = _numbers(piece, n_features, others)
            _check_count(done + len(part), most)
            X[done : done + len(part)] = part
            done += len(part)
        return X[:done]
    except _GIVEN_UP:
        return None


def _check_count(count: int, most: int) -> None:
    if count > most:
        raise too_many("rows to predict", most)


def _pieces(
    text: bytes | memoryview, opening: bytes, closing: bytes, n_features: int | None
) -> Iterator[bytes]:
    """Texts that are complete documents, and hold the rows of `text` one after the other; of
    numbers without rows, if `n_features` is None. Raises ValueError for a very long row."""
    between = _BETWEEN_NUMBERS if n_features is None else _BETWEEN_ROWS
    longest = ROW_BYTES + CELL_BYTES * (n_features or 0)
    view = memoryview(text)
    start, head = 0, b""
    while len(text) - start > PIECE_BYTES:
        least = start + PIECE_BYTES
        cut = between.search(text, least, least + longest)
        if cut is None:
            break
        yield b"".join((head, view[start : cut.start()], closing))
        start, head = cut.end(), opening
    if len(text) - start > PIECE_BYTES + longest:
        raise ValueError("a row is very long")
    yield b"".join((head, view[start:]))


def _numbers(text: bytes, n_features: int | None, others: dict[str, Any] | None) -> Array:
    """Raises one of `_GIVEN_UP`. No reference to the document may outlive this call: the parser
    refuses the next one until then."""
    rows: Any = _local.parser.parse(text)
    n_lists = 1
    if others is not None:
        document: Any = rows
        rows = document[ROWS]
        if len(document) > 1:
            names = list(document)
            names.remove(ROWS)
            for name in names:  # one that comes twice is there twice
                if name in others or name == ROWS:
                    raise ValueError(name)
                others[name] = document[name].as_list()
            n_lists += len(names)
    shape: tuple[int, ...] = (len(rows),)
    if n_features is not None:
        n_lists += len(rows)
        shape = (len(rows), n_features)
        if len(rows) != 1 and set(map(len, rows)) != {n_features}:  # of one, `reshape` tells
            raise ValueError("not all rows have the width")
    n_brackets = len(text) - len(text.replace(b"[", b""))  # sooner than `count`
    if n_brackets != n_lists:  # `as_buffer` would flatten lists inside of rows
        raise ValueError("there are other lists")
    return np.frombuffer(rows.as_buffer(of_type="d")).reshape(shape)


def read_any_document(
    body: bytes, columns: Columns, most_rows: int = sys.maxsize
) -> tuple[Array, dict[str, Any], tuple[str, ...]] | None:
    """As `read_document`, of rows that may also be objects with names, and of the raw values of a
    table; and the names that are not of features."""
    others: dict[str, Any] = {}

    def part(piece: bytes) -> Part:
        X, own, ignored = _of_document(piece, columns)
        if not others.keys().isdisjoint(own):
            raise ValueError("a name comes twice")
        others.update(own)
        return X, ignored

    pieces: Iterable[bytes] = [body]
    if len(body) > PIECE_BYTES:
        pieces = _pieces(body, _OPENING, _CLOSING, columns.n_features)
    read = _joined(part, pieces, columns, most_rows)
    return None if read is None else (read[0], others, read[1])


def read_any_lines(
    lines: Iterable[bytes], columns: Columns, most_rows: int = sys.maxsize
) -> tuple[Array, tuple[str, ...]] | None:
    """As `read_any_document`, of a list or an object on each line."""

    def part(some: list[bytes]) -> Part:
        return _of_values(list(map(orjson.loads, some)), columns, b"\n".join(some), 0)

    rest = iter(lines)
    some_lines = iter(lambda: list(islice(rest, LINES_AT_ONCE)), [])
    return _joined(part, some_lines, columns, most_rows)


def _joined(
    read: Callable[[T], Part], pieces: Iterable[T], columns: Columns, most_rows: int
) -> Part | None:
    """All pieces as one part; None if there is none or one was given up."""
    parts: list[Part] = []
    n_rows = 0
    try:
        for part in map(read, pieces):
            n_rows += len(part[0])
            _check_count(n_rows, most_rows)
            parts.append(part)
    except _GIVEN_UP:
        return None
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return None
    arrays, names = zip(*parts, strict=True)
    return columns.joined(arrays), tuple(dict.fromkeys(chain.from_iterable(names)))


def _of_document(text: bytes, columns: Columns) -> tuple[Array, dict[str, Any], tuple[str, ...]]:
    """Raises one of `_GIVEN_UP`."""
    document = orjson.loads(text)
    rows = document.pop(ROWS)
    if type(rows) is not list:
        raise ValueError("not a list of rows")
    X, ignored = _of_values(rows, columns, text, len(document) + 1)
    return X, document, ignored


def _of_values(rows: list[Any], columns: Columns, text: bytes, n_members: int) -> Part:
    """Raises one of `_GIVEN_UP`."""
    cells, ignored = cells_in_order(columns.as_rows(rows), columns, text, n_members)
    if not columns.is_plain:
        return columns.matrix(list(map(columns.raw_values, cells))), ignored
    X = np.array(cells)
    if X.shape != (len(rows), columns.n_features) or X.dtype.kind not in "biuf":
        raise ValueError("not all rows are numbers")
    return X.astype(np.float64, copy=False), ignored


LONG_BYTES = 8192
MOST_NAMES = 1000
"""That are not of features, of some rows read at once."""


def cells_in_order(
    rows: list[Any], columns: Columns, text: bytes, n_members: int
) -> tuple[list[Any], tuple[str, ...]]:
    """The cells of each row, and the names in objects that are not of features.

    `n_members`: how many members `text` has besides those of the rows.
    Raises one of ValueError, TypeError, KeyError if the rows must be looked at one by one.
    """
    ignored: tuple[str, ...] = ()
    names, exact = columns.names, set(map(len, rows)) == {columns.n_features}
    if dict not in set(map(type, rows)):
        if not exact:
            raise ValueError("not all rows have the width")
        cells = rows
    else:
        if names is None:
            raise ValueError("the rows need no names")
        objects = [row for row in rows if type(row) is dict]
        take = columns.take
        cells = [list(take(row)) if type(row) is dict else row for row in rows]
        if exact:
            n_members += len(objects) * (len(names) + columns.n_colons)
        else:
            ignored = _ignored(objects, names)
            n_members += sum(map(len, objects))
            if any(":" in name for name in chain(names, ignored)):
                n_members += sum(name.count(":") for row in objects for name in row)
    if _may_repeat(text, n_members, rows):
        raise ValueError("a name may come twice")
    return cells, ignored[:MOST_NAMES]


def _ignored(objects: list[dict[str, Any]], names: list[str]) -> tuple[str, ...]:
    """In the order in which they come. Raises ValueError if such a cell holds others."""
    known = frozenset(names)
    others = [(name, cell) for row in objects for name, cell in row.items() if name not in known]
    if not {list, dict}.isdisjoint(type(cell) for _, cell in others):
        raise ValueError("a cell has an unknown depth")
    return tuple(dict(others))


def _may_repeat(text: bytes, n_members: int, rows: list[Any]) -> bool:
    """Whether some object may have a name twice, of which the parser keeps one.

    Each member has its colon, and so has one that was lost. Other colons are in texts.
    """
    n_colons = _count_colons(text)
    if n_colons != n_members:
        values = chain.from_iterable(row.values() if type(row) is dict else row for row in rows)
        n_members += "".join([value for value in values if type(value) is str]).count(":")
    escaped = b"\\" in text and (b"u003a" in text or b"u003A" in text)
    return n_colons != n_members or escaped


def _count_colons(text: bytes) -> int:
    if len(text) < LONG_BYTES:
        return text.count(b":")
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord(":")))  # a quarter of the time
