"""How the numbers of a column are written: decimal mark, separators of thousands, unit.

A cell such as `1.234` has two readings. What the other cells of its column, else of its file, can
only be decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

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
_UNIT = re.compile(
    r"(?P<sign>[+-]?)(?:(?P<before>US\$|[€$£¥]|USD|EUR|GBP|CHF)\s?)?(?P<number>[0-9+\-.,].*?)"
    r"(?:\s?(?P<after>%|[€$£¥]|USD|EUR|GBP|CHF))?"
)
_ONLY = {
    ".": frozenset({"point", "comma_groups", "groups_point", "blanks_point"}),
    ",": frozenset({"comma", "point_groups", "groups_comma", "blanks_comma"}),
}
_EITHER = frozenset({"point_group", "comma_group"})
_NEITHER = frozenset({"whole", "blanks"})
_SEPARATORS = {
    "point_group": ".",
    "comma_group": ",",
    "point_groups": ".",
    "groups_comma": ".",
    "comma_groups": ",",
    "groups_point": ",",
}
OTHER = {".": ",", ",": "."}
PARENTHESES, MINUS_SIGN = "(1)", "\u22121"
"""Ways to write -1, besides the usual one: of accounts, and with the minus sign of texts."""
LONGEST = 64
"""Characters of a number that is not plain."""


@dataclass(frozen=True, slots=True)
class NumberStyle:
    """How to read the numbers of a column."""

    decimal: str = "."
    unit: str = ""
    """A currency or a percent sign that every cell has."""
    grouped: bool = True
    """Whether thousands may be separated."""

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
        number, unit = _split(text)
        if unit != self.unit or len(text) > LONGEST:
            return None
        match = _FORM.fullmatch(number)
        form = None if match is None else match.lastgroup
        if form is None or form in _ONLY[OTHER[self.decimal]]:
            return None
        mark = OTHER[self.decimal]
        separated = form.startswith("blanks") or mark in number
        if separated and not self.grouped:
            return None
        if separated:
            number = re.sub(rf"[ '\u2019\u00a0\u202f{mark}]", "", number)
        value = float(number.replace(self.decimal, "."))
        return value if isfinite(value) else None


PLAIN = NumberStyle()


@dataclass(slots=True)
class Survey:
    """What the texts of a column say of its style."""

    only: frozenset[str] = frozenset()
    """Decimal marks without which some cell is not a number."""
    either: str | None = None
    """A cell that is a number with either mark, but another one."""
    unit: str = ""
    mixed: bool = False
    """Whether some numbers have another unit than others, or none."""
    separators: frozenset[str] = frozenset()
    """Marks that stand between groups of three, if they are not the decimal mark."""
    negative: str = ""
    """How negative numbers are written, if not with a hyphen."""

    n_numbers: int = 0
    """How many of the texts are numbers in some style."""

    @property
    def decided(self) -> str | None:
        return next(iter(self.only)) if len(self.only) == 1 else None


def survey(texts: Iterable[str]) -> Survey:
    """What the numbers among these texts say."""
    result = Survey()
    only: set[str] = set()
    separators: set[str] = set()
    units: set[str] = set()
    forms: set[str] = set()
    zero_ends = long_whole = False
    for text in texts:
        if len(text) > LONGEST:
            continue
        number, unit = _split(text)
        match = _FORM.fullmatch(number)
        form = None if match is None else match.lastgroup
        if form is None:
            continue
        units.add(unit)
        result.n_numbers += 1
        if text[0] in "(\u2212":
            result.negative = PARENTHESES if text[0] == "(" else MINUS_SIGN
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
    result.mixed = len(units) > 1
    result.unit = "" if result.mixed else "".join(units)
    return result


def only_groups(text: str) -> bool:
    """Whether a number with a point may also be a group of thousands, as `4.450`."""
    match = _FORM.fullmatch(text)
    return match is not None and match.lastgroup == "point_group"


def is_number(text: str) -> bool:
    """Whether a text is a finite number in some style."""
    number, _ = _split(text)
    if len(text) > LONGEST or _FORM.fullmatch(number) is None:
        return False
    return number.isdecimal() or readings(text) != (None, None)


def readings(text: str) -> tuple[float | None, float | None]:
    """The number with a decimal point, and with a decimal comma."""
    _, unit = _split(text)
    point, comma = (NumberStyle(mark, unit).value(text) for mark in ".,")
    return point, comma


def _split(text: str) -> tuple[str, str]:
    """A cell without its unit, and the unit."""
    if text[-1:].isdigit() and text[0] in "0123456789.,":
        return text, ""
    if text[:1] == "(" and text[-1:] == ")":
        text = f"-{text[1:-1]}"
    elif text[:1] == "\u2212":
        text = f"-{text[1:]}"
    match = _UNIT.fullmatch(text)
    if match is None:
        return text, ""
    before, after = match["before"], match["after"]
    if before and after:
        return text, ""
    return match["sign"] + match["number"], before or after or ""
