"""How the numbers of a column are written: decimal mark, separators of thousands, unit.

A cell such as `1.234` has two readings. What the other cells of its column, else of its file, can
only be decides.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np

from service.rows.cell_texts.number_text import MOST_DIGITS, Digits, Plan, Values, number_of

_GROUPS = "[1-9][0-9]{0,2}"
_COMMAS = f"{_GROUPS}(?:,[0-9]{{2,3}})*,[0-9]{{3}}"
"""Also as in India: 12,34,567."""
_BLANKS = rf"{_GROUPS}(?:[ '\u2019\u00a0\u202f][0-9]{{3}})+"
_FORM = re.compile(
    "[+-]?(?:"
    rf"(?P<point_group>{_GROUPS}\.[0-9]{{3}})"
    rf"|(?P<comma_group>{_GROUPS},[0-9]{{3}})"
    rf"|(?P<point_groups>{_GROUPS}(?:\.[0-9]{{3}}){{2,}})"
    f"|(?P<comma_groups>{_COMMAS})"
    rf"|(?P<groups_point>{_COMMAS}\.[0-9]+)"
    rf"|(?P<groups_comma>{_GROUPS}(?:\.[0-9]{{3}})+,[0-9]+)"
    f"|(?P<blanks>{_BLANKS})"
    rf"|(?P<blanks_point>{_BLANKS}\.[0-9]+)"
    f"|(?P<blanks_comma>{_BLANKS},[0-9]+)"
    r"|(?:(?P<whole>[0-9]+)|(?P<point>[0-9]+\.[0-9]*|\.[0-9]+)|(?P<comma>[0-9]*,[0-9]+))"
    "(?:[eE][+-]?[0-9]+)?"
    ")"
)
_SIGNS = "[€$£¥₹₩₽₺₪฿¤]"
_LETTER = r"[^\W\d_]"
_UNIT = re.compile(
    rf"(?P<sign>[+-]?)(?:(?P<before>[A-Z]{{1,2}}\$|{_SIGNS}|[A-Z]{{3}}|Rs\.?|kr)\s?)?"
    r"(?P<number>[0-9+\-.,].*?)"
    rf"(?:\s?(?P<after>[%‰°\"'″]|{_SIGNS}|°?{_LETTER}{{1,12}}[²³.]?(?:/{_LETTER}{{1,4}}[²³]?)?))?"
)
"""A currency before a number; a currency, a sign or a word behind it."""
_CURRENCIES = frozenset({"US$", "€", "$", "£", "¥", "USD", "EUR", "GBP", "CHF", "%"})
"""Units without a doubt: a cell with another one is a mistake, not a level."""
_MEASURE = re.compile(
    "[kcm]?m[²³]?|mi|ft|in|yd|[km]?g|t|lbs?|oz|[mc]?l|[mk]?s|min|minute|sec|second|hr?|hour|day|week"
    "|month|year|yr|°?[CF]|k?W|V|A|[kMG]?Hz|[KMGT]B|k?cal|mmHg|km/h|mph"
)
SCALES = {"K": 1e3, "k": 1e3, "M": 1e6, "B": 1e9}
_WIDE = str.maketrans("０１２３４５６７８９．，＋－％", "0123456789.,+-%")
_SHORTEST_PLURAL = 4
_ONLY = {
    ".": frozenset({"point", "comma_groups", "groups_point", "blanks_point"}),
    ",": frozenset({"comma", "point_groups", "groups_comma", "blanks_comma"}),
}
_EITHER = frozenset({"point_group", "comma_group"})
_SEPARATORS = {
    "point_group": ".",
    "comma_group": ",",
    "point_groups": ".",
    "groups_comma": ".",
    "comma_groups": ",",
    "groups_point": ",",
}
OTHER = {".": ",", ",": "."}
PARENTHESES, MINUS_SIGN, MINUS_BEHIND = "(1)", "\u22121", "1-"
"""Ways to write -1, besides the usual one: of accounts, with the minus sign of texts, of SAP."""
LONGEST = 64
"""Characters of a number that is not plain."""


@dataclass(frozen=True, slots=True)
class NumberStyle:
    """How to read the numbers of a column."""

    decimal: str = "."
    unit: str = ""
    """A currency, a percent sign or a word that every cell has."""
    grouped: bool = True
    """Whether thousands may be separated."""
    scaled: bool = False
    """Whether K, M and B mean thousands, millions and billions."""

    @property
    def plain(self) -> bool:
        return self == PLAIN

    @property
    def described(self) -> str:
        """Such as "with a decimal comma and €"."""
        mark = "point" if self.decimal == "." else "comma"
        return f"with a decimal {mark}" + (f" and {self.unit}" if self.unit else "")

    def value(self, text: str) -> float | None:
        """The finite number of a cell, None if it is not one in this style."""
        parts = self._parts(text)
        if parts is None:
            return None
        number, scale, separated = parts
        if separated:
            number = re.sub(rf"[ '\u2019\u00a0\u202f{OTHER[self.decimal]}]", "", number)
        value = float(number.replace(self.decimal, ".")) * scale
        return value if isfinite(value) else None

    def plan(self, shape: str) -> Plan | None:
        """What reads all texts of a shape at once, as `value` does."""
        parts = self._parts(shape)
        n_digits = shape.count("9")
        if parts is None or n_digits > MOST_DIGITS or parts[0].count("9") != n_digits:
            return None
        number, scale, separated = parts
        if "e" in number.lower():
            return None
        fraction = number.partition(self.decimal)[2].count("9")
        divisor = 10.0**fraction * (-1.0 if number.startswith("-") else 1.0)
        padded = separated or shape.isdecimal()

        def read(digits: Digits) -> Values:
            values = number_of(digits) / divisor * scale
            if padded and n_digits > 1:  # groups do not begin with 0, and codes may
                values[digits[:, 0] == 0] = np.nan
            return values

        return Plan(shape, read)

    def _parts(self, text: str) -> tuple[str, float, bool] | None:
        """The number without its unit, by what it is multiplied, and whether thousands are
        separated."""
        if len(text) > LONGEST:
            return None
        number, unit, scale = _split(text)
        if unit != self.unit or (scale and not self.scaled):
            return None
        match = _FORM.fullmatch(number)
        form = None if match is None else match.lastgroup
        if form is None or form in _ONLY[OTHER[self.decimal]]:
            return None
        separated = form.startswith("blanks") or OTHER[self.decimal] in number
        if separated and not self.grouped:
            return None
        return number, SCALES.get(scale, 1.0), separated


PLAIN = NumberStyle()


@dataclass(slots=True)
class Survey:
    """What the texts of a column say of its style."""

    only: frozenset[str] = frozenset()
    """Decimal marks without which some cell is not a number."""
    either: str | None = None
    """A cell that is a number with either mark, but another one."""
    units: Counter[str] = field(default_factory=Counter)
    """How many of the texts have each unit, the empty one included."""
    scaled: bool = False
    """Whether some have K, M or B behind them."""
    separators: frozenset[str] = frozenset()
    """Marks that stand between groups of three, if they are not the decimal mark."""
    negative: str = ""
    """How negative numbers are written, if not with a hyphen."""

    n_numbers: int = 0
    """How many of the texts are numbers in some style."""

    @property
    def decided(self) -> str | None:
        return next(iter(self.only)) if len(self.only) == 1 else None

    @property
    def unit(self) -> str:
        """That of most texts."""
        return max(self.units, key=self.units.__getitem__, default="")

    @property
    def mixed(self) -> bool:
        """Whether some numbers have another unit than others, or none."""
        return len(self.units) > 1

    def notes(self, style: NumberStyle) -> dict[str, Any]:
        """What `reading` says of a style."""
        marks = self.separators - {style.decimal}
        notes = {
            "decimal": style.decimal == "," and bool(self.only or self.either) and ",",
            "thousands": min(marks, default=None),
            "unit": style.unit,
            "scaled": style.scaled,
            "negative": self.negative,
        }
        return {name: note for name, note in notes.items() if note}


def survey(texts: Iterable[str]) -> Survey:
    """What the numbers among these texts say."""
    result = Survey()
    only: set[str] = set()
    separators: set[str] = set()
    forms: set[str] = set()
    zero_ends = long_whole = False
    for text in texts:
        if len(text) > LONGEST:
            continue
        number, unit, scale = _split(text)
        match = _FORM.fullmatch(number)
        form = None if match is None else match.lastgroup
        if form is None:
            continue
        result.units[unit] += 1
        result.scaled |= scale != ""
        result.n_numbers += 1
        if text[0] in "(\u2212" or text[-1] == "-":
            result.negative = {"(": PARENTHESES, "\u2212": MINUS_SIGN}.get(text[0], MINUS_BEHIND)
        forms.add(form)
        zero_ends |= form in _EITHER and number.endswith("0")
        long_whole |= form == "whole" and len(number.lstrip("+-0")) > 3
        only |= {mark for mark, forms in _ONLY.items() if form in forms}
        if form == "comma_group" or (form in _EITHER and result.either is None):
            result.either = text
        if form.startswith("blanks"):
            separators.add(next(c for c in number if not c.isdigit() and c not in "+-"))
        elif form in _SEPARATORS:
            separators.add(_SEPARATORS[form])
    if not only and len(forms & _EITHER) == 1:
        mark = "." if "point_group" in forms else ","
        if long_whole:  # thousands have no separator
            only.add(mark)
        elif zero_ends and "whole" in forms:  # decimals would keep their zeros, or lose them
            only.add(OTHER[mark])
    result.only, result.separators = frozenset(only), frozenset(separators)
    return result


def only_groups(text: str) -> bool:
    """Whether a number with a point may also be a group of thousands, as `4.450`."""
    match = _FORM.fullmatch(text)
    return match is not None and match.lastgroup == "point_group"


def is_number(text: str) -> bool:
    """Whether a text is a finite number in some style, with a usual currency or % at most."""
    if len(text) > LONGEST:
        return False
    number, unit, scale = _split(text)
    if scale or not is_sure(unit) or _FORM.fullmatch(number) is None:
        return False
    return number.isdecimal() or readings(text) != (None, None)


def is_sure(unit: str) -> bool:
    """Whether what has this unit can only be a number."""
    return not unit or unit in _CURRENCIES


def is_measure(unit: str) -> bool:
    """Whether a unit is a usual one."""
    return is_sure(unit) or _MEASURE.fullmatch(unit) is not None


def has_number(text: str) -> bool:
    """Whether a text is a number with whatever unit."""
    return len(text) <= LONGEST and _FORM.fullmatch(_split(text)[0]) is not None


def readings(text: str) -> tuple[float | None, float | None]:
    """The number with a decimal point, and with a decimal comma."""
    _, unit, scale = _split(text)
    point, comma = (NumberStyle(mark, unit, scaled=scale != "").value(text) for mark in ".,")
    return point, comma


def _split(text: str) -> tuple[str, str, str]:
    """A cell without its unit, the unit in singular, and K, M or B."""
    if text[-1:].isdecimal() and text[0] in "0123456789.,":
        return text if text.isascii() else text.translate(_WIDE), "", ""
    if not text.isascii():
        text = text.translate(_WIDE)
    if text[:1] == "(" and text[-1:] == ")":
        text = f"-{text[1:-1]}"
    elif text[:1] == "\u2212":
        text = f"-{text[1:]}"
    elif text[-1:] == "-" and text[:1].isdecimal():
        text = f"-{text[:-1]}"
    match = _UNIT.fullmatch(text)
    if match is None:
        return text, "", ""
    before, after = match["before"] or "", match["after"] or ""
    scale = after if after in SCALES else ""
    if before and after and not scale:
        return text, "", ""
    unit = before if scale else before or after
    if len(unit) >= _SHORTEST_PLURAL and unit.endswith("s"):
        unit = unit[:-1]
    return match["sign"] + match["number"], unit, scale
