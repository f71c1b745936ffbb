"""The fast way to read rows: JSON lists of numbers straight into an array, or not at all.

It gives up at anything unusual, such as a name, a null or a short row; the careful readers then
read the body again. Where both read it, they give the same bits.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np
import orjson
from numpy.typing import NDArray

from service.predictions.schemas import DEFAULT_OUTPUTS, OUTPUTS

_HEAD = re.compile(
    rb'[ \t\r\n]*\{[ \t\r\n]*(?:"outputs"[ \t\r\n]*:[ \t\r\n]*(\[[^\[\]]*\])[ \t\r\n]*,[ \t\r\n]*)?'
    rb'"instances"[ \t\r\n]*:[ \t\r\n]*\[[ \t\r\n]*(?=\[)'
)
_TAIL = re.compile(
    rb"[ \t\r\n]*\][ \t\r\n]*"
    rb'(?:,[ \t\r\n]*"outputs"[ \t\r\n]*:[ \t\r\n]*(\[[^\[\]]*\])[ \t\r\n]*)?\}'
)
_DATA = re.compile(rb'"data"[ \t\r\n]*:[ \t\r\n]*(\[)[ \t\r\n]*(\[?)')
_END = re.compile(rb"[ \t\r\n]*\]")
MARK = secrets.token_hex(16)
"""Stands where a list was cut out of a document; no document is known to hold it."""

LONG_BYTES = 8192

ListReader: TypeAlias = Callable[[bytes, int, NDArray[np.float64]], tuple[int, int]]


@cache
def compiled() -> ListReader:
    """What reads lists; the first call imports Numba, and may take seconds to compile it."""
    from service.rows.formats.number_lists import read_lists, warm_up

    warm_up()
    return read_lists


def read_document(
    body: bytes, n_features: int
) -> tuple[NDArray[np.float64], tuple[str, ...]] | None:
    """Rows and outputs of `{"instances": [[…], …], "outputs": […]}`."""
    if body[-1:].isspace():
        body = body.rstrip()  # of a buffer this is a copy
    head = _HEAD.match(body)
    if head is None:
        return None
    read = _read(body, head.end(), n_features)
    if read is None:
        return None
    X, end = read
    given = head[1]
    if body[end:] != b"]}":
        tail = _TAIL.fullmatch(body, end)
        if tail is None or (given and tail[1]):
            return None
        given = given or tail[1]
    outputs: tuple[str, ...] = DEFAULT_OUTPUTS
    if given is not None:
        try:
            outputs = tuple(dict.fromkeys(orjson.loads(given)))
        except (ValueError, TypeError):
            return None
        if not all(output in OUTPUTS for output in outputs):
            return None
    return X, outputs


def read_rows(text: bytes, n_features: int) -> NDArray[np.float64] | None:
    """`[…],[…],…`: (n_samples, n_features); None also where no row is."""
    read = _read(text, 0, n_features)
    return None if read is None or read[1] != len(text) else read[0]


def cut_data(text: bytes) -> tuple[bytes, NDArray[np.float64]] | None:
    """A document with its first member `data` replaced by MARK, and that member's numbers: (1, n)
    of a list of numbers, (n_samples, n_features) of a list of lists."""
    found = _DATA.search(text)
    if found is None:
        return None
    start, nested = found.start(1), bool(found[2])
    first = found.start(2) if nested else start
    n_features = text.count(b",", first, text.find(b"]", first)) + 1
    read = _read(text, first, n_features)
    if read is None:
        return None
    X, end = read
    if nested:
        closed = _END.match(text, end)
        if closed is None:
            return None
        end = closed.end()
    elif len(X) != 1:
        return None
    return b'%b"%b"%b' % (text[:start], MARK.encode(), text[end:]), X


def _read(text: bytes, start: int, n_features: int) -> tuple[NDArray[np.float64], int] | None:
    """The lists from text[start] on, and where they end."""
    most_rows = _brackets(text, start)
    if most_rows * (2 * n_features + 1) > len(text) or not text.endswith((b"]", b"}")):
        return None
    X = np.empty((most_rows, n_features))
    rows, end = compiled()(text, start, X)
    return None if rows == 0 else (X[:rows], end)


def _brackets(text: bytes, start: int) -> int:
    """How many lists begin in text[start:]."""
    if len(text) < LONG_BYTES:
        return text.count(b"[", start)
    # `count` looks for one after the other: five times slower where there are many.
    return int(np.count_nonzero(np.frombuffer(text, np.uint8, offset=start) == ord("[")))
