"""The cells of a column as they come, slice by slice: as numbers, or as codes of their texts.

What a column is is decided in the end, from all of its cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from math import isfinite, nan
from sys import getsizeof
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson

from service.rows.cell_texts.number_styles import only_groups, survey
from service.rows.cell_texts.number_text import (
    BLANKS,
    BOOLEANS,
    EXCEL_TEXT,
    MAX_LEVELS,
    NINES,
    NUMBER,
    Form,
    Plan,
    level_of,
    plain_text,
    values_of,
)
from service.rows.json_reading.numbers import read_list
from svm.data.columns import Kind

Values: TypeAlias = npt.NDArray[np.float64]
Words: TypeAlias = frozenset[str]

MAX_TEXT_CHARACTERS = 1024 * 1024
"""Of the different texts of a column."""
MAX_EXCEPTION_CHARACTERS = 64
MOST_LABELS = 20
"""More different values are unlikely to be labels."""
ENTRY_BYTES = 100
"""Of a dictionary, besides the text."""

_PLAIN_OR_NULL = b"0123456789eE+-.,nul"
NO_WORDS = frozenset({""})
"""An empty text is a missing cell, like null."""
PLACEHOLDER = "\0"
"""A cell of a row that is wrong: the file is refused, and this adds no other fault. No text file
has such a cell."""
MOST_SHAPES = 1024
"""Of a column that is read shape by shape."""
MOST_KNOWN = 10_000
"""Texts whose values are remembered."""
DIGITS = frozenset("0123456789")
_NUMBERS_OR_NULL, _TEXTS_OR_NULL = frozenset({int, float, type(None)}), frozenset({str, type(None)})
_Places = npt.NDArray[np.int64]


class FewValues:
    """The different values of a column, as long as they are as few as labels are."""

    def __init__(self) -> None:
        self._values: set[float] | None = set()

    def add(self, values: Values) -> None:
        if self._values is None:
            return
        self._values |= set(values[~np.isnan(values)].tolist())
        if len(self._values) > MOST_LABELS:
            self._values = None

    @property
    def count(self) -> int | None:
        """How many there are; None if they are many, or not whole numbers."""
        if self._values is None or not all(value.is_integer() for value in self._values):
            return None
        return len(self._values)


class ValueColumn:
    """Takes cells as values: plain numbers."""

    typed = False
    """Cells are values of JSON: texts are never numbers, and only empty ones are missing."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self._missing_values = list(values_of(words, self.value))
        self.plain = not self._missing_values
        """Whether all cells so far are plain numbers, or empty."""
        self.n_values = 0
        self.n_booleans = 0
        """How many of the values are words for booleans."""
        self.n_missing = 0
        self.missing_words: set[str] = set()
        self.exceptions: Counter[str] = Counter()
        self.group: str | None = None
        """A number such as 4.450, while all with a point are such."""
        self.padded: str | None = None
        """A whole number that begins with 0, as codes may."""
        self.few = FewValues()
        self._pointed = False

    def add(self, texts: Sequence[Any]) -> Values:
        """NaN for missing cells, and for those that are no values, which are `exceptions`."""
        values = self._at_once(texts)
        if values is None:
            self.plain = False
            values = self._one_by_one([text.strip(BLANKS) for text in texts])
        self.few.add(values)
        return values

    def take(self, values: Values, n_missing: int) -> None:
        """Add plain numbers, with or without points as others so far; NaN for empty cells."""
        self.n_missing += n_missing
        self.n_values += len(values) - n_missing
        if n_missing and not self.typed:
            self.missing_words.add("")
        self.few.add(values)

    def _at_once(self, texts: Sequence[str]) -> Values | None:
        joined = ",".join(texts)
        values = read_list(b"[%b]" % joined.encode())
        if values is None or len(values) != len(texts) or not np.isfinite(values).all():
            if " " in joined or "\t" in joined:
                self.plain = False
                texts = [text.strip(BLANKS) for text in texts]
            words = self.words
            cells = ["null" if text in words else text for text in texts]
            joined = ",".join(cells)
            values = _numbers_or_null(joined, len(texts))
            if values is None:
                return None
            self.missing_words |= words.intersection(texts)
            self.plain &= self.missing_words <= {""}
            n_missing = int(np.count_nonzero(np.isnan(values)))
            self.n_missing += n_missing
            self.n_values -= n_missing
            texts = cells
        if self._missing_values:
            mask = np.isin(values, self._missing_values)
            n_missing = int(np.count_nonzero(mask))
            self.n_missing += n_missing
            self.n_values -= n_missing
            values = np.where(mask, nan, values)
        self.n_values += len(texts)
        if not self._pointed and "." in joined:
            self._look_at_points(texts)
        return values

    def _one_by_one(self, texts: Sequence[str]) -> Values:
        values = {}
        for text, count in Counter(texts).items():
            values[text] = nan
            if text in self.words:
                self.n_missing += count
                self.missing_words.add(text)
                continue
            value = self.value(text)
            if value in self._missing_values:
                self.n_missing += count
            elif value is None:
                self._except(text, count)
            else:
                values[text] = value
                self.n_values += count
                self.n_booleans += count * (text in BOOLEANS)
                if self.padded is None and is_padded(text):
                    self.padded = text
        if not self._pointed:
            self._look_at_points(texts)
        return np.fromiter(map(values.__getitem__, texts), np.float64, len(texts))

    def _except(self, text: str, count: int = 1) -> None:
        if text in self.exceptions or len(self.exceptions) < MAX_LEVELS:
            self.exceptions[text[:MAX_EXCEPTION_CHARACTERS]] += count
        else:
            self.exceptions[""] += count

    def _look_at_points(self, texts: Sequence[str]) -> None:
        for text in texts:
            if "." in text and NUMBER.fullmatch(text):
                if not only_groups(text):
                    self._pointed = True
                    self.group = None
                    return
                self.group = text

    @property
    def n_cells(self) -> int:
        return self.n_values + self.n_missing + self.exceptions.total()

    @property
    def pointed(self) -> bool:
        """Whether some number can only have a decimal point."""
        return self._pointed

    @property
    def mark(self) -> str | None:
        """The decimal mark that the column must have."""
        few = self.exceptions.total() * 2 < self.n_values
        return "." if self._pointed and few else None

    @property
    def n_texts(self) -> int:
        """How many texts are in memory."""
        return len(self.exceptions)

    @property
    def text_bytes(self) -> int:
        """Their memory, at most."""
        return len(self.exceptions) * (4 * MAX_EXCEPTION_CHARACTERS + ENTRY_BYTES)

    def forget(self) -> None:
        """Keep of the exceptions only how many there are."""
        self.exceptions = Counter({"": self.exceptions.total()})

    def value(self, text: str) -> float | None:
        """Of a text that is not missing; None if it is an exception."""
        return _plain(text)

    def is_wrong(self, cell: Any, texts: Words | None) -> bool:
        """Whether a cell is a mistake: it has one of these texts, or if they are None, it is an
        exception."""
        text = cell.strip(BLANKS)
        if text in self.words:
            return False
        return self.value(text) is None if texts is None else text in texts


class TextColumn:
    """Takes cells as texts, and gives each the code of its text."""

    typed = False

    def __init__(self, words: Words) -> None:
        self.words = words
        self.overflowed = False
        """There are too many texts for a category; the codes mean nothing."""
        self.lookup = Lookup()
        self._counts = np.zeros(0, dtype=np.int64)

    def add(self, texts: Sequence[Any]) -> Values:
        if self.overflowed:
            return np.zeros(len(texts))
        codes = np.fromiter(map(self.lookup.__getitem__, texts), np.int64, len(texts))
        self.take(codes)
        return codes.astype(np.float64)

    def take(self, codes: npt.NDArray[np.int64]) -> None:
        """Add texts of which `lookup` gave the codes."""
        counts = np.bincount(codes, minlength=len(self.lookup))
        counts[: len(self._counts)] += self._counts
        self._counts = counts
        many = len(self.lookup) > MAX_LEVELS + len(self.words)
        self.overflowed = many or self.lookup.n_characters > MAX_TEXT_CHARACTERS

    @property
    def n_texts(self) -> int:
        return len(self.lookup)

    @property
    def text_bytes(self) -> int:
        return self.lookup.n_bytes

    @property
    def mark(self) -> str | None:
        """The decimal mark that the column must have, if its texts are numbers."""
        there = [text for text in self.texts if text not in self.words]
        surveyed = survey(there)
        return surveyed.decided if surveyed.n_numbers == len(there) else None

    def counted(self, texts: Collection[str]) -> dict[str, int]:
        """How many cells have each of these texts."""
        counts: Counter[str] = Counter()
        for text, count in zip(self.texts, self.counts, strict=True):
            if text in texts:
                counts[text] += count
        return counts

    @property
    def n_cells(self) -> int:
        return int(self._counts.sum())

    def is_wrong(self, cell: Any, texts: Words | None) -> bool:
        """Whether a cell is a mistake: it has one of these texts."""
        text = cell.strip(BLANKS)
        return texts is not None and text in texts and text not in self.words

    def forget(self) -> None:
        """Take the column as free text, and keep the first half of its texts only."""
        self.overflowed = True
        kept = self.n_texts // 2
        self.lookup.cut(kept)
        self._counts = self._counts[:kept]

    @property
    def texts(self) -> list[str]:
        """The different texts by code, without blanks or Excel's `="…"` around them; some may be
        equal now."""
        return [plain_text(text) for text in self.lookup]

    @property
    def n_excel_texts(self) -> int:
        """How many of the texts Excel must not take for numbers."""
        return sum(EXCEL_TEXT.fullmatch(text.strip(BLANKS)) is not None for text in self.lookup)

    @property
    def counts(self) -> list[int]:
        """How many cells have each of these texts."""
        return self._counts.tolist()


class Lookup(dict[str, int]):
    """Gives each new text the next code."""

    def __init__(self) -> None:
        super().__init__()
        self.n_characters = 0
        self.n_bytes = 0

    def __missing__(self, text: str) -> int:
        self.n_characters += len(text)
        self.n_bytes += getsizeof(text) + ENTRY_BYTES
        code = self[text] = len(self)
        return code

    def cut(self, count: int) -> None:
        """Keep the first texts only."""
        for text in list(self)[count:]:
            del self[text]
            self.n_characters -= len(text)
            self.n_bytes -= getsizeof(text) + ENTRY_BYTES


def _numbers_or_null(joined: str, count: int) -> Values | None:
    """Numbers with commas between them, NaN for null; None if something else is there."""
    if joined.encode().translate(None, _PLAIN_OR_NULL):
        return None
    try:
        values = np.array(orjson.loads(f"[{joined}]"), dtype=np.float64)
    except (orjson.JSONDecodeError, OverflowError):
        return None
    return None if len(values) != count or np.isinf(values).any() else values


def is_padded(text: str) -> bool:
    """Whether a text is digits that begin with a superfluous 0, as codes may."""
    return text[:1] == "0" and len(text) > 1 and text.isdecimal()


def _plain(text: str) -> float | None:
    if text in BOOLEANS:
        return BOOLEANS[text]
    if not NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if isfinite(value) else None


class TypedValues(ValueColumn):
    """Takes values of JSON as numbers and booleans; texts and all others are `exceptions`."""

    typed = True

    def __init__(self, kind: Kind | None = None) -> None:
        """`kind`: that which the caller or the dataset demands."""
        super().__init__(NO_WORDS)
        self.kind = kind
        self.plain = False

    def add(self, cells: Sequence[Any]) -> Values:
        values = self._all_numbers(cells)
        if values is None:
            values = np.full(len(cells), nan)
            for i, cell in enumerate(cells):
                if cell is None or cell == "":
                    self.n_missing += 1
                elif self.is_wrong(cell, None):
                    self._except(cell.strip(BLANKS) if isinstance(cell, str) else "")
                else:
                    values[i] = cell
                    self.n_values += 1
                    self.n_booleans += isinstance(cell, bool)
        self.few.add(values)
        return values

    def _all_numbers(self, cells: Sequence[Any]) -> Values | None:
        """The values, NaN for null; None if some are not finite numbers."""
        if self.kind == "boolean" or not _NUMBERS_OR_NULL.issuperset(map(type, cells)):
            return None
        try:
            values = np.array(cells, dtype=np.float64)
        except OverflowError:
            return None
        if np.isinf(values).any():
            return None
        n_missing = int(np.count_nonzero(np.isnan(values)))
        self.n_missing += n_missing
        self.n_values += len(values) - n_missing
        return values

    def is_wrong(self, cell: Any, texts: Words | None) -> bool:
        if cell is None or cell == "":
            return False
        if isinstance(cell, (str, list, dict)) or (self.kind == "boolean" and cell not in (0, 1)):
            return True
        try:
            return not isfinite(cell)
        except OverflowError:
            return True


class TypedTexts(TextColumn):
    """Takes values of JSON as texts."""

    typed = True

    def __init__(self, kind: Kind | None = None) -> None:
        """`kind`: as of `TypedValues`. A category takes numbers and booleans, too."""
        super().__init__(NO_WORDS)
        self.kind = kind
        self.n_wrong = 0
        """How many are not texts."""

    def add(self, cells: Sequence[Any]) -> Values:
        if _TEXTS_OR_NULL.issuperset(map(type, cells)):
            return super().add(["" if cell is None else cell for cell in cells])
        self.n_wrong += sum(self.is_wrong(cell, None) for cell in cells)
        return super().add(list(map(_text_of, cells)))

    @property
    def texts(self) -> list[str]:
        return [level_of(text) for text in self.lookup]

    @property
    def mark(self) -> str | None:
        """There is none: texts are never numbers."""
        return None

    def is_wrong(self, cell: Any, texts: Words | None) -> bool:
        if isinstance(cell, str):
            return texts is not None and super().is_wrong(cell, texts)
        return isinstance(cell, (list, dict)) or not (cell is None or self.kind == "category")


class FormColumn(ValueColumn):
    """Takes cells as what a form makes of their texts."""

    def __init__(
        self,
        words: Words,
        form: Form,
        kind: Kind,
        notes: dict[str, Any],
        *,
        typed: bool = False,
        tentative: bool = False,
    ) -> None:
        self.form, self.kind, self.notes = form, kind, notes
        self.typed, self.tentative = typed, tentative
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

    def add(self, texts: Sequence[Any]) -> Values:
        if self.typed:
            texts = [cell if type(cell) is str else _text_of(cell) for cell in texts]
        joined = "\n".join(texts)
        shapes = joined.translate(NINES).split("\n")
        if not joined.isascii() or len(shapes) != len(texts):
            return super().add(texts)
        codes = np.fromiter(map(self.shapes.__getitem__, shapes), np.int64, len(texts))
        if not self.readable:
            return super().add(texts)
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        starts = np.cumsum(lengths + 1) - lengths - 1
        return self.take_shapes(joined.encode(), starts, lengths, codes)

    def is_wrong(self, cell: Any, texts: Words | None) -> bool:
        return super().is_wrong(cell if isinstance(cell, str) else _text_of(cell), texts)

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


def _text_of(cell: Any) -> str:
    """A value of JSON in a column of texts; null is an empty cell."""
    return "" if cell is None else level_of(cell)
