"""Rows in JSON that may be objects: their cells in the order of the columns."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np

from service.rows.columns import Columns

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
    return n_colons != n_members or (b"\\" in text and b"u003" in text)  # a colon, escaped


def _count_colons(text: bytes) -> int:
    if len(text) < LONG_BYTES:
        return text.count(b":")
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord(":")))  # a quarter of the time
