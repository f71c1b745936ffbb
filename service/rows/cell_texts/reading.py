"""How the texts of a training file were written: rows to predict may be written so, too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from service.rows.cell_texts import dates
from service.rows.cell_texts.encodings import is_text_codec, marked
from service.rows.cell_texts.number_styles import OTHER, NumberStyle
from service.rows.cell_texts.number_text import MISSING_VALUES, Form, values_of
from service.rows.cell_texts.text import bad_encoding

ANY_DELIMITER = "\t !#$%&*,/:;<=>?@^|~"
"""Marks that an upload may name."""
DELIMITERS = (",", ";", "\t", "|", " ")
"""Those of them that are recognized."""
_OF_STYLES = ("decimal", "thousands", "unit", "scaled", "negative")
LONGEST_UNIT = 32
"""Characters; an imported model may claim any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a dataset's `reading` says of the texts of rows. Names are those of columns."""

    delimiter: str | None = None
    """None if the rows did not come as text."""
    encoding: str = "utf-8"
    trailing: bool = False
    """Whether each row ends with a delimiter."""
    missing: frozenset[str] = frozenset()
    """Words for missing cells, besides those that any table has."""
    decimal: str = "."
    """Of columns that `numbers` does not have."""
    numbers: Mapping[str, NumberStyle] = field(default_factory=dict)
    dates: Mapping[str, str] = field(default_factory=dict)
    """The form of dates, if it is not ISO 8601."""
    times: Mapping[str, str] = field(default_factory=dict)
    """The form of times of day and durations, which are numbers of seconds."""
    odd: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Words for missing cells of one column."""
    positions: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """Where the columns are, from 1, that are not features, by their role, if some are ignored."""

    @classmethod
    def of(cls, document: Mapping[str, Any] | None) -> Reading:
        """Raises ValueError for a document that no upload gives."""
        if document is None:
            return cls()
        if not isinstance(document, dict):
            raise ValueError("it is not an object")
        columns = document.get("columns", {})
        if not isinstance(columns, dict) or not all(isinstance(c, dict) for c in columns.values()):
            raise ValueError("`columns` is not an object of objects")
        decimal = _one_of(document, "decimal", tuple(OTHER), ".")
        numbers = {
            name: NumberStyle(
                _one_of(notes, "decimal", tuple(OTHER), decimal),
                _unit(notes),
                scaled=notes.get("scaled") is True,
            )
            for name, notes in columns.items()
            if not notes.keys().isdisjoint(_OF_STYLES)
        }

        def forms(key: str, choices: Iterable[str]) -> dict[str, str]:
            with_form = (name for name, notes in columns.items() if key in notes)
            return {name: _one_of(columns[name], key, tuple(choices), "") for name in with_form}

        delimiter = None
        if document.get("delimiter") is not None:
            delimiter = _one_of(document, "delimiter", tuple(ANY_DELIMITER), ",")
        return cls(
            delimiter=delimiter,
            encoding=_encoding(document),
            trailing=document.get("trailing_delimiter") is True,
            missing=_words(document, "missing") - MISSING_VALUES,
            decimal=decimal,
            numbers=numbers,
            dates=forms("dates", dates.FORMS),
            times=forms("times", dates.TIMES),
            odd={name: _words(notes, "odd") for name, notes in columns.items() if "odd" in notes},
            positions=_positions(document),
        )

    def order(self, width: int, n_features: int) -> list[int] | None:
        """The position of each feature in rows of this width without names that are those of the
        file, with its labels and the columns beside the features or without; else None."""
        others = frozenset().union(*self.positions.values())
        for left_out in ((), ("label",), self.positions.keys() - {"ignored"}):
            absent = frozenset().union(*(self.positions.get(role, ()) for role in left_out))
            if others and width == n_features + len(others - absent):
                sent = (i for i in range(1, n_features + len(others) + 1) if i not in absent)
                order = [at for at, i in enumerate(sent) if i not in others]
                return order if len(order) == n_features else None
        return None

    def has_usual_form(self, delimiter: str) -> bool:
        """Whether rows with this delimiter, decimal points and UTF-8 are written so."""
        if self.delimiter is None:
            return True
        as_usual = self.delimiter == delimiter and self.encoding == "utf-8" and not self.trailing
        return as_usual and self.decimal == "." and not self.numbers

    def is_usual(self, delimiter: str) -> bool:
        """Whether there is nothing that rows to predict would have to know."""
        others = (self.missing, self.dates, self.times, self.odd)
        return self.has_usual_form(delimiter) and not any(others)

    def style(self, name: str) -> NumberStyle:
        """Of the numbers of a column."""
        return self.numbers.get(name) or NumberStyle(self.decimal)

    def form(self, name: str) -> Form | None:
        """Of the texts of a column of numbers; None if they are plain."""
        if name in self.times:
            return dates.TimeForm(self.times[name])
        style = self.style(name)
        return None if style.plain else style

    def words(self, name: str) -> frozenset[str]:
        """For missing cells of a column of numbers, booleans or dates."""
        return MISSING_VALUES | self.missing | self.odd.get(name, frozenset())

    def missing_values(self, name: str, kind: str) -> frozenset[float]:
        """Raw values of a column that are missing cells, since words for these have them."""
        form, style = self.dates.get(name, dates.ISO), self.style(name)
        plain = NumberStyle(style.decimal)

        def value(word: str) -> float | None:
            if kind == "date":
                return dates.days(word, form)
            number = style.value(word)
            return plain.value(word) if number is None else number

        if kind == "category":
            return frozenset()
        values = values_of(self.missing, value)
        return values - {0.0, 1.0} if kind == "boolean" else values

    def as_utf8(self, body: bytes) -> bytes:
        """The text in UTF-8: it may come so, or in the encoding of the file.

        Raises InvalidRequest `bad-encoding`.
        """
        own = marked(body[:1024])
        if own is None and (b"\0" in body or b"\x1b" in body or not _is_utf8(body)):
            own = self.encoding
        if own in (None, "utf-8"):
            return body
        try:
            return body.decode(own).encode()
        except UnicodeError:
            what = "nor text in the encoding of the training file"
            raise bad_encoding(f"{what}, {self.encoding}") from None


USUAL = Reading()
"""Of rows that did not come as text."""


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeError:
        return False
    return True


def _one_of(document: Mapping[str, Any], name: str, choices: tuple[str, ...], default: str) -> str:
    value = document.get(name, default)
    if value not in choices:
        raise ValueError(f"`{name}` is not one of {', '.join(map(repr, choices))}")
    return str(value)


def _positions(document: Mapping[str, Any]) -> dict[str, frozenset[int]]:
    given = document.get("positions", {})
    if not isinstance(given, dict) or not all(
        isinstance(some, list) and all(type(one) is int for one in some) for some in given.values()
    ):
        raise ValueError("`positions` is not an object of lists of numbers")
    return {role: frozenset(some) for role, some in given.items()}


def _encoding(document: Mapping[str, Any]) -> str:
    name = document.get("encoding", "utf-8")
    if not isinstance(name, str) or not is_text_codec(name):
        raise ValueError("`encoding` is not the name of an encoding")
    return name


def _unit(notes: Mapping[str, Any]) -> str:
    unit = notes.get("unit", "")
    if not isinstance(unit, str) or len(unit) > LONGEST_UNIT:
        raise ValueError("`unit` is not a short text")
    return unit


def _words(document: Mapping[str, Any], name: str) -> frozenset[str]:
    words = document.get(name, [])
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise ValueError(f"`{name}` is not a list of texts")
    return frozenset(words)
