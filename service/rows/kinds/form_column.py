"""A column whose texts are written in one form: dates, prices, numbers with a decimal comma."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from service.rows.cell_texts.digits import NINES, Form, Plan
from service.rows.cell_texts.number_text import BLANKS, BOOLEANS
from service.rows.kinds.gathering import Lookup, ValueColumn, Values, Words

MOST_SHAPES = 1024
"""Of a column that is read shape by shape."""
MOST_KNOWN = 10_000
"""Texts whose values are remembered."""

DIGITS = frozenset("0123456789")

_Places = npt.NDArray[np.int64]


class FormColumn(ValueColumn):
    """Takes cells as what a form makes of their texts."""

    def __init__(
        self, words: Words, form: Form, kind: str, notes: dict[str, Any], *, tentative: bool = False
    ) -> None:
        self.form, self.kind, self.notes = form, kind, notes
        self.tentative = tentative
        """The form is that of the first rows: others may have another one."""
        self.shapes = Lookup()
        self.examples: list[str] = []
        """The first text of each shape."""
        self._plans: list[Plan | None] = []
        self._known: dict[str, float | None] = {}
        values = (word for word in words if self.value(word) is not None)
        self._shapes_of_words = {word.translate(NINES) for word in values}
        super().__init__(words)
        self.plain = False

    def value(self, text: str) -> float | None:
        if text not in self._known:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            boolean = BOOLEANS.get(text) if self.kind == "number" else None
            self._known[text] = self.form.value(text) if boolean is None else boolean
        return self._known[text]

    def _at_once(self, texts: Sequence[str]) -> Values | None:
        if self.tentative:
            for text in texts:
                shape = text.translate(NINES)
                if self.readable and shape not in self.shapes:
                    self._plan(self.shapes[shape], text)
        return None

    def _look_at_points(self, texts: Sequence[str]) -> None:
        pass

    @property
    def readable(self) -> bool:
        """Whether the texts have so few shapes that each is looked at."""
        return len(self.shapes) <= MOST_SHAPES

    @property
    def mark(self) -> str | None:
        return self.notes.get("decimal", "." if self.tentative and self.notes else None)

    def fresh(self) -> FormColumn:
        return FormColumn(self.words, self.form, self.kind, self.notes, tentative=self.tentative)

    def take_shapes(
        self, data: bytes, starts: _Places, lengths: _Places, codes: npt.NDArray[np.int64]
    ) -> Values:
        """The values of cells that lie in `data`; `shapes` gave the codes of their shapes."""
        octets = np.frombuffer(data, np.uint8)
        values = np.full(len(codes), np.nan)
        alone: list[int] = []
        n_empty = 0
        for code in np.unique(codes).tolist():
            rows = np.flatnonzero(codes == code)
            first = int(rows[0])
            if code >= len(self._plans):
                self._plan(code, data[starts[first] : starts[first] + lengths[first]].decode())
            plan = self._plans[code]
            text = self.examples[code]
            if text in self.words and DIGITS.isdisjoint(text):
                self.missing_words.add(text)
                n_empty += len(rows)
                continue
            if plan is None:
                alone += rows.tolist()
                continue
            places = np.flatnonzero(np.frombuffer(plan.shape.encode(), np.uint8) == ord("9"))
            read = plan.read(octets[starts[rows][:, None] + places] - ord("0"))
            values[rows] = read
            if np.isnan(read.sum()):
                alone += rows[np.isnan(read)].tolist()
        self.n_missing += n_empty
        n_values = len(codes) - len(alone) - n_empty
        if self._missing_values:
            missing = np.isin(values, self._missing_values)
            values[missing] = np.nan
            n_missing = int(np.count_nonzero(missing))
            self.n_missing += n_missing
            n_values -= n_missing
        self.n_values += n_values
        if alone:
            where = zip(starts[alone].tolist(), lengths[alone].tolist(), strict=True)
            texts = [data[start : start + length].decode().strip(BLANKS) for start, length in where]
            values[alone] = self._one_by_one(texts)
        self.few.add(values)
        return values

    def _plan(self, code: int, text: str) -> None:
        """Decide how to read the texts of a shape; codes come in order."""
        assert code == len(self._plans), "each new shape gets the next code"
        self.examples.append(text.strip(BLANKS))
        shape = text.translate(NINES)
        plan = None
        if shape.strip(BLANKS) not in self._shapes_of_words:
            plan = self.form.plan(shape.strip(BLANKS))
        self._plans.append(None if plan is None else Plan(shape, plan.read))
