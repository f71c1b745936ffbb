"""Jobs with a `trace`: the cost at every epoch or update, over HTTP."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from tests.service.jobs.data import carry_out, create, csv_of, job_body, upload
from tests.service.jobs.stopping import StopAfter

pytestmark = pytest.mark.one_application(checkpoint_s=0.05, lease_s=30.0)

DESCENT = {"name": "gradient-descent", "C": 2.0, "batch_size": 10}


@pytest.fixture
def worker(client: TestClient, settings: Settings) -> Worker:
    upload(client)
    return Worker(settings, threading.Event())


def curve(client: TestClient, job_id: str) -> list[dict[str, Any]]:
    trace = client.get(f"/v1/jobs/{job_id}/trace").json()
    return [dict(zip(trace["columns"], row, strict=True)) for row in trace["rows"]]


def timeless(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "elapsed_s": None} for row in rows]


def test_every_epoch(client: TestClient, worker: Worker) -> None:
    """From before the first update on, with both errors, in both constants; and the model is that
    of a job without a trace."""
    fields: dict[str, Any] = {
        "solver": DESCENT,
        "stopping": {"max_epochs": 7},
        "validation": {"fraction": 0.25},
    }
    job = carry_out(client, worker, create(client, trace={}, **fields))
    assert job["spec"]["trace"] == {"every": 1, "unit": "epoch"}
    rows = curve(client, job["id"])
    assert [row["epoch"] for row in rows] == list(range(8))
    assert rows[0]["primal"] == 1.0
    assert rows[0]["solver_objective"] == 2.0 * 44
    for row in rows:
        assert row["solver_objective"] == pytest.approx(88.0 * row["primal"])
        assert 0.0 <= row["train_error"] <= 1.0
        assert 0.0 <= row["validation_error"] <= 1.0
    assert [row["elapsed_s"] for row in rows] == sorted(row["elapsed_s"] for row in rows)
    plain = carry_out(client, worker, create(client, **fields))
    assert [row["epoch"] for row in curve(client, plain["id"])] == [1, 2, 4, 7]
    assert plain["certificate"] == job["certificate"]
    first, second = (
        client.get(f"/v1/models/clouds/versions/{each['model']['version']}").json()["digest"]
        for each in (job, plain)
    )
    assert first == second


def test_every_third_update_of_each_pair(client: TestClient, worker: Worker) -> None:
    """Besides the evaluations after epochs 1, 2, 4 …, of 40 updates each."""
    upload(client, csv_of(60, n_classes=3))
    trace = {"every": 3, "unit": "update"}
    job = carry_out(client, worker, create(client, trace=trace, stopping={"max_epochs": 2}))
    rows = curve(client, job["id"])
    for pair in ("c0c1", "c0c2", "c1c2"):
        own = [row for row in rows if row["negative_class"] + row["positive_class"] == pair]
        assert [row["updates"] for row in own] == sorted({*range(0, 81, 3), 40, 80})


def test_stopped_service_and_the_same_trace(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """Of a job that several services in turn work on."""
    fields: dict[str, Any] = {"trace": {"unit": "update"}, "stopping": {"max_epochs": 12}}
    whole = carry_out(client, worker, create(client, **fields))
    job_id = create(client, **fields)
    attempts = 0
    while client.get(f"/v1/jobs/{job_id}").json()["state"] != "succeeded":
        attempts += 1
        Worker(settings, StopAfter(400 * attempts)).take_next_job()
    assert attempts > 1
    assert timeless(curve(client, job_id)) == timeless(curve(client, whole["id"]))


@pytest.mark.parametrize(
    ("trace", "pointer"),
    [
        ({"every": 0}, "/trace/every"),
        ({"every": 1.5}, "/trace/every"),
        ({"unit": "second"}, "/trace/unit"),
        ({"each": 1}, "/trace/each"),
        (1, "/trace"),
    ],
)
def test_wrong_traces(client: TestClient, worker: Worker, trace: Any, pointer: str) -> None:
    reply = client.post("/v1/jobs", json=job_body(trace=trace))
    assert reply.status_code == 422
    [error] = reply.json()["errors"]
    assert error["pointer"] == pointer


@pytest.mark.parametrize("solver", ["newton", "smo", "dual-coordinate-descent", "auto"])
def test_updates_of_solvers_that_have_no_weights_in_between(
    client: TestClient, worker: Worker, solver: str
) -> None:
    body = job_body(trace={"unit": "update"}, solver={"name": solver})
    reply = client.post("/v1/jobs", json=body)
    assert reply.status_code == 422
    [error] = reply.json()["errors"]
    assert error["pointer"] == "/trace"
    assert f"`epoch` for {solver}" in error["message"]


@pytest.mark.parametrize(
    ("kind", "first", "last"), [("epoch", "epoch 0", "5"), ("update", "update 0", "25")]
)
def test_plots_of_a_trace(
    client: TestClient, worker: Worker, kind: str, first: str, last: str
) -> None:
    """The picture describes the first and the last point, in the solver's constants."""
    stopping = {"max_epochs": 5}
    trace = {"unit": kind}
    job_id = create(
        client, upload(client, csv_of(50)), solver=DESCENT, stopping=stopping, trace=trace
    )
    job = carry_out(client, worker, job_id)
    path = f"/v1/models/clouds/versions/{job['model']['version']}/plots/cost-by-{kind}.svg"
    picture = client.get(path)
    assert picture.status_code == 200
    cost = job["certificate"]["solver_objective"]
    assert f"from 100 at {first} to {cost:.4g} at {last}" in picture.text
