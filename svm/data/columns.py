"""Columns of a table that are not all plain numbers.

Such a table is one float64 matrix of raw values, (n_samples, n_columns): a number is itself, a
boolean 1 or 0, a date its days since 1970-01-01 (with a fraction for the time of day), a category
the position of its level among the column's levels. NaN is a missing cell. In rows to predict,
`UNKNOWN` is a level that the column does not have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["number", "boolean", "date", "category"]

UNKNOWN = -1.0
"""The raw value of a cell whose text is none of the column's levels."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    kind: Kind = "number"
    levels: tuple[str, ...] = ()
    """Of a category: the different texts, sorted; numbers among them numerically."""


Columns: TypeAlias = tuple[Column, ...]
"""The columns of a matrix of raw values, in order."""
