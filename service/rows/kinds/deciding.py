"""What a column is: a proposal from all of its cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from math import isfinite, nan
from typing import Any

import numpy as np

from service.rows.cell_texts import dates
from service.rows.cell_texts.number_styles import (
    NumberStyle,
    has_number,
    is_measure,
    is_number,
    readings,
    survey,
)
from service.rows.cell_texts.number_text import (
    BOOLEANS,
    MAX_LEVELS,
    MISSING_TEXTS,
    MISSING_VALUES,
    NUMBER,
    Form,
    is_not_finite,
    separator_of_lists,
    similar,
    values_of,
)
from service.rows.kinds.feature import (
    Again,
    Ambiguous,
    Decision,
    Gatherer,
    Ignored,
    Kept,
    Question,
    Warned,
    Wrong,
)
from service.rows.kinds.free_texts import SENTENCE, FreeTexts, are_sentences, offer_of_text
from service.rows.kinds.gathering import (
    MOST_LABELS,
    NO_WORDS,
    PLACEHOLDER,
    FewValues,
    FormColumn,
    TextColumn,
    TypedTexts,
    TypedValues,
    ValueColumn,
    Words,
    is_padded,
)
from svm.data.columns import Kind, in_order

MIN_ROWS_OF_IDENTIFIERS = 10
DECIMAL_HINT = "say decimal=. (a point) or decimal=, (a comma)"
DATE_HINT = "write the dates as YYYY-MM-DD, or say in `schema` that the column is a category"
LONG = 24
"""Characters of texts, on average, that are rather sentences than names of levels."""
ROWS_OF_PHRASE = 10
"""Levels that are phrases have more rows on average."""
_TOO_MANY = f"free text: more than {MAX_LEVELS:,} different texts"
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
MOST_READ = 1000
"""Texts that say whether a column has sentences."""
_NEARLY_DATES = re.compile(r"[^\W\d_]{3,9}\.?[ '/-]+[0-9]{2}")
_FEET = re.compile(r"[0-9]+ ?(?:'|ft) ?[0-9]+ ?(?:\"|'')?")


def decide(column: Gatherer, question: Question) -> Decision:
    """The kind of a column, or what to do to find it."""
    decision = _decide(column, question)
    if isinstance(decision, Ignored) and question.wanted and decision.kind is not None:
        return _decide(column, replace(question, kind=decision.kind))
    return decision


def free_texts(question: Question, *, typed: bool) -> FreeTexts:
    """What reads a column as texts."""
    words = NO_WORDS if typed else question.asked | {PLACEHOLDER}
    return FreeTexts(words, question.spec.limits.text_bytes, typed=typed)


def _decide(column: Gatherer, question: Question) -> Decision:
    if isinstance(column, FreeTexts):
        return _decide_free(column, question)
    if isinstance(column, TypedValues):
        return _decide_typed(column, question)
    if isinstance(column, ValueColumn):
        return _decide_values(column, question)
    if isinstance(column, TypedTexts) and column.n_wrong:
        there = sum(n for text, n in zip(column.texts, column.counts, strict=True) if text)
        if question.kind is None and 2 * column.n_wrong > there:
            return Again(lambda: TypedValues("number"))  # the first cell was the mistake
        return Wrong(None, question.kind or "text")
    return _decide_texts(column, question)


def _decide_free(column: FreeTexts, question: Question) -> Decision:
    if column.n_wrong:
        return Wrong(None, "text")
    message = "a column of texts: its words become features; if they are levels, say in `schema` "
    message += "that it is a category"
    return Kept(
        kind="text",
        missing=column.n_missing,
        missing_words=frozenset(column.missing_words),
        notes=_odd_notes(question.asked & MISSING_VALUES),
        warnings=[] if question.kind else [Warned("text-column", message)],
    )


def _decide_typed(column: TypedValues, question: Question) -> Decision:
    if question.kind is None and not column.n_values:
        if not column.exceptions:
            return Ignored("empty: every cell is missing")
        if column.kind is None and any(column.exceptions):  # texts, far below empty cells
            return Again(TypedTexts)
    kind = question.kind or ("number" if column.n_values > column.n_booleans else "boolean")
    odd = odd_words(column.exceptions, column.n_cells, kind, question)
    if column.exceptions and not odd:
        return Wrong(None, question.kind or "number")
    return _kept_values(column, kind, {}, odd)


def _decide_values(column: ValueColumn, question: Question) -> Decision:
    again = Again(TypedTexts if column.typed else partial(TextColumn, column.words))
    form = column if isinstance(column, FormColumn) else None
    kind: Kind = "number" if form is None else form.kind
    notes = {} if form is None else form.notes
    odd = odd_words(column.exceptions, column.n_cells, kind, question)
    if column.exceptions and not odd:
        if form is None:
            texts = {t: n for t, n in column.exceptions.items() if not is_beyond(t)}
            bad = sum(texts.values())
            few = bad <= max(1, FEW * (column.n_values + bad))
            if not (few and all(readings(text) == (None, None) for text in texts)):
                return again
        return again if form is not None and form.tentative else Wrong(None, kind)
    if form is None:
        if column.n_values == column.n_booleans and question.kind != "number":
            return again
        comma = question.decimal == "," or (question.decimal is None and question.comma_likely)
        if column.group is not None and comma:
            return again
        if question.decimal == "," and column.pointed and question.kind == "number":
            return again
    elif form.tentative and isinstance(form.form, NumberStyle):
        surveyed = survey(text for text in form.examples if text not in column.words)
        style = question.style(surveyed)
        if not form.readable or style != form.form or surveyed.either is not None:
            return again
        notes = surveyed.notes(style)
    return _kept_values(column, kind, notes, odd)


def _kept_values(
    column: ValueColumn, kind: Kind, notes: dict[str, Any], odd: Mapping[str, int]
) -> Kept:
    return Kept(
        kind=kind,
        missing=column.n_missing + sum(odd.values()),
        missing_words=frozenset(column.missing_words & column.words),
        notes=notes | _odd_notes(odd),
        n_labels=None if kind == "date" else column.few.count,
        warnings=value_warnings(kind, notes, odd, column.padded),
    )


def _decide_texts(column: TextColumn, question: Question) -> Decision:
    texts, counts = column.texts, column.counts
    if question.kind == "category":
        return _category(column, question)
    there = [text for text in texts if text not in column.words]
    if question.kind is None and column.n_excel_texts == len(there) > 0:
        return _category(column, question)
    if not there:
        return _without_values(column, question)
    if question.kind == "boolean":
        bad = frozenset(text for text in there if boolean(text) is None)
        return Wrong(bad, "boolean") if bad else _coded(column, question, "boolean", boolean)
    as_number = question.kind in (None, "number") and not column.typed
    if as_number and question.kind is None and all(text in BOOLEANS for text in there):
        return _coded(column, question, "boolean", BOOLEANS.get)
    if as_number:
        decision = _numbers(column, question, there)
        if decision is not None:
            return decision
    if question.kind in (None, "date"):
        decision = _dates(column, question, there)
        if decision is not None:
            return decision
    if question.kind is not None:
        numbers = NumberStyle(question.decimal or ".")
        bad = frozenset(t for t in there if numbers.value(t) is None and t not in BOOLEANS)
        return Wrong(bad, question.kind)
    missing = _missing_texts(column, question)
    n_there = sum(n for text, n in zip(texts, counts, strict=True) if text not in missing)
    return _text(column, question, n_there)


def _numbers(column: TextColumn, question: Question, there: list[str]) -> Decision | None:
    """The decision for a column of numbers, maybe with mistakes; None for another one."""
    surveyed = survey(there)
    sure = question.kind is not None or mostly_numbers(column)
    if not sure and (surveyed.mixed or 2 * surveyed.n_numbers < len(there)):
        return _times(column, question, there)
    style = question.style(surveyed)
    if style is None:
        assert surveyed.either is not None
        point, comma = readings(surveyed.either)
        return Ambiguous(surveyed.either, f"{point:g} or {comma:g}", DECIMAL_HINT)

    def value(text: str) -> float | None:
        return BOOLEANS[text] if text in BOOLEANS else style.value(text)

    bad = frozenset(text for text in there if value(text) is None)
    odd = odd_words(column.counted(bad), column.n_cells, "number", question)
    if bad and not odd:
        if not sure:
            return _times(column, question, there)
        if question.fixed and surveyed.n_numbers == len(there):
            return Wrong(bad)
        other_units = surveyed.mixed and all(map(has_number, bad))
        return None if column.overflowed else Wrong(bad, other_units=other_units)
    notes = surveyed.notes(style)
    if column.overflowed and style.plain and not notes and not question.tried_plain:
        return Again(lambda: ValueColumn(column.words))
    words = question.kind is None and all(text in BOOLEANS for text in there if text not in odd)
    kind: Kind = "boolean" if words else "number"
    return _coded(column, question, kind, value, notes, form=style, odd=odd)


def _times(column: TextColumn, question: Question, there: list[str]) -> Decision | None:
    """The decision for a column of times of day or durations; None for another one."""
    form = None if question.kind is not None else dates.time_form_of(there)
    if form is None:
        return None
    one = dates.TimeForm(form)
    return _coded(column, question, "number", one.value, {"times": form}, form=one)


def _dates(column: TextColumn, question: Question, there: list[str]) -> Decision | None:
    """The decision for a column of dates, maybe with mistakes; None for another one."""
    forms = dates.forms_of(there, question.spec.asked.dayfirst)
    if column.typed:
        forms = [form for form in forms if form == dates.ISO]
    if len(forms) == 1:
        return _in_form(column, question, forms[0])
    if question.kind == "date" and forms:
        return Ambiguous(there[0], " or ".join(forms), DATE_HINT, "not-a-date")
    if forms:
        return _category(column, question, undecided(f"that may be {' or '.join(forms)}"))
    form = mostly_dates(column)
    if form is not None:
        bad = frozenset(text for text in there if dates.days(text, form) is None)
        odd = odd_words(column.counted(bad), column.n_cells, "date", question)
        if odd or column.overflowed:
            return _in_form(column, question, form, odd)
        if question.kind != "date":
            return Wrong(bad, "date")
    if question.kind == "date":
        return Wrong(frozenset(text for text in there if dates.days(text) is None), "date")
    if not column.overflowed and all(map(dates.any_form, there)):
        return _category(column, question, undecided("in several forms"))
    return None


def _in_form(
    column: TextColumn, question: Question, name: str, odd: Mapping[str, int] | None = None
) -> Decision:
    notes = {} if name == dates.ISO else {"dates": name}
    form = dates.DateForm(name)
    return _coded(column, question, "date", form.value, notes, form=form, odd=odd or {})


def _coded(
    column: TextColumn,
    question: Question,
    kind: Kind,
    value: Callable[[str], float | None],
    notes: dict[str, Any] | None = None,
    *,
    form: Form | None = None,
    odd: Mapping[str, int] | None = None,
) -> Decision:
    """A column of few different values; of many, it is read again as they are written."""
    notes = notes or {}
    if column.overflowed and form is not None:
        typed = column.typed
        return Again(lambda: FormColumn(column.words, form, kind, notes, typed=typed))
    texts = column.texts
    values = [None if text in column.words else value(text) for text in texts]
    missing_values = values_of(column.words, value)
    values = [None if one in missing_values else one for one in values]
    raw = np.array([nan if one is None else one for one in values], dtype=np.float64)
    missing = sum(n for one, n in zip(values, column.counts, strict=True) if one is None)
    used = frozenset(text for text in texts if text in column.words)
    few = FewValues()
    few.add(raw)
    padded = (text for text in texts if is_padded(text))
    return Kept(
        kind=kind,
        values=raw,
        missing=missing,
        missing_words=used,
        notes=notes | _odd_notes(odd or {}),
        form=form,
        n_labels=None if kind == "date" else few.count,
        warnings=value_warnings(kind, notes, odd or {}, next(padded, None)),
    )


def _odd_notes(odd: Collection[str]) -> dict[str, Any]:
    return {"odd": sorted(odd)} if odd else {}


def _without_values(column: TextColumn, question: Question) -> Decision:
    if question.kind is None:
        words = frozenset(column.texts)
        if words - _missing_texts(column, question) and len(words) > 1:  # such as None and ?
            return _category(column, question)
        return Ignored("empty: every cell is missing")
    return _coded(column, question, question.kind, lambda text: None)


def _text(column: TextColumn, question: Question, n_there: int) -> Decision:
    words = _missing_texts(column, question)
    there = {text for text in column.texts if text not in words}
    nearly = nearly_read(column, words)
    first = [text for text in column.texts if text in there][:MOST_READ]
    prose = nearly is None and are_sentences(first)
    if column.overflowed and not prose:
        more = offer_of_text(first) if nearly is None else f"; {nearly.message}"
        return Ignored(f"{_TOO_MANY}{more}", "category")
    if len(there) == 1 and n_there == sum(column.counts):
        return Ignored(f"constant: every cell is {next(iter(there))[:64]!r}", "category")
    if nearly is not None:
        return _category(column, question, nearly)
    mostly_different = 2 * len(there) > n_there
    rare = ROWS_OF_PHRASE * len(there) > n_there and not "".join(first).isupper()  # names
    many = len(there) > MOST_LABELS and (rare or sum(map(len, there)) > SENTENCE * len(there))
    if prose and (column.overflowed or mostly_different or many):
        return Again(partial(free_texts, question, typed=column.typed))
    mostly_different &= n_there >= MIN_ROWS_OF_IDENTIFIERS
    if mostly_different and len(there) == n_there:
        reason = f"an identifier or free text: every text is different{offer_of_text(first)}"
        return Ignored(reason, "category")
    if mostly_different and sum(map(len, there)) > LONG * len(there):
        reason = f"free text: most texts are different, and long{offer_of_text(first)}"
        return Ignored(reason, "category")
    warned = None
    if mostly_different:
        message = (
            f"{len(there):,} different texts, such as {min(there)[:32]!r}, in {n_there:,} rows"
        )
        advice = "if they are numbers or dates, write them plainly; if they are names, ignore it"
        offer = offer_of_text(first)
        warned = Warned("many-levels", f"{message} teach a model little; {advice}{offer}")
    return _category(column, question, warned)


def _category(column: TextColumn, question: Question, warned: Warned | None = None) -> Decision:
    words = _missing_texts(column, question)
    texts = column.texts
    there = {text for text in texts if text not in words}
    if column.overflowed or len(there) > MAX_LEVELS:
        if question.kind is None:
            return Ignored(_TOO_MANY, "category")
        return Wrong(frozenset(), "category")
    levels = in_order(there)
    place = {level: float(code) for code, level in enumerate(levels)}
    raw = np.array([place.get(text, nan) for text in texts], dtype=np.float64)
    counts = zip(texts, column.counts, strict=True)
    return Kept(
        kind="category",
        levels=levels,
        values=raw,
        missing=sum(n for text, n in counts if text in words),
        missing_words=frozenset(text for text in texts if text in words),
        # Elsewhere these are missing among values only.
        notes=_odd_notes(question.asked & MISSING_VALUES - MISSING_TEXTS),
        warnings=[warned] if warned else [*levels_warnings(levels)],
        n_labels=len(levels),
    )


def _missing_texts(column: TextColumn, question: Question) -> Words:
    """Texts that are never levels."""
    if column.typed:
        return column.words
    return MISSING_TEXTS | (column.words - MISSING_VALUES) | question.asked


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


def mostly_numbers(column: TextColumn) -> bool:
    """Whether the cells are numbers or booleans, but for few of them.

    Numbers that are not finite count on neither side: they are wrong, but they are numbers.
    """
    good = n_bad = n_different = 0
    for text, count in zip(column.texts, column.counts, strict=True):
        if text in BOOLEANS or is_number(text):
            good += count
            n_different += 1
        elif text not in column.words and not is_beyond(text):
            n_bad += count
    few = FEW_OF_MEASUREMENTS if n_different > MOST_CODES else FEW
    return good > 0 and n_bad <= max(1, few * (good + n_bad))


def mostly_dates(column: TextColumn) -> str | None:
    """The form in which the cells are dates, but for few of them."""
    pairs = zip(column.texts, column.counts, strict=True)
    cells = [(text, count) for text, count in pairs if text not in column.words]
    total = sum(count for _, count in cells)
    most = min(max(1, FEW * total), (total - 1) / 2)
    for form in [dates.ISO] if column.typed else dates.FORMS:
        n_bad = 0
        for text, count in cells:
            if dates.days(text, form) is None:
                n_bad += count
                if n_bad > most:
                    break
        else:
            return form
    return None


def value_warnings(
    kind: str, notes: Mapping[str, Any], odd: Mapping[str, int], padded: str | None
) -> list[Warned]:
    """What to say of a column of values: of words that are missing cells, units, and codes such as
    `padded`."""
    result = []
    if kind == "number" and padded is not None:
        message = f"numbers such as {padded!r} begin with 0; if they are codes, say in `schema`"
        result.append(Warned("leading-zeros", f"{message} that it is a category"))
    if odd:
        counted = ", ".join(f"{text[:32]!r} ({n} of its cells)" for text, n in odd.items())
        hint = "an upload can refuse such cells instead"
        message = f"{counted} is not a {kind}, and taken as missing; {hint}"
        result.append(Warned("odd-cells", message))
    if "scaled" in notes:
        message = "K, M and B behind a number are thousands, millions and billions"
        result.append(Warned("units", message))
    elif "unit" in notes:
        message = f"its cells are numbers with the unit {notes['unit']!r}"
        result.append(Warned("units", message))
    return result


def undecided(what: str) -> Warned:
    """What to say of dates that are kept as texts."""
    hint = "write them as ISO" + (", or say whether the day is first" if "DD" in what else "")
    return Warned("undecided-dates", f"dates {what} are a category; {hint}")


def levels_warnings(levels: list[str]) -> Iterator[Warned]:
    """What to say of levels such as `Yes` and `yes`, or of lists in cells."""
    phrases = len(levels) > MOST_LABELS and are_sentences(levels[:MOST_READ])
    if message := similar("levels", levels):
        yield Warned("similar-levels", message)
    if (mark := separator_of_lists(levels)) is not None:
        message = f"its cells are lists separated by {mark!r}, each a level of its own"
        yield Warned("lists-in-cells", f"{message}; give each element a column of its own")
    elif phrases or sum(map(len, levels)) > SENTENCE * len(levels):
        message = "its cells are sentences or phrases, each a level of its own; for their words as"
        yield Warned("many-levels", f"{message} features, say in `schema` that its kind is text")
