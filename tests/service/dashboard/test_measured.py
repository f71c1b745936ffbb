"""How good a model is, at a glance: intervals, the most frequent class, ties."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import precision_recall_curve
from starlette.testclient import TestClient

from service.charts.views import STEPS, precision_and_recall
from service.common.figures import at_most, counted
from service.dashboard.formatting import roughly
from service.jobs.engine.worker_process import Worker
from service.models.measured import between, hardest_class, headline
from svm.model.measures import interval
from svm.model.metrics import roc_curve
from svm.problem.certificate import Certificate, PairCertificate
from tests.service.dashboard.browser import Browser

pytestmark = pytest.mark.one_application

QUICK: dict[str, Any] = {"solver:auto.effort": "quick", "validation": "validation-split"}


@pytest.mark.parametrize(("hits", "n"), [(0, 5), (35, 36), (1, 1), (950, 1000), (500, 1000)])
def test_interval_is_that_of_wilson(hits: int, n: int) -> None:
    """As SciPy computes it."""
    expected = binomtest(hits, n).proportion_ci(0.95, "wilson")
    assert interval(hits / n, n) == pytest.approx((expected.low, expected.high), abs=1e-6)


@pytest.mark.parametrize("excess", [0.0, 1e-9, 0.0003837, 0.00038, 0.012341, 0.5, 0.9991], ids=str)
def test_bounds_are_rounded_up_as_certificates_are(excess: float) -> None:
    """Never below their value."""
    pair = PairCertificate((0, 1), 1.0 + excess, 1.0, 10.0)
    said = Certificate((pair,), 1e-3).summary(np.array(["a", "b"]))
    assert pair.excess is not None
    assert f" {at_most(pair.excess)} above the lowest possible" in said
    assert float(at_most(excess).removesuffix(" %")) >= 100 * excess


def test_precision_follows_from_the_roc_curve() -> None:
    """As scikit-learn computes it at every threshold; each point of the curve is among them."""
    random = np.random.default_rng(3)
    positive, scores = random.random(300) < 0.2, random.integers(0, 40, 300) / 7
    scores = scores + 3 * positive
    curve = roc_curve(positive, scores)
    assert curve is not None
    rates = curve.false_positive_rate.tolist(), curve.true_positive_rate.tolist()
    points = precision_and_recall(*rates, int(positive.sum()), int((~positive).sum()))
    precision, recall, _ = precision_recall_curve(positive, scores)
    expected = set(zip(recall.round(9), precision.round(9), strict=True))
    corners = [(round(x, 9), round(y, 9)) for x, y in points[STEPS::STEPS]]
    assert len(corners) > 10
    assert set(corners) <= expected
    assert points[-1] == pytest.approx((1.0, positive.mean()))


@pytest.mark.parametrize(
    ("confusion", "text"),
    [
        ([[9, 1], [0, 2]], "a (1 of 10 rows predicted wrongly)"),
        (
            [[9, 1, 0], [0, 1, 0], [2, 1, 1]],
            "c (3 of 4 rows predicted wrongly, most often as a)",
        ),
        ([[1, 0, 0], [0, 0, 0], [0, 0, 5]], ""),  # no row of b was measured
    ],
)
def test_hardest_class_is_that_with_the_lowest_recall(
    confusion: list[list[int]], text: str
) -> None:
    """With what it is taken for, if there are several others."""
    assert hardest_class(confusion, ["a", "b", "c"][: len(confusion)]) == text


def test_score_on_new_rows_leads_where_it_is_known() -> None:
    """The score of rows that the model has learned from is in the small print, or named."""
    metrics = {"accuracy": 1.0, "confusion_matrix": [[50, 0], [0, 50]]}
    said = headline(metrics, "on the training set", {"score": 0.622, "n_samples": 90})
    assert said.score == "62.2 % accuracy expected on new rows"
    assert "from 90 rows" in said.worth
    assert said.worth.endswith("The rows that it has learned from: 100 %")
    said = headline(metrics, "on the training set")
    assert said.score == "100 % accuracy on the training set, not measured on new rows"


def test_data_to_evaluate_on_fit_the_model(
    browser: Browser, client: TestClient, worker: Worker
) -> None:
    """Those that it was not trained on come first; numbers are no classes."""
    browser.send("/samples/moons")
    browser.go("/train")
    browser.send("/train", **QUICK)
    assert worker.take_next_job()
    data = client.get("/samples/moons.csv").content[:4000].rpartition(b"\n")[0]
    others = {"name": "other"}, {"name": "spend", "target": "x1"}
    for query in others:
        sent = client.post(
            "/v1/datasets", params=query, content=data, headers={"content-type": "text/csv"}
        )
        assert sent.status_code == 201, sent.text
    html = browser.go("/models/moons").html.partition('id="evaluate"')[2].partition("</select>")[0]
    assert re.findall(r"<option[^>]*>(\w+)", html) == ["other", "moons"]


def test_lists_show_how_good_each_model_is(
    browser: Browser, client: TestClient, worker: Worker
) -> None:
    """The accuracy of the validation set, else that of the training rows; each is named."""
    browser.send("/samples/moons")
    for check in ("validation-split", ""):
        browser.go("/train")
        browser.send("/train", **{**QUICK, "validation": check})
        assert worker.take_next_job()
    for version, is_of_training in ((1, False), (2, True)):
        text = browser.go(f"/models/moons/versions/{version}").text
        said = "Of the rows that it was trained on: rows are the true classes"
        assert (said in text) == is_of_training
    metrics = client.get("/v1/models/moons/versions/1").json()["metrics"]
    accuracy = f"{100 * metrics['validation']['accuracy']:.1f} %"
    for path in ("/", "/jobs"):
        text = browser.go(path).text
        assert f"validation {accuracy}" in text
        assert re.search(r"training [0-9.]+ %", text)
    assert "certified" in browser.go("/models").text
    assert re.search(r"training [0-9.]+ %", browser.page.text)
    text = browser.go("/models/moons/versions/2").text
    assert "evaluate it on others" in text
    assert "Hardest class" in text or "All rows are predicted correctly." in text
    matrix = client.get("/v1/models/moons/versions/2").json()["metrics"]["train"]
    for k, row in enumerate(matrix["confusion_matrix"]):
        assert f"{sum(row) - row[k]} of {sum(row)}" in text  # beside the row of its class
        assert between(row[k] / sum(row), sum(row)) in text  # of the recall


def test_texts_of_numbers() -> None:
    """One of a thing is not several."""
    assert [counted(n, "class", "classes") for n in (1, 2)] == ["1 class", "2 classes"]
    assert counted(1200, "row") == "1,200 rows"
    assert between(35 / 36, 36) == "85.8 to 99.5 %"
    assert between(87 / 100, 100) == "79.0 to 92.2 %"
    assert [roughly(s) for s in (0.02, 2.4, 88, 91, 36_000)] == [
        "1 s",
        "2 s",
        "90 s",
        "2 min",
        "600 min",
    ]


def test_accuracy_is_shown_with_what_it_is_worth(browser: Browser, worker: Worker) -> None:
    """Its interval, and what the most frequent class alone would give; of job and version."""
    browser.send("/samples/iris")
    browser.go("/train")
    browser.send("/train", **QUICK)
    job = browser.page.path
    assert worker.take_next_job()
    worth = (
        r"% with 95 % confidence, from 36 rows; always predicting the most frequent class: 33.3 %"
    )
    for path in (job, "/models/iris"):
        assert re.search(
            rf"accuracy on the validation set [0-9.]+ to [0-9.]+ {worth}", browser.go(path).text
        )


def test_scores_that_chance_explains_are_ties(browser: Browser, worker: Worker) -> None:
    """A straight boundary inside of a circle is worse than chance explains; a curved one with
    another C is not."""
    browser.send("/samples/circle")
    browser.go("/compare")
    browser.send("/comparisons", solver=["newton", "smo"], C="1, 2")
    assert worker.take_next_job()
    browser.go(browser.page.path)
    assert "With 100 rows to check on" in browser.page.text
    rows = re.findall(
        r'</td><th scope="row">(\w+)(.*?)</tr>', browser.page.html.partition("entries")[2], re.S
    )
    assert [(solver, "tie" in row) for solver, row in rows] == [
        ("smo", True),
        ("smo", True),
        ("newton", False),
        ("newton", False),
    ]


def test_thresholds_of_two_classes_are_on_the_page(
    browser: Browser, worker: Worker, client: TestClient
) -> None:
    """With the counts of the classes, from which scripts compute precision and accuracy."""
    browser.send("/samples/moons")
    browser.go("/train")
    browser.send("/train", **QUICK)
    assert worker.take_next_job()
    browser.go("/models/moons")
    browser.send("/models/moons/versions/1/evaluate", validation_only="")
    assert worker.take_next_job()
    page = browser.go(browser.page.path)
    data = json.loads(page.html.split('id="threshold-data">')[1].split("</script>")[0])
    assert data["rows"] == [200, 200]
    assert len(data["threshold"]) == len(data["fpr"]) == len(data["tpr"])
    assert "accuracy on these data" in page.text


def test_pages_of_a_numeric_target(browser: Browser, client: TestClient, worker: Worker) -> None:
    """Data, training, model, plots, evaluation and comparison speak of numbers."""
    random = np.random.default_rng(0)
    rows = "".join(f"{a:.3f},{b:.3f},{9 * a - b:.2f}\n" for a, b in random.normal(size=(120, 2)))
    browser.send("/datasets", files={"file": ("flats.csv", "a,b,price\n" + rows, "text/csv")})
    assert "regression, a number is predicted" in browser.page.text
    browser.follow("Train a model")
    assert "Predict price regression: a number is predicted" in browser.page.text
    assert "Class weights" not in browser.page.text
    browser.send("/train", validation="validation-split")
    assert worker.take_next_job()
    text = browser.go(browser.page.path).text
    assert "Mean absolute error of the best setting of each kind" in text
    assert "shorter bars are better" in text
    assert browser.page.html.count('class="bar"') == 3
    for path in ("/models/flats/versions/1", "/jobs", "/models", "/models/flats/versions/1/card"):
        text = browser.go(path).text
        assert "ccuracy" not in text, path
    text = browser.go("/models/flats/versions/1").text
    assert "mean absolute error on the validation set" in text
    assert "always predicting the median of the training rows" in text
    browser.send("/models/flats/versions/1/evaluate")  # the first form: "See the largest errors"
    assert worker.take_next_job()
    assert "Mean absolute error" in browser.go(browser.page.path).text
    plots = browser.go("/models/flats/versions/1/plots").html
    assert "predicted-against-actual" in plots
    assert "boundary" not in plots
    dataset = client.get("/v1/datasets").json()["datasets"][0]["id"]
    ids = [
        client.post("/v1/evaluations", json={"dataset_id": dataset, "model": "flats/1"}),
        client.post(
            "/v1/comparisons",
            json={
                "dataset_id": dataset,
                "grid": {"solver": [{"name": "newton"}], "C": [0.1, 1.0]},
                "validation": {"fraction": 0.3},
                "seed": 1,
            },
        ),
    ]
    for reply, shown in zip(ids, ("Largest errors", "Entries"), strict=True):
        assert worker.take_next_job()
        text = browser.go(f"/jobs/{reply.json()['id']}").text
        assert shown in text
        assert "ccuracy" not in text
        if shown == "Largest errors":
            files = re.findall(r'href="(/jobs/[^"]+\.csv)"', browser.page.html)
            assert [path.rpartition("/")[2] for path in files] == [
                "predicted-against-actual.csv",
                "residuals.csv",
            ]
            assert all(client.get(path).text.count("\n") > 120 for path in files)
