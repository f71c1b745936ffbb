"""What a model does not know of rows to predict: levels that no training row had, missing cells,
and words that no training text had."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.errors import MAX_VALUE_CHARACTERS
from service.rows.columns import Columns
from service.rows.faults import shown
from service.rows.spec import CellsAgain
from svm.data.matrices import Matrix, Vector, is_sparse
from svm.encoding.encoder import Encoder

MOST_SHOWN = 20


@dataclass(frozen=True, slots=True)
class UnknownCells:
    """What a reply says of them, and what is counted."""

    count: int
    """How many are unseen or missing."""
    cells: list[dict[str, Any]]
    """The first ones: `row`, from 1, `column` and `value`, a text, or None for null."""
    counts: dict[str, int]
    """For metrics: of those that are `unseen`, and `missing` in columns that had none in training.
    """

    @property
    def document(self) -> dict[str, Any]:
        """A `schemas.UnknownRead`."""
        return {"count": self.count, "cells": self.cells}


@dataclass(frozen=True, slots=True)
class UnknownWords:
    """What a reply says of words that no training text had."""

    count: int
    rows: list[tuple[int, int]]
    """The first rows with such words, from 1, each with their number."""

    @classmethod
    def of(cls, counts: NDArray[np.int64]) -> UnknownWords | None:
        """From the number in each row; None if there are none."""
        if not (count := int(counts.sum())):
            return None
        rows = np.flatnonzero(counts)[:MOST_SHOWN].tolist()
        return cls(count, [(row + 1, int(counts[row])) for row in rows])

    @property
    def document(self) -> dict[str, Any]:
        """A `schemas.UnknownWordsRead`."""
        return {"count": self.count, "rows": self.rows}


class Unknown:
    """Finds the unknown cells of one model of a table."""

    def __init__(self, encoder: Encoder, columns: Columns) -> None:
        kinds = np.array([column.kind == "category" for column in encoder.columns], dtype=bool)
        self._encoder = encoder
        self._columns = columns
        self._lowest: Vector = np.where(kinds, 0.0, -np.inf)[None]  # sooner compared with a row
        self._only_texts = len(columns.text_columns) == columns.n_features
        self._all_trained = bool((encoder.counts > 0).all())

    def find(self, X: Matrix, again: CellsAgain) -> UnknownCells | None:
        """Those of X, which has raw values; None if there is none. `again`: see `Rows`.

        A text is never unknown.
        """
        if is_sparse(X) or self._only_texts:
            return None
        X, texts = np.asarray(X), self._columns.text_columns
        known = self._lowest <= X  # NaN is not larger than anything
        if texts:
            known[:, texts] = True
        if self._all_trained and 0 not in known.tobytes():
            return None  # most rows
        unseen = self._lowest > X if self._all_trained else self._encoder.unseen(X)
        unknown = unseen | ~known
        if not (count := int(np.count_nonzero(unknown))):
            return None
        missing = self._encoder.newly_missing(X)
        counts = {"unseen": np.count_nonzero(unseen), "missing": np.count_nonzero(missing)}
        rows = np.flatnonzero(unknown.any(axis=1))[:MOST_SHOWN]
        places = [(int(rows[i]), int(j)) for i, j in np.argwhere(unknown[rows])[:MOST_SHOWN]]
        cells = list(self._cells(places, again))
        return UnknownCells(count, cells, {why: int(n) for why, n in counts.items() if n})

    def _cells(self, places: list[tuple[int, int]], again: CellsAgain) -> Iterator[dict[str, Any]]:
        """`places` are in the order of the rows."""
        wanted = {i for i, _ in places}
        read = enumerate(islice(again(), places[-1][0] + 1))
        rows = {i: cells for i, cells in read if i in wanted}
        for i, j in places:
            yield {"row": i + 1, "column": self._columns.column(j), "value": _text(rows[i][j])}


def _text(cell: Any) -> str | None:
    """As the body has it."""
    if isinstance(cell, float) and np.isnan(cell):
        return None
    text = cell if cell is None or isinstance(cell, str) else shown(cell)
    return text and text[:MAX_VALUE_CHARACTERS]
