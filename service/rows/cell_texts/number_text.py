"""What text counts as a number, in uploads and predictions alike, and what to say of text that only
looks like one."""

from __future__ import annotations

import re

NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
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


def plain_text(text: str) -> str:
    """A text without blanks, or without Excel's `="…"`, around it."""
    text = text.strip(BLANKS)
    return EXCEL_TEXT.sub(r"\1", text) if text[:1] == "=" else text


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
