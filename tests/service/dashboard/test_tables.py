"""Pages of tables with categories, dates, booleans and missing cells, without scripts."""

from __future__ import annotations

import re

import pytest

from service.jobs.engine.worker_process import Worker
from tests.service.dashboard.browser import Browser

pytestmark = pytest.mark.one_application

PEOPLE = "sex,age,member,born,survived\n" + "".join(
    f"{'male' if i % 3 else 'female'},{'' if i % 7 == 0 else 20 + i % 40},"
    f"{'true' if i % 2 else 'false'},19{50 + i % 40}-0{1 + i % 9}-11,{'no' if i % 3 else 'yes'}\n"
    for i in range(60)
)


def _upload(browser: Browser, text: str) -> None:
    browser.go("/")
    browser.send("/datasets", files={"file": ("people.csv", text, "text/csv")})


def test_row_of_a_table_is_predicted_by_lists_and_dates(browser: Browser, worker: Worker) -> None:
    """Levels and booleans are offered, dates have their input, empty ones are missing."""
    _upload(browser, PEOPLE)
    browser.go("/train")
    browser.send("/train", solver="newton", model_name="people")
    assert worker.take_next_job()
    browser.go("/models/people")
    form = browser.page.form("/models/people/versions/1/predict")
    assert form.choices["x0"] == {"", "female", "male"}
    assert form.choices["x2"] == {"", "true", "false"}
    assert form.fields["x0"] == ["male"]  # the most frequent
    assert re.fullmatch("19[0-9]{2}-[0-9]{2}-[0-9]{2}", form.fields["x3"][0])
    assert '<input id="x3" name="x3" type="date"' in browser.page.html
    assert re.search("age: [0-9] missing cells? filled with the median", browser.page.text)
    for sex, age, label in (("female", "", "yes"), ("male", "31.5", "no")):
        browser.go("/models/people")
        browser.send("/models/people/versions/1/predict", x0=sex, x1=age, x3="")
        assert f'<p class="label">{label}</p>' in browser.page.html, browser.page.text
    browser.send("/models/people/versions/1/predict", x1="old")
    assert browser.page.status == 422
    assert "age" in browser.page.text
    browser.go("/models/people/versions/1/card")
    assert "sex: 2 levels" in browser.page.text
