"""Texts of one shape are read at once: each value has the bits that reading it alone gives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.rows.cell_texts.dates import FORMS, DateForm
from service.rows.cell_texts.number_styles import NumberStyle
from service.rows.cell_texts.number_text import NINES, Form
from service.rows.kinds.blocks import Cells, Coder
from service.rows.kinds.gathering import FormColumn
from svm.data.columns import Kind

NUMBERS = r"[-+(]?\$?[0-9]{1,4}([,. '][0-9]{3}){0,4}([.,][0-9]{0,9})?( ?km|K|M|%|\))?"
ZONES = ["", "Z", " UTC", "+02", "-0730", "+23:59", "+24:00", "+00:60"]
STYLES = [
    NumberStyle(mark, unit, scaled=unit == "$") for mark in ".," for unit in ("", "$", "km", "%")
]


def read_at_once(form: Form, kind: Kind, texts: Sequence[str]) -> tuple[FormColumn, list[float]]:
    """The column after these cells, and their values."""
    column = FormColumn(frozenset({"", "NA", "-999"}), form, kind, {})
    cells = Cells.of("".join(f"{text};x\n" for text in texts), ";", 2)
    assert cells is not None
    codes = Coder([column.shapes]).codes(cells.shapes, [0], [0])[:, 0]
    values = column.take_shapes(cells.data, cells.starts[:, 0], cells.lengths[:, 0], codes)
    return column, values.tolist()


def check(form: Form, kind: Kind, texts: Sequence[str]) -> None:
    column, values = read_at_once(form, kind, texts)
    one_by_one = FormColumn(column.words, form, kind, {})
    expected = one_by_one.add(texts)
    assert np.array(values).tobytes() == expected.tobytes()
    names = ["n_values", "n_missing", "missing_words", "exceptions"]
    for name in names + ["padded"] * (kind == "number"):
        assert getattr(column, name) == getattr(one_by_one, name)


def texts_of_dates(form: str) -> st.SearchStrategy[str]:
    """Texts that match the form, right and wrong ones."""
    texts = st.from_regex(FORMS[form], fullmatch=True)
    return texts.filter(lambda text: {";", "\n", "\r"}.isdisjoint(text))


@pytest.mark.spread(2)
@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_dates_of_every_form(form: str, data: st.DataObject) -> None:
    """Also those that do not exist, such as 31 February."""
    check(DateForm(form), "date", data.draw(st.lists(texts_of_dates(form), min_size=1, max_size=8)))


def moments() -> Iterator[datetime]:
    random = np.random.default_rng(0)
    for seconds in random.integers(-62_000_000_000, 250_000_000_000, 20_000).tolist():
        yield datetime(1970, 1, 1) + timedelta(seconds=seconds, microseconds=seconds % 999_983)


def test_many_moments() -> None:
    """All centuries, with fractions of seconds and zones."""
    texts = [f"{moment:%Y-%m-%d %H:%M:%S}.{moment:%f}" for moment in moments() if moment.year > 999]
    zoned = [text[: 19 + i % 8] + ZONES[i % len(ZONES)] for i, text in enumerate(texts)]
    check(DateForm("YYYY-MM-DD"), "date", [text.removesuffix(".") for text in zoned])


def test_every_day_of_some_centuries() -> None:
    days = [f"{date(1890, 1, 1) + timedelta(days=i):%d.%m.%Y}" for i in range(90_000)]
    days += [day.replace("28.02", "29.02") for day in days if day.startswith("28.02")]
    check(DateForm("DD.MM.YYYY"), "date", days)


def test_zone_of_python_is_that_of_the_shape() -> None:
    moment = datetime(2024, 3, 1, 0, 30, tzinfo=timezone(timedelta(hours=-9, minutes=-30)))
    _, [value] = read_at_once(DateForm("YYYY-MM-DD"), "date", [str(moment)])
    assert value == (moment.timestamp()) / 86_400


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(STYLES),
    st.lists(st.from_regex(NUMBERS, fullmatch=True), min_size=1, max_size=9),
)
def test_numbers_of_every_style(style: NumberStyle, texts: list[str]) -> None:
    """Up to the digits of float64, and beyond."""
    check(style, "number", texts)


def test_words_among_numbers() -> None:
    """Words for missing cells have shapes, too."""
    texts = ["$1", "NA", "$2.50", "-999", "true", " $7 ", "oops", "$0012", "-998", "$1,000"]
    column, values = read_at_once(NumberStyle(unit="$"), "number", texts)
    assert values[0] == 1.0
    assert values[-1] == 1000.0
    assert column.missing_words == {"NA", "-999"}
    assert set(column.exceptions) == {"oops", "-998"}
    assert list(column.shapes)[:3] == ["$9", "NA", "$2.50".translate(NINES)]
