"""The cells of all columns of some rows, to what gathers them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from service.rows.kinds.blocks.cells import Cells
from service.rows.kinds.blocks.coding import Coder
from service.rows.kinds.feature import Batch, Feature
from service.rows.kinds.gathering import FormColumn, TextColumn, ValueColumn, Values


class AllColumns:
    """The gatherers of one pass."""

    def __init__(self, features: Sequence[Feature]) -> None:
        self._positions = [one.position for one in features]
        self._gatherers = [one.gatherer for one in features]
        self._in_order = sorted(range(len(features)), key=self._positions.__getitem__)
        self._coder = Coder(
            [one.lookup if isinstance(one, TextColumn) else {} for one in self._gatherers]
        )
        self._shape_coder = Coder(
            [one.shapes if isinstance(one, FormColumn) else {} for one in self._gatherers]
        )

    def add(self, batch: Batch) -> Values:
        """(rows, features): values, or codes of texts."""
        n_rows = batch.n_rows if isinstance(batch, Cells) else len(batch[0])
        values = np.zeros((n_rows, len(self._gatherers)))
        numbers = self._in_order
        if isinstance(batch, Cells):
            numbers = self._add_at_once(batch, values)
            batch = batch.texts(self._at(numbers))
        for i in numbers:
            values[:, i] = self._gatherers[i].add(batch[self._positions[i]])
        return values

    def _add_at_once(self, cells: Cells, values: Values) -> list[int]:
        """Which gatherers have to get each cell as a text."""
        texts: dict[int, TextColumn] = {}
        forms: dict[int, FormColumn] = {}
        plain: dict[int, ValueColumn] = {}
        others = set()
        for i in self._in_order:
            gatherer = self._gatherers[i]
            if isinstance(gatherer, ValueColumn) and gatherer.plain:
                plain[i] = gatherer
            elif isinstance(gatherer, FormColumn) and gatherer.readable:
                forms[i] = gatherer
            elif not isinstance(gatherer, TextColumn):
                others.add(i)
            elif not gatherer.overflowed:
                texts[i] = gatherer
        codes = self._coder.codes(cells, self._at(texts), list(texts))
        values[:, list(texts)] = codes
        for text_column, column in zip(texts.values(), codes.T, strict=True):
            text_column.take(column)
        codes = self._shape_coder.codes(
            cells.shapes if forms else cells, self._at(forms), list(forms)
        )
        for (i, form_column), column in zip(forms.items(), codes.T, strict=True):
            at = self._positions[i]
            starts, lengths = cells.starts[:, at], cells.lengths[:, at]
            values[:, i] = form_column.take_shapes(cells.data, starts, lengths, column)
        for points in (True, False):
            some = {i: one for i, one in plain.items() if one.pointed == points}
            read = cells.numbers(self._at(some), points=points)
            if read is None:
                others |= some.keys()
                continue
            values[:, list(some)] = read
            n_missing = np.isnan(read).sum(axis=0).tolist()
            for value_column, column, n in zip(some.values(), read.T, n_missing, strict=True):
                value_column.take(column, n)
        return [i for i in self._in_order if i in others]

    def _at(self, numbers: Iterable[int]) -> list[int]:
        return [self._positions[i] for i in numbers]
