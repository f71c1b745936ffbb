"""Jobs without a named solver compare settings before they train."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from tests.service.jobs.data import read, upload
from tests.service.jobs.stopping import StopAfter

pytestmark = pytest.mark.one_application(checkpoint_s=0.02, lease_s=30.0)


def ring(n: int, noise: float = 0.0) -> str:
    random = np.random.default_rng(0)
    X = random.normal(size=(n, 2)).round(4)
    inside = np.square(X).sum(axis=1) + noise * random.normal(size=n) < 1.4
    rows = [f"{a},{b},{'in' if near else 'out'}" for (a, b), near in zip(X, inside, strict=True)]
    return "\n".join(["a,b,label", *rows])


def queued(client: TestClient, **fields: Any) -> dict[str, Any]:
    body = {"dataset_id": "latest", "model_name": "rings", "seed": 1, **fields}
    reply = client.post("/v1/jobs", json=body)
    assert reply.status_code == 202, reply.text
    job: dict[str, Any] = reply.json()
    return job


def test_it_keeps_what_fits_and_reports_it(client: TestClient, settings: Settings) -> None:
    upload(client, ring(200))
    asked = {"dataset_id": "latest", "model_name": "rings", "seed": 1}
    plan = client.post("/v1/jobs", json=asked, params={"validate_only": True}).json()
    job = queued(client)
    assert job["spec"]["solver"]["effort"] == "balanced"
    assert job["spec"]["scaling"] is None
    assert Worker(settings, threading.Event()).take_next_job()
    job = read(client, job["id"])
    assert job["state"] == "succeeded", job["error"]
    search = job["search"]
    assert search["tried"][0]["folds"] == 5
    assert [each["family"] for each in search["tried"] if each["chosen"]] != ["linear"]
    assert search["score"] > 0.9
    trained = sum(each["folds"] for each in search["tried"])
    assert 0.8 * plan["compared"] <= trained <= plan["compared"]
    assert plan["trainings"] == 2  # the linear model, and that which is chosen
    assert 0.1 < plan["about_s"] < 2.0
    assert search["summary"] in job["notes"]
    version = client.get("/v1/models/rings/versions/1").json()
    assert version["search"] == search
    assert version["spec"]["scaling"] == "standardize"
    assert version["spec"]["solver"]["name"] != "auto"
    queued(client, **{k: version["spec"][k] for k in ("solver", "scaling", "features")})
    assert Worker(settings, threading.Event()).take_next_job()
    again = client.get("/v1/models/rings/versions/2").json()
    assert again["digest"] == version["digest"]
    assert again["search"] is None


def test_folds_that_chose_the_setting_are_not_the_headline(
    client: TestClient, settings: Settings
) -> None:
    upload(client, ring(120, noise=3.0))
    job = queued(client, validation={"folds": 5})
    assert Worker(settings, threading.Event()).take_next_job()
    job = read(client, job["id"])
    assert job["state"] == "succeeded", job["error"]
    kept, expected = job["metrics"]["validation"]["accuracy"], job["search"]["score"]
    assert expected < kept
    assert any("too good: their rows chose the setting" in note for note in job["notes"])
    for page in (f"/jobs/{job['id']}", "/models/rings/versions/1"):
        headline = client.get(page).text.partition('class="headline"')[2].partition("</p>")[0]
        assert f"{100 * expected:.1f} % accuracy expected on new rows" in headline
        assert f"has {100 * kept:.1f} % on these folds, but it was chosen by them" in headline
    card = client.get("/v1/models/rings/versions/1/card").text
    assert "too good: their rows chose the setting" in card


@pytest.mark.parametrize(
    "fields",
    [
        {"solver": {"name": "auto", "effort": "quick"}},
        {"solver": {"name": "auto", "C": 2.0}},
        {"solver": {"name": "auto", "kernel": "rbf"}},
        {"features": {"name": "splines"}},
        {"stopping": {"time_budget_s": 60.0}},
        {"stopping": {"patience": 3}, "validation": {"fraction": 0.3}},
    ],
    ids=str,
)
def test_what_is_given_is_not_compared(
    client: TestClient, settings: Settings, fields: dict[str, Any]
) -> None:
    """The request that is shown reports it."""
    upload(client, ring(120))
    job = queued(client, **fields)
    assert job["spec"]["solver"]["effort"] == "quick"
    assert job["spec"]["scaling"] == "standardize"
    plan = client.post("/v1/jobs", json=job["spec"], params={"validate_only": True}).json()
    assert plan["compared"] == 0
    assert Worker(settings, threading.Event()).take_next_job()
    job = read(client, job["id"])
    assert (job["state"], job["search"]) == ("succeeded", None), job["error"]


def test_few_rows_are_not_compared(client: TestClient) -> None:
    upload(client, ring(40))
    assert queued(client)["spec"]["solver"]["effort"] == "quick"


def test_a_canceled_search_keeps_the_linear_model(client: TestClient, settings: Settings) -> None:
    upload(client, ring(300))
    job = queued(client)
    looks = 0
    while (search := read(client, job["id"])["search"]) is None:
        looks += 40
        assert Worker(settings, StopAfter(looks)).take_next_job()
    assert {one["chosen"] for one in search["tried"]} == {False}
    page = client.get(f"/jobs/{job['id']}").text
    assert f"{len(search['tried'])} settings" in page
    assert "simplest as good" not in page
    client.post(f"/v1/jobs/{job['id']}/cancel", json={"keep_model": True})
    Worker(settings, threading.Event()).take_next_job()
    job = read(client, job["id"])
    assert job["state"] == "canceled"
    assert job["search"] is None
    version = client.get("/v1/models/rings/versions/1").json()
    assert "kernel" not in version["spec"]["solver"]
    assert version["certificate"]["status"] == "certified"


def test_a_job_that_was_resumed_after_its_search_keeps_the_linear_model_too(
    client: TestClient, settings: Settings
) -> None:
    """Which has been certified: what was chosen has not."""
    upload(client, ring(300, noise=1.0))
    job = queued(client, stopping={"duality_gap": 1e-9})
    looks, progress = 40, job["progress"]
    while "training" not in {each["name"] for each in progress["phases"]}:
        assert Worker(settings, StopAfter(looks)).take_next_job()
        before, progress = progress, read(client, job["id"])["progress"]
        assert progress["fraction"] >= before["fraction"]
        looks += 20 * (progress["fraction"] == before["fraction"])
    assert read(client, job["id"])["state"] == "queued"
    client.post(f"/v1/jobs/{job['id']}/cancel", json={"keep_model": True})
    Worker(settings, threading.Event()).take_next_job()
    job = read(client, job["id"])
    assert (job["state"], job["search"]) == ("canceled", None)
    version = client.get("/v1/models/rings/versions/1").json()
    assert version["spec"]["features"] == {"name": "identity"}
    assert version["certificate"]["relative_gap"] <= 1e-9
