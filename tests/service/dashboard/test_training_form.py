"""The training form: what a person knows becomes a request, with suggestions from the data."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from service.dashboard.schema_forms import body_of
from service.dashboard.training_pages import OF_OTHER_TARGETS, body_from, entries_like, job_fields
from tests.service.dashboard.browser import Browser
from tests.service.jobs.data import csv_of

pytestmark = pytest.mark.one_application


def _latest(client: TestClient, kind: str = "jobs") -> dict[str, Any]:
    """The request of the job that was queued last, with all defaults."""
    reply: dict[str, Any] = client.get(f"/v1/{kind}").json()[kind][0]["spec"]
    return reply


@pytest.mark.parametrize(
    ("sample", "answers", "kernel"),
    [
        ("iris", {}, None),  # 150 rows are few
        ("moons", {}, "gaussian"),
        ("moons", {"boundary": "straight"}, None),
        ("iris", {"boundary": "curved"}, "gaussian"),
    ],
)
def test_boundary_becomes_a_solver(
    browser: Browser, client: TestClient, sample: str, answers: dict[str, Any], kernel: str | None
) -> None:
    """An automatic one follows from the data, and the page says why."""
    browser.send(f"/samples/{sample}")
    browser.follow("Train a model")
    reason = "Straight here: 4 columns" if sample == "iris" else "Curved here: 2 columns, 400 rows"
    assert reason in browser.page.text
    browser.send("/train", C="10", **answers)
    solver = _latest(client)["solver"]
    assert solver["name"] == "auto"
    assert (solver["kernel"] or {}).get("name") == kernel
    assert solver["C"] == 10


def test_suggestions_have_reasons(browser: Browser) -> None:
    """From the deviations of the columns and the counts of the classes."""
    rows = "".join(
        f"{i % 2},{i % 2 * 1000},{'rare' if i % 10 == 0 else 'often'}\n" for i in range(300)
    )
    browser.send("/datasets", files={"file": ("few.csv", "a,b,kind\n" + rows, "text/csv")})
    browser.follow("Train a model")
    assert "Standardize here: the columns differ 1 : 1000." in browser.page.text
    assert "The smallest class has 10.0 % of the rows." in browser.page.text
    assert "Predict kind classification: 2 classes" in browser.page.text
    fields = browser.page.form("/train").fields
    assert fields["scaling"] == [""]
    assert fields["validation"] == ["validation-split"]


def test_few_rows_a_column_suggest_a_straight_boundary(browser: Browser) -> None:
    """300 rows of 40 columns do not fill the space."""
    rows = csv_of(n_samples=300, n_features=40)
    browser.send("/datasets", files={"file": ("wide.csv", rows, "text/csv")})
    browser.follow("Train a model")
    assert "Straight here: 40 columns, 300 rows." in browser.page.text


def test_sparse_data_keep_their_zeros(browser: Browser) -> None:
    """Columns that are alike stay as they are, and the boundary is straight."""
    browser.send("/datasets", files={"file": ("few.libsvm", b"1 1:1\n-1 900:1\n" * 200)})
    browser.follow("Train a model")
    assert "None here" in browser.page.text
    assert "Straight here: 900 columns, 400 rows" in browser.page.text
    assert browser.page.form("/train").fields["scaling"] == [""]


def test_five_values_are_a_comparison(browser: Browser, client: TestClient) -> None:
    """With the other settings of the form; the best becomes a version."""
    browser.send("/samples/iris")
    browser.go("/train")
    answers: dict[str, Any] = {
        "validation": "folds",
        "model_name": "best",
        "class_weight": "balanced",
    }
    browser.send("/train", C="2", sweep="on", **answers)
    assert "Comparison" in browser.page.text, browser.page.text
    spec = _latest(client, "comparisons")
    assert spec["grid"]["C"] == [0.02, 0.2, 2, 20, 200]
    assert [solver["name"] for solver in spec["grid"]["solver"]] == ["auto"]
    assert spec["validation"] == {"folds": 5}
    assert (spec["model_name"], spec["class_weight"]) == ("best", "balanced")
    assert spec["scaling"] == "standardize"


@pytest.mark.parametrize(
    ("answers", "field"),
    [
        ({"calibration": "sigmoid"}, "calibration"),
        ({"validation": ""}, "validation"),
        ({"C": "much"}, "C"),
    ],
)
def test_what_a_comparison_cannot_have_is_marked(
    browser: Browser, client: TestClient, answers: dict[str, Any], field: str
) -> None:
    """At its field, and nothing is queued."""
    browser.send("/samples/iris")
    browser.go("/train")
    browser.send("/train", sweep="on", **answers)
    assert browser.page.status == 422
    fault = browser.page.html.partition(f'<p class="fault" id="{field}-fault">')[2]
    assert "C" in fault.partition("</p>")[0] or "check" in fault.partition("</p>")[0]
    assert client.get("/v1/jobs").json()["jobs"] == []


@pytest.mark.parametrize("boundary", ["straight", "curved"])
def test_settings_are_shown_in_the_same_words(boundary: str) -> None:
    """Train with changes begins with the answers that were given."""
    entries = {"boundary": boundary, "C": "3", "dataset_id": "latest", "model_name": "m"}
    body = body_from(entries, None)
    again = entries_like({**body, "seed": 5})
    assert {name: again[name] for name in entries} == entries
    assert again["seed"] == "5"
    assert body_from(again, None)["solver"] == body["solver"]


@pytest.mark.parametrize(
    "solver",
    [
        {"name": "auto", "C": 3, "intercept": "free"},
        {"name": "auto", "lambda": 0.5, "C": None},
        {"name": "smo", "C": 7, "kernel": {"name": "gaussian", "gamma": 0.5}},
    ],
)
def test_other_settings_are_shown_to_experts(solver: dict[str, Any]) -> None:
    """The solver is named below, with C above."""
    body = body_from(entries_like({"solver": solver, "model_name": "m"}), None)
    given = {name: value for name, value in solver.items() if value is not None}
    assert {name: body["solver"][name] for name in given} == given
    assert ("C" in body["solver"]) == ("C" in given)


def test_expert_settings_are_folded_unless_used(browser: Browser) -> None:
    """The fold is open if one of them is not as it begins, or wrong."""
    browser.send("/samples/iris")
    folded = '<details class="fine"><summary>Expert'
    browser.go("/train")
    assert folded in browser.page.html
    browser.send("/train", C="wrong")
    assert folded in browser.page.html
    browser.go("/train")
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
    reply = client.post("/train/check", data=entries | {"sweep": "on"}, headers=headers)
    assert "in each of 5 trainings" in reply.text
    reply = client.post(
        "/train/check", data=entries | {"boundary": "solver", "solver": "pegasos"}, headers=headers
    )
    assert "About" not in reply.text  # its time depends on more than the size of the data
    assert "At most" in reply.text
    reply = client.post("/train/check", data=entries | {"C": "-1"}, headers=headers)
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
    assert body_of(job_fields(), entries)["validation"] == {"fraction": 0.25}
