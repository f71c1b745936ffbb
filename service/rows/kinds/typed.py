"""Columns whose cells have types already, as in JSON: numbers, booleans, texts and nulls."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, nan
from typing import Any

import numpy as np

from service.rows.cell_texts.levels import level_of
from service.rows.kinds.gathering import FewValues, TextColumn, Values

NO_WORDS = frozenset({""})
"""An empty text is a missing cell, like null."""


class TypedColumn:
    """Takes the cells of a column of one type; others are wrong."""

    def __init__(self, kind: str | None = None) -> None:
        """`kind`: that which the caller or the dataset demands."""
        self.kind = kind
        self.texts: TextColumn | None = None
        """The texts, of a column of texts or a category."""
        self.n_missing = 0
        self.n_wrong = 0
        self.n_booleans = 0
        self.n_numbers = 0
        self.few = FewValues()
        if kind in ("category", "date"):
            self.texts = TextColumn(NO_WORDS)

    @property
    def mostly_wrong(self) -> bool:
        """Of a column of texts: whether most cells are not."""
        texts = () if self.texts is None else zip(self.texts.texts, self.texts.counts, strict=True)
        there = sum(count for text, count in texts if text)
        return 2 * self.n_wrong > there

    @property
    def mark(self) -> str | None:
        """There is none: numbers are numbers."""
        return None

    @property
    def words(self) -> frozenset[str]:
        return NO_WORDS

    def fresh(self) -> TypedColumn:
        """The same before the first cell."""
        return TypedColumn(self.kind)

    def add(self, cells: Sequence[Any]) -> Values:
        """Raw values, or codes of texts."""
        if "" in cells:
            cells = [None if cell == "" else cell for cell in cells]
        if self.texts is None and self._is_undecided():
            first = next((cell for cell in cells if cell not in (None, "")), None)
            if isinstance(first, str) and self.kind is None:
                self.texts = TextColumn(NO_WORDS)
                if self.n_missing:  # they came before the first text
                    self.texts.add([""])
                    self.texts.add_missing(self.n_missing - 1)
        if self.texts is not None:
            self.n_wrong += sum(map(self.is_wrong, cells))
            return self.texts.add(["" if cell is None else level_of(cell) for cell in cells])
        values = self._values(cells)
        self.few.add(values)
        return values

    def is_wrong(self, cell: Any) -> bool:
        """Whether a cell is not of the column's type."""
        if cell is None or cell == "":
            return False
        if isinstance(cell, (list, dict)):
            return True
        if self.texts is not None:
            return self.kind != "category" and not isinstance(cell, str)
        if isinstance(cell, str) or (self.kind == "boolean" and cell not in (0, 1)):
            return True
        try:
            return not isfinite(cell)
        except OverflowError:
            return True

    def _is_undecided(self) -> bool:
        return not (self.n_numbers or self.n_booleans or self.n_wrong)

    def _values(self, cells: Sequence[Any]) -> Values:
        kinds = set(map(type, cells))
        if kinds <= {int, float} and self.kind != "boolean":
            try:
                values = np.array(cells, dtype=np.float64)
                if np.isfinite(values).all():
                    self.n_numbers += len(cells)
                    return values
            except OverflowError:
                pass
        values = np.full(len(cells), nan)
        for i, cell in enumerate(cells):
            if cell is None or cell == "":
                self.n_missing += 1
            elif self.is_wrong(cell):
                self.n_wrong += 1
            else:
                values[i] = cell
                self.n_booleans += isinstance(cell, bool)
                self.n_numbers += not isinstance(cell, bool)
        return values
