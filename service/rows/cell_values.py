"""A cell of a table as its raw value, by the kind of its column: the same in every format of rows.

A reader takes a value of JSON or a cell of a text file, and returns the raw value of
`svm.data.columns`: NaN for a missing cell, `UNKNOWN` for a level that the column does not have. Of
a text column it returns the text, which gets its position when rows become a matrix
(`Columns.matrix`). A row is read cell by cell, so its values do not depend on other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import date
from functools import lru_cache
from math import inf, isfinite, nan
from typing import Any, TypeAlias

from service.rows.cell_faults import (
    CellFault,
    fault_of_free_text,
    fault_of_text,
    fault_of_value,
    missing_fault,
)
from service.rows.cell_texts.dates import COMPACT, DAY_FIRST, ISO, MONTHS_ONLY, forms_of, iso
from service.rows.cell_texts.dates import days as days_of
from service.rows.cell_texts.number_styles import OTHER, NumberStyle
from service.rows.cell_texts.number_text import (
    BLANKS,
    BOOLEANS,
    MISSING_TEXTS,
    NUMBER,
    Form,
    is_blank,
    level_of,
)
from service.rows.cell_texts.reading import USUAL, Reading
from service.rows.faults import shown
from svm.data.columns import UNKNOWN, Column

NUMBER_HINT = "give a number; if it is missing, null in JSON and an empty cell in a text file"
AMBIGUOUS_HINT = "send a number without quotes, or write it as the training file does"
BOOLEAN_HINT = "give true or false, 1 or 0; if it is missing, null or an empty cell"
DATE_HINT = "write 2024-05-01 or 2024-05-01T12:30:00Z; if it is missing, null or an empty cell"
LEVEL_HINT = "give a text; numbers and booleans count as theirs, null is a missing value"
UNSEEN_HINT = "the model was trained to refuse such levels; give one of its training rows"

_NOT_ONE_VALUE = CellFault("invalid-field", "is not a single value", None, LEVEL_HINT)

_FIRST_DAY = date(1970, 1, 1).toordinal()
_ONE_VALUE = {str, int, float, bool}

Reader: TypeAlias = Callable[[Any], Any]
"""From a cell to its raw value."""
_Missing: TypeAlias = Callable[[str | None], float]
"""What is done with a missing cell."""


class BadCell(ValueError):
    """A cell that has no raw value."""

    def __init__(self, fault: CellFault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def reader_of(
    column: Column,
    *,
    of_text: bool,
    refuses_missing: bool = False,
    refused: Collection[str] | None = None,
    reading: Reading = USUAL,
    style: NumberStyle | None = None,
) -> Reader:
    """The reader of a column's cells.

    `of_text`: cells of a text file, not values of JSON. `refused`: levels that are an error, as
    are all that the column does not have; None if no level is. `reading`: how the training file
    was written, of which dates and words for missing cells may be in any rows. `style`: of numbers
    in a text file, if they are not plain. Readers raise BadCell; those of JSON may raise TypeError
    for a list or an object.
    """
    if column.kind in ("category", "text"):
        words = reading.missing | reading.odd.get(column.name, frozenset())
        if column.kind == "text":
            return _text_reader(words)
        return _Levels(column, refused, words).__getitem__
    missing = _refuse_missing if refuses_missing else _accept_missing
    words = reading.words(column.name)
    if column.kind == "date":
        return _date_reader(missing, words, reading.dates.get(column.name, ISO))
    form = reading.form(column.name)
    if column.kind == "number" and not of_text:
        return _number_reader(_NumberTexts(missing, words, form))
    if column.kind == "boolean":
        values = reading.missing_values(column.name, "boolean")
        return _Booleans(missing, words, values).__getitem__
    if style is None or column.name in reading.times:
        return _NumberTexts(missing, words, form).__getitem__
    return _StyledNumbers(missing, words, style).__getitem__


def read_cell(reader: Reader, cell: Any) -> float | str:
    """The raw value of any cell. Raises BadCell."""
    try:
        value = reader(cell)
        if type(value) is str:
            return value
        value = float(value)
        if isfinite(value) or cell is None or type(cell) is str:
            return value
    except TypeError:
        raise BadCell(_NOT_ONE_VALUE._replace(value=_text(cell))) from None
    except OverflowError:  # an integer beyond float64
        pass
    fault = fault_of_value(cell)
    assert fault is not None
    raise BadCell(fault)


def _accept_missing(cell: str | None) -> float:
    return nan


def _refuse_missing(cell: str | None) -> float:
    raise BadCell(missing_fault(cell))


def _number_reader(texts: _NumberTexts) -> Reader:
    def read(cell: Any) -> float:
        kind = type(cell)
        if kind is float or kind is int or kind is bool:
            number: float = cell
            return number
        if cell is None:
            return texts.missing(cell)
        if kind is str:
            return texts[cell]
        fault = fault_of_value(cell)
        assert fault is not None
        raise BadCell(fault._replace(hint=NUMBER_HINT))

    return read


class _Texts(dict[Any, float]):
    """Text → raw value: of those given, of words for missing cells, and of others as a subclass
    reads them."""

    def __init__(
        self, known: Mapping[Any, float], missing: _Missing, words: Collection[str]
    ) -> None:
        super().__init__((text, value) for text, value in known.items() if text not in words)
        self.missing = missing
        self._words = words

    def __missing__(self, cell: Any) -> float:
        if cell is None:
            return self.missing(cell)
        if type(cell) is not str:
            return self._read(cell, cell)
        text = cell.strip(BLANKS)
        if text in self._words:
            return self.missing(cell)
        return self[text] if text in self else self._read(cell, text)

    def _read(self, cell: Any, text: Any) -> float:
        """The raw value of a cell, a `text` without blanks if it is one. Raises BadCell."""
        raise NotImplementedError


class _NumberTexts(_Texts):
    """A text may also be written as those of the training file, if that gives no other number."""

    def __init__(self, missing: _Missing, words: Collection[str], form: Form | None = None) -> None:
        super().__init__(BOOLEANS, missing, words)
        self._form = form

    def _read(self, cell: str, text: str) -> float:
        styled = None if self._form is None else self._form.value(text)
        try:
            number = float(cell)
        except ValueError:
            pass
        else:  # float() also takes 1_000, digits of other scripts, and nan
            if -inf < number < inf and cell.isascii() and "_" not in cell:
                if styled not in (None, number):
                    what = f"may be {number:g} or {styled:g}"
                    raise BadCell(CellFault("ambiguous-number", what, cell, AMBIGUOUS_HINT))
                return number
        if styled is None:
            styled = _in_one_style(text, self._form)
        if styled is not None:
            return styled
        fault = fault_of_text(cell, NUMBER_HINT)
        assert fault is not None
        raise BadCell(fault)


def _in_one_style(text: str, form: Form | None) -> float | None:
    """A number that is not plain, and the same one with either decimal mark, or one with a single
    one of them."""
    style = form if isinstance(form, NumberStyle) else NumberStyle()
    known = {replace(style, decimal=mark).value(text) for mark in OTHER} - {None}
    return known.pop() if len(known) == 1 and isinstance(form, NumberStyle | None) else None


class _StyledNumbers(_Texts):
    """Numbers that are written as in the training file."""

    def __init__(self, missing: _Missing, words: Collection[str], style: NumberStyle) -> None:
        super().__init__(BOOLEANS, missing, words)
        self._style = style

    def _read(self, cell: str, text: str) -> float:
        value = self._style.value(text)
        if value is None:
            hint = f"write numbers as the training file does: {self._style.described}"
            raise BadCell(CellFault("not-a-number", "is not a number", cell, hint))
        return value


class _Booleans(_Texts):
    """Words and numbers → 1 or 0. A dictionary takes true, 1 and 1.0 for the same key."""

    def __init__(
        self, missing: _Missing, words: Collection[str], missing_values: Collection[float]
    ) -> None:
        super().__init__({1: 1.0, 0: 0.0, "1": 1.0, "0": 0.0} | BOOLEANS, missing, words)
        self._missing_values = missing_values

    def _read(self, cell: Any, text: Any) -> float:
        number = text
        if type(text) is str:
            number = float(text) if NUMBER.fullmatch(text) else None
            if number in self:
                return self[number]
        if type(number) in (int, float) and number in self._missing_values:
            return self.missing(_text(cell))
        raise BadCell(CellFault("not-a-boolean", "is not true or false", _text(cell), BOOLEAN_HINT))


def _days(text: str) -> float | None:
    """As `days_of`, sooner for the most frequent form."""
    if len(text) == 10 and text[4] == text[7] == "-":
        try:
            return float(date.fromisoformat(text).toordinal() - _FIRST_DAY)
        except ValueError:
            return None
    return days_of(text)


@lru_cache(maxsize=4096)
def _other_dates(text: str, form: str) -> list[float]:
    """What a text may be as a date in other forms; if `form` says whether the day comes before the
    month, only in such ones."""
    day_first = True if form in DAY_FIRST else False if form.startswith("MM") else None
    whole = (one for one in forms_of([text], day_first) if one not in (COMPACT, *MONTHS_ONLY))
    return sorted({days for one in whole if (days := days_of(text, one)) is not None})


def _date_reader(missing: _Missing, words: Collection[str], form: str) -> Reader:
    hint = DATE_HINT if form == ISO else f"{DATE_HINT}; or {form}, as the training file does"

    def read(cell: Any) -> float:
        if cell is None:
            return missing(cell)
        if type(cell) is str:
            text = cell.strip(BLANKS)
            days = _days(text)
            if days is None and form != ISO:
                days = days_of(text, form)
            if days is not None:
                return days
            if text in words:
                return missing(cell)
            readings = _other_dates(text, form)
            if len(readings) == 1:
                return readings[0]
            if readings:
                what = f"may be {' or '.join(map(iso, readings))}"
                raise BadCell(CellFault("not-a-date", what, cell, hint))
        elif type(cell) in _ONE_VALUE and level_of(cell) in words:
            return missing(_text(cell))
        raise BadCell(CellFault("not-a-date", "is not a date", _text(cell), hint))

    return read


def _text_reader(words: Collection[str]) -> Reader:
    """A text stays as it is; numbers and booleans count as theirs."""

    def read(cell: Any) -> str | float:
        if cell is None:
            return nan
        if type(cell) is not str:
            if type(cell) not in _ONE_VALUE:
                raise BadCell(_NOT_ONE_VALUE._replace(value=_text(cell)))
            cell = level_of(cell)
        text: str = cell
        if is_blank(text) or (words and text.strip(BLANKS) in words):
            return nan
        if (fault := fault_of_free_text(text)) is not None:
            raise BadCell(fault)
        return text

    return read


class _Levels(dict[Any, float]):
    """Text → position among the levels of a column."""

    def __init__(
        self, column: Column, refused: Collection[str] | None, words: Collection[str]
    ) -> None:
        super().__init__(dict.fromkeys((*MISSING_TEXTS, *words), nan))
        positions = {level: float(i) for i, level in enumerate(column.levels)}
        self.update(positions)
        self[None] = nan
        self._refuses = refused is not None
        for level in refused or ():
            del self[level]
        self._by_number = _by_number(positions)

    def __missing__(self, cell: Any) -> float:
        if type(cell) not in _ONE_VALUE:
            raise BadCell(_NOT_ONE_VALUE._replace(value=_text(cell)))
        text = level_of(cell)
        if text in self:
            return self[text]
        level = self._by_number.get(float(text)) if NUMBER.fullmatch(text) else None
        if level in self and level is not None:
            return self[level]
        if self._refuses:
            message = "is not a level of the training rows"
            raise BadCell(CellFault("unseen-level", message, _text(cell), UNSEEN_HINT))
        return UNKNOWN


def _by_number(levels: Collection[str]) -> dict[float, str]:
    """The level with a value, if all levels are numbers and no other has it: 1 finds "1.0"."""
    if not all(NUMBER.fullmatch(level) for level in levels):
        return {}
    by_number: dict[float, str] = {}
    twice = set()
    for level in levels:
        if by_number.setdefault(float(level), level) != level:
            twice.add(float(level))
    return {value: level for value, level in by_number.items() if value not in twice}


def _text(cell: Any) -> str:
    return cell if isinstance(cell, str) else shown(cell)
