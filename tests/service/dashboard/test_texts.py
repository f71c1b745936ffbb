"""Pages of tables with texts, without scripts: the sample of messages, from load to prediction."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.jobs.engine.worker_process import Worker
from tests.service.dashboard.browser import Browser

pytestmark = pytest.mark.one_application


def test_message_of_the_sample_is_routed(
    browser: Browser, client: TestClient, worker: Worker
) -> None:
    """About 90 % of its topics are right; words are named and marked."""
    browser.send("/samples/tickets")
    browser.follow("Train a model")
    quick: dict[str, Any] = {"solver:auto.effort": "quick", "validation": "validation-split"}
    browser.send("/train", **quick)
    assert worker.take_next_job()
    browser.go("/models/tickets")
    version = client.get("/v1/models/tickets/versions/1").json()
    assert 0.85 < version["metrics"]["validation"]["accuracy"] < 0.98
    assert version["spec"]["solver"]["loss"] == "squared-hinge"
    table = browser.page.html.split('aria-label="Strongest words of message"')[1].split("</table")[
        0
    ]
    strongest = dict(re.findall('<th scope="row">(.*?)</th><td><span class="tag">(.*?) <', table))
    assert strongest["returns"] == "back"
    assert strongest["cancellation"] == "cancel"
    assert len(strongest) == 7
    assert '<textarea id="x0"' in browser.page.html
    form = browser.page.form("/models/tickets/versions/1/predict")
    assert len(form.fields["x0"][0]) > 10  # one of its messages
    text = "Please cancel my contract.\r\nI <b>quit</b> glorpish, no refund \U0001f600 bill"
    browser.send("/models/tickets/versions/1/predict", x0=text)
    assert '<p class="label">cancellation</p>' in browser.page.html
    assert "Words that no training text had: 1." in browser.page.text
    marked = re.search('<p class="marked">(.*?)</p>', browser.page.html, re.DOTALL)
    assert marked is not None
    plain = html.unescape(re.sub("</?mark.*?>", "", marked[1]))
    assert plain == text.replace("\r\n", "\n")
    found = re.findall('<mark class="(hit|miss) heat[0-9]+">(.*?)</mark>', marked[1])
    marks = {word: sign for sign, word in found}
    assert marks["cancel"] == marks["quit"] == "hit"
    assert marks["refund"] == marks["bill"] == "miss"
    assert re.search(
        r"For : cancel [0-9.]+, .* Against : (bill|refund) −[0-9.]+", browser.page.text
    )
    browser.go("/models/tickets/versions/1/card")
    assert re.search(
        "message: [0-9,]+ words and pairs of words and [0-9,]+ runs", browser.page.text
    )
    assert "message: strongest for cancellation: “cancel”, " in browser.page.text
    column = version["table"]["columns"][0]
    assert list(column["strongest"]) == version["classes"]
    assert next(iter(column["strongest"]["cancellation"])) == "cancel"


def test_one_message_is_all_that_the_form_asks_for(
    browser: Browser, client: TestClient, worker: Worker
) -> None:
    """A model of a single column of texts: any text may be a row, also one with a comma."""
    lines = [
        f"{'win a free prize' if k % 2 else 'see you at lunch'} {k},{k % 2}" for k in range(40)
    ]
    content = "\n".join(["message,spam", *lines]).encode()
    dataset = client.post("/v1/datasets", content=content, headers={"Content-Type": "text/csv"})
    job = {"dataset_id": dataset.json()["id"], "model_name": "spam", "seed": 1}
    assert client.post("/v1/jobs", json=job).status_code == 202
    assert worker.take_next_job()
    browser.go("/models/spam")
    browser.send("/models/spam/versions/1/predict", x0="a free prize, really")
    assert '<p class="label">1</p>' in browser.page.html
    card = client.get("/v1/models/spam/versions/1/card").json()
    assert " and a column of texts; trained by " in card["summary"]
    assert card["data"][0].endswith(": 40 rows of a column of texts.")
    assert "For texts of the same kind, language and source" in card["intended_use"][0]
    assert "`unknown_words`" in card["intended_use"][1]


@pytest.mark.long
def test_model_of_the_sample_is_exported(
    browser: Browser, client: TestClient, worker: Worker
) -> None:
    """With equal labels, and not as ONNX, which the page does not offer."""
    browser.send("/samples/tickets")
    browser.follow("Train a model")
    browser.send("/train")
    assert worker.take_next_job()
    browser.go("/models/tickets")
    assert "ONNX" not in browser.page.text
    exported = client.get("/v1/models/tickets/versions/1/export?format=npz")
    assert "rows=480, labels-equal=1.0" in exported.headers["svm-parity"]
    refused = client.get("/v1/models/tickets/versions/1/export?format=onnx")
    assert refused.status_code == 422
    assert "column 'message' has texts" in refused.json()["detail"]
