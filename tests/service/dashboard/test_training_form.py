"""The training form: what a person knows becomes a request, with suggestions from the data."""

from __future__ import annotations

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.dashboard.schema_forms import Variants, body_of
from service.dashboard.training_pages import OF_OTHER_TARGETS, entries_like, job_fields
from tests.service.dashboard.browser import Browser
from tests.service.jobs.data import csv_of

pytestmark = pytest.mark.one_application


def _latest(client: TestClient) -> dict[str, Any]:
    """The request of the job that was queued last, with all defaults."""
    reply: dict[str, Any] = client.get("/v1/jobs").json()["jobs"][0]["spec"]
    return reply


@pytest.mark.parametrize("sample", ["iris", "moons"])
def test_form_as_it_begins_is_the_default_of_the_api(
    browser: Browser, client: TestClient, sample: str
) -> None:
    """The same request, and so the same model."""
    browser.send(f"/samples/{sample}")
    browser.follow("Train a model")
    browser.send("/train", model_name="same", seed="3")
    sent = _latest(client)
    body = {"dataset_id": "latest", "model_name": "same", "seed": 3}
    assert client.post("/v1/jobs", json=body).status_code == 202
    assert sent == _latest(client)
    assert (sent["solver"]["name"], sent["solver"]["effort"]) == ("auto", "balanced")


@pytest.mark.parametrize(
    "given",
    [
        {"name": "auto", "effort": "thorough"},
        {"name": "auto", "C": 3, "intercept": "free"},
        {"name": "auto", "lambda": 0.5},
        {"name": "smo", "C": 7, "kernel": {"name": "gaussian", "gamma": 0.5}},
    ],
)
def test_settings_of_before_are_shown(given: dict[str, Any]) -> None:
    """Train with changes begins with the answers that were given."""
    entries = entries_like({"solver": given, "model_name": "m", "seed": 5})
    body = body_of(job_fields(), entries)
    assert {name: body["solver"][name] for name in given} == given
    assert (body["seed"], "C" in body["solver"]) == (5, "C" in given)


def test_suggestions_have_reasons(browser: Browser) -> None:
    """From the deviations of the columns and the counts of the classes."""
    rows = "".join(
        f"{i % 2},{i % 2 * 1000},{'rare' if i % 10 == 0 else 'often'}\n" for i in range(300)
    )
    browser.send("/datasets", files={"file": ("few.csv", "a,b,kind\n" + rows, "text/csv")})
    browser.follow("Train a model")
    assert "one column varies 1,000 times as much as another." in browser.page.text
    assert "The smallest class has 10.0 % of the rows." in browser.page.text
    assert "Predict kind classification: 2 classes" in browser.page.text
    fields = browser.page.form("/train").fields
    assert fields["scaling"] == [""]
    assert fields["validation"] == [""]
    solvers = next(field for field in job_fields() if field.name == "solver")
    assert isinstance(solvers, Variants)
    shown = re.findall('type="radio" name="solver" value="([^"]+)"', browser.page.html)
    assert shown == sorted((one.value for one in solvers.options), key=lambda one: one != "auto")


def test_sparse_data_keep_their_zeros(browser: Browser) -> None:
    """Columns that are alike stay as they are."""
    browser.send("/datasets", files={"file": ("few.libsvm", b"1 1:1\n-1 900:1\n" * 200)})
    browser.follow("Train a model")
    assert "None here" in browser.page.text
    assert browser.page.form("/train").fields["scaling"] == [""]


def test_many_classes_are_suggested_one_against_the_rest(browser: Browser) -> None:
    """Of pairs there would be too many, so that the form would be refused."""
    rows = "".join(f"{i},{i % 7},n{i % 101}\n" for i in range(404))
    browser.send("/datasets", files={"file": ("many.csv", f"a,b,label\n{rows}".encode())})
    browser.follow("Train a model")
    assert "101 classes, each against the rest" in browser.page.text
    assert browser.page.form("/train").fields["multiclass"] == ["one-vs-rest"]


def test_expert_settings_are_folded_unless_used(browser: Browser) -> None:
    """The fold is open if one of them is not as it begins, or wrong."""
    browser.send("/samples/iris")
    folded = '<details class="fine"><summary>Expert'
    browser.go("/train")
    assert folded in browser.page.html
    wrong: dict[str, Any] = {"solver:auto.C": "wrong"}
    browser.send("/train", **wrong)
    assert folded in browser.page.html
    browser.go("/train")
    wrong = {"solver:auto.epsilon": "wrong"}
    browser.send("/train", **wrong)
    assert "<details open><summary>More settings" in browser.page.html
    browser.go("/train")
    assert "<details open>" not in browser.page.html
    browser.send("/train", priority="high")
    assert browser.page.status == 422
    assert '<details class="fine" open><summary>Expert' in browser.page.html
    browser.go("/train")
    browser.send("/train", model_name="Wrong", multiclass="one-vs-rest")
    assert '<details class="fine" open><summary>Expert' in browser.page.html


def test_scripts_get_the_cost_of_every_change(browser: Browser, client: TestClient) -> None:
    """As a page that is not an error, also if the settings are."""
    _ = browser.send("/datasets", files={"file": ("a.csv", csv_of(n_samples=80), "text/csv")})
    browser.go("/train")
    assert "About 1 s, at most" in browser.page.text
    entries = {name: values[-1] for name, values in browser.page.form("/train").fields.items()}
    headers = {"HX-Request": "true"}
    reply = client.post("/train/check", data=entries | {"validation": "folds"}, headers=headers)
    assert "in each of 7 trainings" in reply.text
    reply = client.post("/train/check", data=entries | {"solver": "pegasos"}, headers=headers)
    assert "About" not in reply.text  # its time depends on more than the size of the data
    assert "At most" in reply.text
    reply = client.post("/train/check", data=entries | {"solver:auto.C": "-1"}, headers=headers)
    assert reply.status_code == 200
    assert "hx-retarget" not in reply.headers
    assert '<p class="fault">' in reply.text.partition('id="cost"')[2]


def test_every_field_is_shown_once(browser: Browser) -> None:
    """Those of the questions are not repeated for experts."""
    browser.send("/samples/iris")
    browser.go("/train")
    names = {field.name for field in job_fields()} - OF_OTHER_TARGETS["classes"]
    form = browser.page.form("/train")
    assert names <= {name.partition(".")[0] for name in {*form.fields, *form.choices}}
    entries = {name: values[-1] for name, values in form.fields.items()}
    assert "validation" not in body_of(job_fields(), entries)
