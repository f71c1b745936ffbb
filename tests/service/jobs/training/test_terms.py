"""Jobs whose features are chosen products of powers of named columns."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from tests.service.jobs.data import carry_out, job_body, trained, upload

pytestmark = pytest.mark.one_application(checkpoint_s=0.05, lease_s=30.0)

POINTS = np.random.default_rng(1).uniform(-2, 2, size=(80, 2))
INSIDE = (POINTS**2).sum(axis=1) < 2
CIRCLE = "x,y,label\n" + "".join(
    f"{x:.4f},{y:.4f},{'in' if inside else 'out'}\n"
    for (x, y), inside in zip(POINTS, INSIDE, strict=True)
)
TABLE = "x,color,when,label\n" + "1,red,2024-05-01,a\n2,blue,2024-06-01,b\n,red,2024-07-01,a\n" * 9
SQUARES = {"name": "terms", "terms": [{"x": 2}, {"y": 2}, {"x": 1, "y": 1}]}
FIELDS: dict[str, Any] = {"solver": {"name": "newton", "C": 100.0}, "features": SQUARES}


@pytest.fixture
def worker(client: TestClient, settings: Settings) -> Worker:
    upload(client, CIRCLE)
    return Worker(settings, threading.Event())


def test_circle(client: TestClient, worker: Worker) -> None:
    """Separated by its squares; a prediction is explained term by term."""
    job = trained(client, worker, **FIELDS)
    assert job["metrics"]["train"]["accuracy"] > 0.97
    assert job["spec"]["features"] == SQUARES
    version = f"/v1/models/clouds/versions/{job['model']['version']}"
    body = {
        "instances": [{"x": 0.5, "y": -0.1}, {"x": 1.9, "y": 1.0}],
        "outputs": ["label", "decision", "explanation"],
    }
    reply = client.post(f"{version}/predict", json=body).json()
    assert reply["label"] == ["in", "out"]
    terms = reply["explanation"][0][0]["terms"]
    assert list(terms) == ["x*x", "y*y", "x*y"]
    weight = terms["x*x"] / 0.25
    assert terms["y*y"] == pytest.approx(weight * 0.01, rel=0.5)
    for kind in ("json", "npz", "onnx"):
        exported = client.get(f"{version}/export", params={"format": kind})
        assert exported.status_code == 200
        assert "labels-equal=1.000000000" in exported.headers["Svm-Parity"]
        if kind != "onnx":
            imported = client.post(
                "/v1/models/copied/versions",
                content=exported.content,
                headers={"Content-Type": exported.headers["Content-Type"]},
            )
            assert imported.status_code == 201, imported.text
            digest = client.get(version).json()["digest"]
            assert imported.json()["digest"] == digest


def test_positions_of_columns_without_names(client: TestClient, worker: Worker) -> None:
    data = upload(client, CIRCLE.partition("\n")[2], header="absent")
    terms = {"name": "terms", "terms": [{"0": 2}, {"1": 2}]}
    job = trained(client, worker, data, **FIELDS | {"features": terms})
    assert job["metrics"]["train"]["accuracy"] > 0.97


def test_terms_in_a_comparison(client: TestClient, worker: Worker) -> None:
    grid = {"solver": [{"name": "newton"}], "features": [{"name": "identity"}, SQUARES]}
    body = {"dataset_id": "latest", "grid": grid, "seed": 1}
    comparison = client.post("/v1/comparisons", json=body).json()
    carry_out(client, worker, comparison["id"])
    entries = client.get(f"/v1/comparisons/{comparison['id']}").json()["entries"]
    assert [entry["state"] for entry in entries] == ["finished", "finished"]
    assert entries[0]["spec"]["features"] == SQUARES


@pytest.mark.parametrize(
    ("terms", "code", "message"),
    [
        ([{"x": 2}, {"size": 1}], "features-unsupported", "there is no column 'size'"),
        ([{"color": 2}], "features-unsupported", "has the kind category"),
        ([{"when": 2}], "features-unsupported", "has the kind date"),
        ([{"x": 0}], "invalid-field", ""),
        ([{"x": 1}, {"x": 1}], "invalid-field", "every term once"),
        ([], "invalid-field", "1 … 1000"),
        ([{"x": "2"}], "invalid-field", ""),
        (None, "invalid-field", ""),
    ],
)
def test_wrong_terms(
    client: TestClient, worker: Worker, terms: Any, code: str, message: str
) -> None:
    body = job_body(upload(client, TABLE), features={"name": "terms", "terms": terms})
    reply = client.post("/v1/jobs", json=body)
    assert reply.status_code == 422
    error = reply.json()["errors"][0]
    assert error["code"] == code
    assert error["pointer"].startswith("/features")
    assert message in error["message"]
