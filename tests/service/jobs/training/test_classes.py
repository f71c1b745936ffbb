"""Trainings on some classes of a dataset."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from service.jobs.engine.worker_process import Worker
from tests.service.jobs.data import create, csv_of, job_body, succeeded, upload

pytestmark = pytest.mark.one_application(checkpoint_s=0.05, lease_s=30.0)

ALL = csv_of(90, n_classes=3)
HEADER, *LINES = ALL.splitlines(keepends=True)
TWO = HEADER + "".join(line for line in LINES if not line.endswith("c1\n"))
EITHER: list[dict[str, Any]] = [
    {"validation": {"fraction": 0.25}},
    {"validation": {"folds": 3}},
    {},
]


def trained(client: TestClient, worker: Worker, text: str, **fields: Any) -> dict[str, Any]:
    return succeeded(client, worker, create(client, upload(client, text), **fields))


def version(client: TestClient, job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = client.get(
        f"/v1/models/clouds/versions/{job['model']['version']}"
    ).json()
    return found


@pytest.mark.parametrize("fields", EITHER, ids=["hold-out", "folds", "no validation"])
def test_other_rows_are_as_if_they_were_not_there(
    client: TestClient, worker: Worker, fields: dict[str, Any]
) -> None:
    """Model and metrics equal those of a dataset without them, to the bit."""
    job = trained(client, worker, ALL, classes=["c2", "c0"], **fields)
    alone = trained(client, worker, TWO, **fields)
    assert job["spec"]["classes"] == ["c0", "c2"]
    for name in ("metrics", "certificate", "stop_reason", "updates"):
        assert job[name] == alone[name]
    one, other = version(client, job), version(client, alone)
    assert one["classes"] == other["classes"] == ["c0", "c2"]
    rows = {"instances": [[0.5, 0.5, 0.5], [1.5, 2.5, 1.0]], "outputs": ["decision"]}
    decisions = [
        client.post(f"/v1/models/clouds/versions/{each['version']}/predict", json=rows).json()
        for each in (one, other)
    ]
    assert decisions[0]["decision"] == decisions[1]["decision"]


def test_comparison_of_some_classes(client: TestClient, worker: Worker) -> None:
    body = {
        "dataset_id": upload(client, ALL),
        "classes": ["c0", "c2"],
        "specs": [{"solver": {"name": "newton", "C": C}} for C in (0.1, 1.0)],
        "seed": 1,
        "model_name": "clouds",
    }
    reply = client.post("/v1/comparisons", json=body)
    assert reply.status_code == 202, reply.text
    assert worker.take_next_job()
    compared = client.get(f"/v1/comparisons/{reply.json()['id']}").json()
    assert compared["state"] == "succeeded"
    assert client.get("/v1/models/clouds/versions/1").json()["classes"] == ["c0", "c2"]


def test_classes_may_be_numbers_or_their_texts(client: TestClient, worker: Worker) -> None:
    text = "x,y\n" + "".join(f"{i},{i % 3}\n" for i in range(30))
    job = trained(client, worker, text, classes=["2", 1])
    assert version(client, job)["classes"] == [1, 2]


@pytest.mark.parametrize(
    ("classes", "code", "pointer"),
    [
        (["c0", "c9"], "unknown-class", "/classes/1"),
        (["c0", "c0"], "single-class", "/classes"),
        (["c0"], "invalid-field", "/classes"),
    ],
)
def test_unknown_or_too_few_classes_are_refused(
    client: TestClient, classes: list[str], code: str, pointer: str
) -> None:
    upload(client, ALL)
    reply = client.post("/v1/jobs", json=job_body(classes=classes))
    assert reply.status_code == 422
    fault = reply.json()["errors"][0]
    assert (fault["code"], fault["pointer"]) == (code, pointer)


def test_warm_start_needs_the_same_classes(client: TestClient, worker: Worker) -> None:
    job = trained(client, worker, ALL, classes=["c0", "c2"])
    start = f"clouds/{job['model']['version']}"
    trained(client, worker, ALL, classes=["c0", "c2"], warm_start_from=start)
    reply = client.post("/v1/jobs", json=job_body(warm_start_from=start))
    assert reply.json()["errors"][0]["code"] == "warm-start-unsupported"
