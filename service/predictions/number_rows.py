"""The fast way to read rows: JSON lists of numbers straight into an array, or not at all.

It gives up at anything unusual, such as a name, a null or a short row; the careful readers then
read the body again. Where both read it, they give the same bits.
"""

from __future__ import annotations

import re
import threading
from typing import Any

import numpy as np
import orjson
import simdjson
from numpy.typing import NDArray

from service.predictions.schemas import DEFAULT_OUTPUTS, OUTPUTS

PIECE_BYTES = 384 * 1024
"""Parsed at once: the parser's memory stays near the processor, and other threads get their turn
between two pieces."""

_HEAD = re.compile(
    rb'[ \t\r\n]*\{[ \t\r\n]*(?:"outputs"[ \t\r\n]*:[ \t\r\n]*(\[[^\[\]]*\])[ \t\r\n]*,[ \t\r\n]*)?'
    rb'"instances"[ \t\r\n]*:[ \t\r\n]*\['
)
_TAIL = re.compile(
    rb'\][ \t\r\n]*(?:,[ \t\r\n]*"outputs"[ \t\r\n]*:[ \t\r\n]*(\[[^\[\]]*\])[ \t\r\n]*)?\}'
    rb"[ \t\r\n]*\Z"
)
_TAIL_BYTES = 200
_BETWEEN = re.compile(rb"[ \t\r\n]*(,?)")
_UNUSUAL = (ValueError, TypeError, KeyError, RuntimeError, AttributeError)
_BRACKET = ord("[")


class _Parsers(threading.local):
    """One parser a thread: its memory is used again."""

    def __init__(self) -> None:
        self.parser = simdjson.Parser()


_parsers = _Parsers()


def read_document(
    body: bytes, n_features: int
) -> tuple[NDArray[np.float64], tuple[str, ...]] | None:
    """Rows and outputs of `{"instances": [[…], …], "outputs": […]}`."""
    head = _HEAD.match(body)
    if head is None:
        return None
    given = head[1]
    end = len(body) - 1
    if not body.endswith(b"]]}"):
        tail = _TAIL.search(body, max(head.end(), len(body) - _TAIL_BYTES))
        if tail is None or (given and tail[1]):
            return None
        given = given or tail[1]
        end = tail.start() + 1
    outputs: tuple[str, ...] = DEFAULT_OUTPUTS
    if given is not None:
        try:
            outputs = tuple(dict.fromkeys(orjson.loads(given)))
        except (ValueError, TypeError):
            return None
        if not all(output in OUTPUTS for output in outputs):
            return None
    X = read_rows(body, head.end() - 1, end, n_features)
    return None if X is None else (X, outputs)


def read_rows(text: bytes, start: int, end: int, n_features: int) -> NDArray[np.float64] | None:
    """`[[…], […], …]` in text[start:end], (n_samples, n_features); None also where no row is."""
    try:
        if end - start <= PIECE_BYTES:
            return _read_piece(text[start:end], n_features)
        start, end = start + 1, end - 1  # without the outer brackets
        parts = []
        while True:
            cut = text.find(b"]", start + PIECE_BYTES, end) + 1 or end
            part = _read_piece(b"[%b]" % text[start:cut], n_features)
            if part is None:
                return None
            parts.append(part)
            between = _BETWEEN.match(text, cut, end)
            assert between is not None
            start = between.end()
            if not between[1]:
                break
    except _UNUSUAL:
        return None
    return np.concatenate(parts) if start == end else None


def _read_piece(text: bytes, n_features: int) -> NDArray[np.float64] | None:
    rows: Any = _parsers.parser.parse(text)
    n_rows = len(rows)
    if (
        n_rows == 0
        # `as_buffer` flattens lists inside rows: there must be none, and no short row.
        or _has_more_brackets(text, n_rows + 1)
        or not all([len(row) == n_features for row in rows])  # noqa: C419  (twice as fast)
    ):
        return None
    return np.frombuffer(rows.as_buffer(of_type="d")).reshape(n_rows, n_features)


def _has_more_brackets(text: bytes, count: int) -> bool:
    if count > 4:
        return int(np.count_nonzero(np.frombuffer(text, np.uint8) == _BRACKET)) > count
    at = -1
    for _ in range(count):
        at = text.find(b"[", at + 1)
    return text.find(b"[", at + 1) >= 0
