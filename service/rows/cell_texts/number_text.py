"""What the text of a cell means, in uploads and predictions alike: a number, a boolean, a missing
cell or a level; and what to say of text that only looks like a number."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from svm.data import columns

NUMBER = columns.NUMBER
NOT_FINITE = frozenset({"nan", "inf", "infinity"})
"""Words for what is not a finite number, without their sign."""
BOOLEANS = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}
"""What means 1 and 0 in a cell, as JSON, Python and R write it. Labels stay as they are."""

EXCEL_TEXT = re.compile(r'="([^"]*)"')
"""How a text is written that Excel must not take for a number."""
BLANKS = " \t"
"""They are allowed around a number or a boolean."""

_THOUSANDS = re.compile(
    r"([+-]?[0-9]{1,3}(?P<separator>[,. '\u2019\u00a0\u202f])[0-9]{3}(?:(?P=separator)[0-9]{3})*)"
    r"(?:(?!(?P=separator))[,.]([0-9]+))?"
)
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+(?:[eE][+-]?[0-9]+)?")
_UNDERSCORES = re.compile(r"[0-9]_[0-9]")
_LONGEST = 40
"""Characters of a text that a hint writes in another way."""
MISSING_TEXTS = frozenset(
    {"", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "\\N", "?", "."}
)
"""In any column, labels included."""
MISSING_VALUES = MISSING_TEXTS | {
    *("na", "NAN", "-nan", "Null", "None", "none", "#NA", "-", "--", "missing", "Missing"),
    *("n.a.", "N.A.", "k.A.", "..", "\u2014", "\u2013", "#NULL!", "(null)", "not available"),
    *("NaT", "0000-00-00", "0000-00-00 00:00:00"),
}
"""In columns whose other cells are numbers, booleans or dates; else some of these are levels."""
MAX_LEVELS = 10_000
"""Of one column."""
MIN_LISTS = 5
MAX_LEVELS_IN_ALL = 100_000
Digits: TypeAlias = npt.NDArray[np.uint8]
"""(texts, digits of each), from 0 to 9."""
Numbers: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = npt.NDArray[np.float64]
NINES = str.maketrans("012345678", "9" * 9)
NINES_OF_BYTES = bytes.maketrans(b"012345678", b"9" * 9)
MOST_DIGITS = 15
"""Of a number that float64 holds whatever they are."""


def with_plain_ends(text: str) -> str:
    """A text whose lines end with \\n."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def plain_text(text: str) -> str:
    """A text without blanks, or without Excel's `="…"`, around it."""
    text = with_plain_ends(text.strip(BLANKS))
    return EXCEL_TEXT.sub(r"\1", text) if text[:1] == "=" else text


def is_blank(text: str) -> bool:
    """Whether a cell of a text column is missing: it is empty, or has only blanks of any kind."""
    return not text or text.isspace()


def is_value(text: str) -> bool:
    """Whether a cell is written as a number, finite or not, or as a boolean."""
    return text in BOOLEANS or NUMBER.fullmatch(text) is not None or is_not_finite(text)


def is_not_finite(text: str) -> bool:
    """Whether a cell is a word such as `-inf` or `NaN`."""
    return text.lower().lstrip("+-") in NOT_FINITE


def number_hint(text: str) -> str | None:
    """How to write a number that is written in a way that is not read; None for other texts.

    A comma before three digits may be either: `20,043` is 20043 to some and 20.043 to others.
    """
    match = _THOUSANDS.fullmatch(text) if len(text) <= _LONGEST else None
    if match is not None and not text.lstrip("+-").startswith("0"):
        whole, separator, fraction = match.groups()
        plain = whole.replace(separator, "") + (f".{fraction}" if fraction else "")
        if separator == "," and not fraction and whole.count(",") == 1:
            return f"the comma is ambiguous: write {plain} or {whole.replace(',', '.')}"
        return f"separators of thousands are not read: write {plain}"
    if _DECIMAL_COMMA.fullmatch(text):
        return "write a decimal point instead of the comma"
    if _UNDERSCORES.search(text):
        return "write the digits without _"
    return None


def values_of(words: Iterable[str], value: Callable[[str], float | None]) -> frozenset[float]:
    """The values of those words that are numbers or dates, such as -999 in a column of numbers: a
    cell that is written in another way, as -999.0, is missing, too."""
    others = (word for word in words if word not in MISSING_VALUES and word not in BOOLEANS)
    return frozenset(one for word in others if (one := value(word)) is not None)


def similar(what: str, texts: Iterable[str]) -> str:
    """The message about two levels or classes that differ in case or blanks only, if there are."""
    seen: dict[str, str] = {}
    for text in texts:
        other = seen.setdefault("".join(text.split()).casefold(), text)
        if other != text:
            pair = f"the {what} {other[:32]!r} and {text[:32]!r}"
            hint = "if they are the same, write them alike"
            return f"{pair} differ in case or blanks only; {hint}"
    return ""


def separator_of_lists(levels: Collection[str]) -> str | None:
    """The mark between the elements of lists, if most levels are lists of fewer elements."""
    for mark in "|;,":
        lists = [level for level in levels if mark in level]
        elements = {one.strip() for level in lists for one in level.split(mark)}
        if 2 * len(lists) > len(levels) > MIN_LISTS and 2 * len(elements) < len(levels):
            return mark
    return None


def level_of(value: float | bool | str) -> str:
    """The text of a value that is used as a category."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return str(int(value))
    return plain_text(value.strip()) if isinstance(value, str) else repr(value)


@dataclass(frozen=True, slots=True)
class Plan:
    """Reads all texts of a shape."""

    shape: str
    read: Callable[[Digits], Values]
    """The values of texts, NaN for one that has to be read alone."""


class Form(Protocol):
    """How the texts of a column are written."""

    def value(self, text: str, /) -> float | None:
        """The value of a text; None if it is not written so."""

    def plan(self, shape: str, /) -> Plan | None:
        """What reads all texts of a shape; None if each is read alone."""


def number_of(digits: Digits) -> Numbers:
    """The whole numbers that digits make, the first one being the highest."""
    powers = 10 ** np.arange(digits.shape[1] - 1, -1, -1, dtype=np.int64)
    number: Numbers = digits @ powers
    return number
