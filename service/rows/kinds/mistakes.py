"""Columns of numbers or dates with few other cells: mistakes, not levels of a category."""

from __future__ import annotations

from math import isfinite

from service.rows.cell_texts import dates
from service.rows.cell_texts.number_styles import is_number
from service.rows.cell_texts.number_text import BOOLEANS, NUMBER, is_not_finite
from service.rows.kinds.gathering import TextColumn, Words

FEW = 0.05
"""A smaller share of other cells, or a single one, is taken for mistakes."""
FEW_OF_MEASUREMENTS = 0.2
"""The same among more different numbers than `MOST_CODES`, which are hardly levels."""
MOST_CODES = 20


def boolean(text: str) -> float | None:
    """1 or 0, if the text is a word or a number for a boolean."""
    value = BOOLEANS.get(text)
    if value is None and NUMBER.fullmatch(text) and float(text) in (0.0, 1.0):
        return float(text)
    return value


def is_beyond(text: str) -> bool:
    """Whether a text is written as a number that is not finite: `inf`, `1e999`."""
    if is_not_finite(text):
        return True
    return NUMBER.fullmatch(text) is not None and not isfinite(float(text))


def mostly_numbers(column: TextColumn, words: Words) -> bool:
    """Whether the cells are numbers or booleans, but for few of them.

    Numbers that are not finite count on neither side: they are wrong, but they are numbers.
    """
    good = n_bad = n_different = 0
    for text, count in zip(column.texts, column.counts, strict=True):
        if text in BOOLEANS or is_number(text):
            good += count
            n_different += 1
        elif text not in words and not is_beyond(text):
            n_bad += count
    few = FEW_OF_MEASUREMENTS if n_different > MOST_CODES else FEW
    return good > 0 and n_bad <= max(1, few * (good + n_bad))


def mostly_dates(column: TextColumn, words: Words, *, iso_only: bool) -> str | None:
    """The form in which the cells are dates, but for few of them."""
    pairs = zip(column.texts, column.counts, strict=True)
    cells = [(text, count) for text, count in pairs if text not in words]
    total = sum(count for _, count in cells)
    most = min(max(1, FEW * total), (total - 1) / 2)
    for form in [dates.ISO] if iso_only else dates.FORMS:
        n_bad = 0
        for text, count in cells:
            if dates.days(text, form) is None:
                n_bad += count
                if n_bad > most:
                    break
        else:
            return form
    return None
