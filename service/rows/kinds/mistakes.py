"""Columns of numbers or dates with few other cells: mistakes, not levels of a category."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite

from service.rows.cell_texts import dates
from service.rows.cell_texts.number_styles import has_number, is_measure, is_number, survey
from service.rows.cell_texts.number_text import BOOLEANS, NUMBER, is_not_finite
from service.rows.kinds.decisions import Question, Warned
from service.rows.kinds.gathering import TextColumn, Words

FEW = 0.05
"""A smaller share of other cells, or a single one, is taken for mistakes."""
FEW_OF_MEASUREMENTS = 0.2
"""The same among more different numbers than `MOST_CODES`, which are hardly levels."""
MOST_CODES = 20


SHARE_OF_ODD, MOST_ODD = 0.01, 10
"""Of the cells of a column, or a single one; and different words."""
_LIKE_NUMBERS = re.compile(r"[+-]?[0-9(][0-9.,:;/'\u2019\s_()\u2013-]*")
"""Digits and separators: another style, a range, a date or a time."""
_MOST_LOOKED_AT = 200
_NEARLY_DATES = re.compile(r"[^\W\d_]{3,9}\.?[ '/-]+[0-9]{2}")
_FEET = re.compile(r"[0-9]+ ?(?:'|ft) ?[0-9]+ ?(?:\"|'')?")


def odd_words(
    texts: Mapping[str, int], n_cells: int, kind: str, question: Question
) -> dict[str, int]:
    """The words that are missing cells of a column: these texts, if they are few, and each of
    them is neither a value in another form nor one that is wrong; else none."""
    n_odd = sum(texts.values())
    few = len(texts) <= MOST_ODD and n_odd <= max(1, SHARE_OF_ODD * n_cells) and n_odd < n_cells / 2
    if not question.odd or not few:
        return {}
    return {} if any(_may_be_value(text, kind) for text in texts) else dict(texts)


def _may_be_value(text: str, kind: str) -> bool:
    if not text or _LIKE_NUMBERS.fullmatch(text) or dates.any_form(text) or is_beyond(text):
        return True
    return has_number(text) if kind == "number" else any(map(str.isdecimal, text))


def nearly_read(column: TextColumn, words: Words) -> Warned | None:
    """What to say of a category whose cells are nearly numbers or dates."""
    texts = [text for text in column.texts if text not in words][:_MOST_LOOKED_AT]
    others = [text for text in texts if not has_number(text)]
    units = survey(texts).units
    message = None
    if len(units) > 1 and not others and all(map(is_measure, units)):
        different = " and ".join(unit or "none" for unit, _ in units.most_common(2))
        message = f"its cells are numbers with different units, such as {different}: use one unit"
    elif texts and all(map(_FEET.fullmatch, texts)):
        message = f"cells such as {texts[0]!r} are nearly numbers: write one number"
    elif others and 2 * len(others) < len(texts) and len(texts) > MOST_CODES:
        message = f"most cells are numbers, but not {others[0][:32]!r}"
        message += ": name words for missing cells in `missing`, and it is a number"
    if message is not None:
        return Warned("nearly-read", message)
    some = [text for text in texts if dates.any_form(text)]
    if 2 * len(some) > len(texts):
        other = next(text for text in [*texts, ""] if text not in some)
        message = f"most cells are dates such as {some[0]!r}, but not {other[:32]!r}"
    elif texts and all(map(_NEARLY_DATES.fullmatch, texts)):
        message = f"cells such as {texts[0]!r} are nearly dates: write years with four digits"
    return None if message is None else Warned("undecided-dates", message)


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
