"""Columns of a table that are not all plain numbers.

Such a table is one float64 matrix of raw values, (n_samples, n_columns): a number is itself, a
boolean 1 or 0, a date its days since 1970-01-01 (with a fraction for the time of day), a category
the position of its level among the column's levels, a text its position among the texts of the rows
(`svm.data.texts`). NaN is a missing cell. In rows to predict, `UNKNOWN` is a level that the column
does not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from svm.data.matrices import Mask, Vector, in_layout, is_sparse
from svm.errors import InvalidData

Kind: TypeAlias = Literal["number", "boolean", "date", "category", "text"]

UNKNOWN = -1.0
"""The raw value of a cell whose text is none of the column's levels."""
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
"""A text that is a finite number, or one beyond the range of float64."""


def in_order(texts: Iterable[str]) -> list[str]:
    """Sorted: numerically if all of them are numbers, else by code point."""
    levels = sorted(texts)
    if all(map(NUMBER.fullmatch, levels)):
        levels.sort(key=float)
    return levels


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    kind: Kind = "number"
    levels: tuple[str, ...] = ()
    """Of a category: the different texts, `in_order`."""
    missing: int = field(default=0, compare=False, repr=False)
    """How many cells are missing, as far as it is known."""
    characters: int = field(default=0, compare=False, repr=False)
    """Of all texts, as far as it is known."""


class PlainColumns(Sequence[Column]):
    """Columns of finite numbers, each made when it is asked for: there may be many.

    Without names they are called by their position.
    """

    def __init__(self, names: Sequence[str] | None, count: int) -> None:
        self._names = names
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Column]:
        return map(Column, self._names or map(str, range(self._count)))

    @overload
    def __getitem__(self, index: int) -> Column: ...
    @overload
    def __getitem__(self, index: slice) -> Columns: ...
    def __getitem__(self, index: int | slice) -> Column | Columns:
        if isinstance(index, slice):
            names = [column.name for column in self][index]
            return PlainColumns(names, len(names))
        return Column(str(range(self._count)[index]) if self._names is None else self._names[index])

    def __eq__(self, other: object) -> bool:
        """By their number: names are those that the caller gives."""
        return isinstance(other, PlainColumns) and len(self) == len(other)

    __hash__ = None  # type: ignore[assignment]


Columns: TypeAlias = Sequence[Column]
"""The columns of a matrix of raw values, in order."""


def text_columns(columns: Columns) -> list[int]:
    """The places of the columns of texts."""
    if isinstance(columns, PlainColumns):
        return []
    return [j for j, column in enumerate(columns) if column.kind == "text"]


FIRST_DAY, LAST_DAY = -719_162.0, 2_932_897.0
"""Dates are those of the years 1 … 9999: the first day, and the day after the last one."""


def raw_matrix(X: Any) -> Vector:
    """X as a C-contiguous float64 array; NaN is allowed. Raises InvalidData (`bad-shape`, …)."""
    raw = in_layout(X, np.float64)
    if is_sparse(raw):
        raise InvalidData("bad-shape", "the raw values of a table are a dense matrix, not a sparse")
    return raw


MOST_TEXTS = 2.0**31 - 1.0
"""Positions are stored in 32 bits."""

BLOCK_ROWS = 1024
"""Rows checked at a time: they fit into the processor's cache."""


def require_raw(X: Vector, columns: Columns) -> None:
    """Raises InvalidData (`feature-mismatch`, `non-finite-value`, `not-a-number`) if X is not a
    matrix of raw values of these columns."""
    if X.shape[1] != len(columns):
        raise InvalidData(
            "feature-mismatch", f"expected rows with {len(columns)} columns, got {X.shape[1]}"
        )
    bounds = bounds_of(columns)
    if all(_are_raw(X[k : k + BLOCK_ROWS], *bounds).all() for k in range(0, len(X), BLOCK_ROWS)):
        return
    bad = ~_are_raw(X, *bounds)
    j = int(np.argmax(bad.any(axis=0)))
    i, column = int(np.argmax(bad[:, j])), columns[j]
    expected = {
        "number": "a finite number",
        "boolean": "0 or 1",
        "date": "the days of a date in the years 1 … 9999",
        "text": "the position of a text",
        "category": f"-1 … {len(column.levels) - 1}, the position of a level",
    }
    code = "not-a-number" if np.isfinite(X[i, j]) else "non-finite-value"
    where = f"row {i} (counted from 0), column {column.name!r}"
    raise InvalidData(code, f"{where}: {X[i, j]:g} is not {expected[column.kind]}")


def bounds_of(columns: Columns) -> tuple[Vector, Vector, Mask]:
    """The least and the largest value of each column, and whether its values are whole."""
    largest = np.finfo(np.float64).max
    bounds = {
        "number": (-largest, largest),
        "boolean": (0.0, 1.0),
        "date": (FIRST_DAY, np.nextafter(LAST_DAY, 0.0)),
        "text": (0.0, MOST_TEXTS),
    }
    both = [bounds.get(c.kind, (UNKNOWN, len(c.levels) - 1.0)) for c in columns]
    whole = np.array([column.kind in ("boolean", "category", "text") for column in columns])
    low, high = np.array(both, dtype=np.float64).reshape(-1, 2).T
    return low, high, whole


def _are_raw(X: Vector, low: Vector, high: Vector, whole: Mask) -> Mask:
    good: Mask = (low <= X) & (high >= X)
    good &= (np.floor(X) == X) | ~whole
    good |= np.isnan(X)
    return good
