"""Options of the stochastic solvers in requests: accepted as documented, refused with reasons."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from tests.service.jobs.data import carry_out, create, csv_of, job_body, upload

pytestmark = pytest.mark.one_application

SOLVERS: dict[str, dict[str, Any]] = {
    "mini-batches": {"name": "pegasos", "lambda": 0.1, "batch_size": 7, "order": "uniform"},
    "larger than the data": {"name": "pegasos", "lambda": 0.1, "batch_size": 10**30},
    "literal intercept": {
        "name": "pegasos",
        "lambda": 0.1,
        "intercept_step": "same",
        "averaging": "all",
        "initial": {"random_scale": 0.01},
    },
    "figure 3": {
        "name": "kernel-pegasos",
        "lambda": 0.1,
        "score_step": "current",
        "order": "shuffled-once",
        "averaging": {"after_epochs": 1},
    },
    "restarted": {"name": "subgradient", "step": "restarted", "order": "given"},
    "doubled": {"name": "subgradient", "step": "doubled", "intercept": "free"},
    "per epoch": {"name": "subgradient", "step": "per-epoch", "order": "uniform"},
    "descent": {
        "name": "gradient-descent",
        "batch_size": 10,
        "regularizer": "whole",
        "order": "shuffled-once",
        "averaging": "suffix",
        "learning_rate": {"name": "inverse-time", "initial": 0.01},
    },
}


@pytest.mark.parametrize("solver", SOLVERS)
def test_options_of_the_course_documents(
    solver: str, client: TestClient, settings: Settings
) -> None:
    """Every pair makes the updates that were asked for; the model is certified, predicts, and
    another job from its spec gives the same bits."""
    dataset_id = upload(client, csv_of(90, n_classes=3))
    worker, stopping = Worker(settings, threading.Event()), {"max_updates": 75}
    jobs, versions, given = [], [], SOLVERS[solver]
    for _ in range(2):
        job_id = create(client, dataset_id, solver=given, stopping=stopping)
        jobs.append(carry_out(client, worker, job_id))
        assert jobs[-1]["state"] == "succeeded", jobs[-1]["error"]
        path = f"/v1/models/clouds/versions/{jobs[-1]['model']['version']}"
        versions.append(client.get(path).json())
        given = versions[-1]["spec"]["solver"]
    job = jobs[0]
    assert (job["stop_reason"], job["converged"], job["updates"]) == ("max-updates", False, 225)
    assert len(job["certificate"]["pairs"]) == 3
    for pair in job["certificate"]["pairs"]:
        assert 0.0 < pair["dual"] <= pair["primal"]
    assert not [text for text in job["warnings"] if "ended before" in text]
    assert versions[0]["digest"] == versions[1]["digest"]
    assert given.keys() >= SOLVERS[solver].keys()
    rows = {"instances": [[0.0, 0.0, 0.0], [2.0, 2.0, 2.0]]}
    assert len(client.post("/v1/models/clouds/predict", json=rows).json()["label"]) == 2


def test_updates_beside_a_gap_that_is_not_reached(client: TestClient, settings: Settings) -> None:
    """A warning reports it, with what to do."""
    dataset_id = upload(client)
    stopping = {"max_updates": 5, "duality_gap": 1e-9}
    job_id = create(client, dataset_id, stopping=stopping)
    job = carry_out(client, Worker(settings, threading.Event()), job_id)
    assert (job["stop_reason"], job["updates"], job["epochs"]) == ("max-updates", 5, 0)
    assert job["progress"]["fraction"] == 1.0
    [warning] = [text for text in job["warnings"] if "ended before it converged" in text]
    assert "Its updates were used up" in warning


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown order": ({"solver": {"name": "pegasos", "order": "sorted"}}, "/solver/order"),
    "blocks with a kernel": (
        {"solver": {"name": "kernel-pegasos", "order": "blocks"}},
        "/solver/order",
    ),
    "no rows in a batch": ({"solver": {"name": "pegasos", "batch_size": 0}}, "/solver/batch_size"),
    "an unknown step": ({"solver": {"name": "subgradient", "step": "halved"}}, "/solver/step"),
    "no epochs to leave out": (
        {"solver": {"name": "pegasos", "averaging": {"after_epochs": 0}}},
        "/solver/averaging/after_epochs",
    ),
    "no updates": ({"stopping": {"max_updates": 0}}, "/stopping/max_updates"),
    "half an update": ({"stopping": {"max_updates": 1.5}}, "/stopping/max_updates"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_options_are_refused(case: str, client: TestClient) -> None:
    """With the place in the request, and what was expected."""
    fields, pointer = REFUSED[case]
    upload(client)
    reply = client.post("/v1/jobs", json=job_body(**fields))
    assert (reply.status_code, reply.json()["code"]) == (422, "invalid-field")
    errors = {error["pointer"]: error["message"] for error in reply.json()["errors"]}
    assert pointer in errors, errors
    assert errors[pointer]
