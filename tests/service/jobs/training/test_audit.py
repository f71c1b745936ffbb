"""The audit of a dataset, and of jobs and versions that train on it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from service.jobs.engine.worker_process import Worker
from tests.service.jobs.data import carry_out, create, csv_of, job_body, read, upload


def table(n: int = 120, seed: int = 0, code: bool = True) -> str:
    """Rows without information, but for a column that has the label under other names."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, n)
    lines = ["x0,x1,x2,code,label"]
    for label, x in zip(labels, random.normal(size=(n, 3)), strict=True):
        said = "uv"[label if code else 0]
        lines.append(",".join([*(f"{value:.6f}" for value in x), said, f"c{label}"]))
    return "\n".join(lines) + "\n"


def audit_of(client: TestClient, dataset_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"/v1/datasets/{dataset_id}").json()["audit"]
    return found


def names(found: list[dict[str, Any]]) -> list[str]:
    return [one["name"] for one in found]


def test_an_upload_is_audited(client: TestClient) -> None:
    """With its reasons, in the reply and on its page; also rows that are appended, and parts."""
    dataset_id = upload(client, table())
    [found] = audit_of(client, dataset_id)
    assert found == {
        "name": "equal-to-label",
        "grade": "error",
        "columns": ["code"],
        "numbers": {"share": 1.0},
        "found": "Each value of `code` has a label of its own, the same in every row.",
        "why": found["why"],
        "to_do": "Ignore the column, or say that it is the label.",
    }
    page = client.get(f"/datasets/{dataset_id}").text
    assert "<code>code</code> has a label of its own" in page
    more = client.post(
        f"/v1/datasets/{dataset_id}/append",
        content=table(40, seed=1, code=False).encode(),
        headers={"Content-Type": "text/csv"},
    ).json()
    assert names(more["audit"]) == []
    parts = client.post(f"/v1/datasets/{dataset_id}/split", json={"fraction": 0.5}).json()
    assert names(parts["train"]["audit"]) == names(parts["test"]["audit"]) == ["equal-to-label"]


def test_sparse_rows_and_values_without_names_are_audited(client: TestClient) -> None:
    random = np.random.default_rng(0)
    lines = []
    for label in random.integers(0, 2, 100):
        entries = [f"{j}:{value:.4f}" for j, value in enumerate(random.random(3), 1)]
        lines.append(" ".join([str(label), *entries, f"{500 + label}:1"]))
    reply = client.post(
        "/v1/datasets",
        content="\n".join(lines),
        headers={"Content-Type": "text/x-libsvm"},
        params={"dense": "never"},
    )
    found = reply.json()["audit"]
    assert names(found) == ["equal-to-label", "more-columns-than-rows"]
    assert found[0]["columns"] == [499, 500]
    assert found[0]["found"] == (
        "Each value of column 500 has a label of its own, the same in every row. So for column 501."
    )


def test_copies_are_said_once(client: TestClient) -> None:
    lines = csv_of(60).splitlines(keepends=True)
    reply = client.get(f"/v1/datasets/{upload(client, ''.join([*lines, *lines[1:30]]))}").json()
    assert names(reply["audit"]) == ["duplicates"]
    assert "duplicates" not in [warning["code"] for warning in reply["warnings"]]
    assert reply["audit"][0]["numbers"] == {"count": 58, "share": 0.6517, "chance": 0.0}


def test_a_job_and_its_model_have_the_findings(client: TestClient, worker: Worker) -> None:
    """But not those that it mutes, which the card lists."""
    dataset_id = upload(client, table())
    job = carry_out(client, worker, create(client, dataset_id, validation={"fraction": 0.25}))
    assert names(job["audit"]) == ["equal-to-label"]
    assert client.get("/v1/models/clouds/versions/1").json()["audit"] == job["audit"]
    card = client.get("/v1/models/clouds/versions/1/card").json()
    assert job["audit"][0]["found"] in " ".join(card["limits"])
    for page in (f"/jobs/{job['id']}", "/models/clouds/versions/1"):
        assert "has a label of its own" in client.get(page).text
    job = carry_out(client, worker, create(client, dataset_id, mute=["equal-to-label"]))
    assert (job["audit"], job["spec"]["mute"]) == ([], ["equal-to-label"])
    card = client.get("/v1/models/clouds/versions/2/card").json()
    assert "Findings of the audit that were muted: equal-to-label." in card["limits"]


def test_only_findings_that_there_are_can_be_muted(client: TestClient) -> None:
    upload(client)
    reply = client.post("/v1/jobs", json=job_body(mute=["everything"]))
    assert (reply.status_code, reply.json()["code"]) == (422, "invalid-field")
    assert reply.json()["errors"][0]["pointer"] == "/mute/0"


@pytest.mark.parametrize("validation", [{"fraction": 0.5}, {"folds": 3}])
def test_scores_like_those_of_a_constant_are_named(
    client: TestClient, worker: Worker, validation: Any
) -> None:
    for kind, label in (("classes", lambda value: f"c{int(value > 0)}"), ("numbers", str)):
        random = np.random.default_rng(0)
        X = random.normal(size=(150, 3)).round(6)
        rows = [",".join([*map(str, x[:2]), label(x[2])]) for x in X.tolist()]
        dataset_id = upload(client, "\n".join(["a,b,label", *rows]))
        solver = {"name": "newton"}
        job = carry_out(
            client, worker, create(client, dataset_id, solver=solver, validation=validation)
        )
        assert "score-within-baseline" in names(job["audit"]), kind
    job = carry_out(
        client,
        worker,
        create(client, upload(client, csv_of(150)), solver=solver, validation=validation),
    )
    assert job["audit"] == []


def test_columns_that_vary_in_validation_rows_only_are_named(
    client: TestClient, worker: Worker
) -> None:
    """Of the training rows all are looked at, of the columns those that vary."""
    head, *lines = csv_of(40).splitlines()
    same = [f"7,{line}" for line in lines]
    dataset_id = upload(client, "\n".join([f"rare,{head}", f"8{same[0][1:]}", *same[1:]]))
    found = [
        carry_out(
            client, worker, create(client, dataset_id, seed=seed, validation={"fraction": 0.5})
        )
        for seed in range(4)
    ]
    constant = [
        [one for one in job["audit"] if one["name"] == "constant-after-splitting"] for job in found
    ]
    assert {len(each) for each in constant} == {0, 1}
    [some] = max(constant)
    assert some["columns"] == ["rare"]
    assert some["found"] == "All training rows have the same value in `rare`."


def test_a_comparison_has_the_audit_of_its_model(client: TestClient, worker: Worker) -> None:
    upload(client, table())
    body = {
        "dataset_id": "latest",
        "model_name": "best",
        "grid": {"solver": [{"name": "newton"}], "C": [0.1, 1.0]},
        "validation": {"fraction": 0.25},
        "seed": 1,
    }
    job_id = client.post("/v1/comparisons", json=body).json()["id"]
    assert worker.take_next_job()
    assert names(read(client, job_id)["audit"]) == ["equal-to-label"]
    assert names(client.get("/v1/models/best/versions/1").json()["audit"]) == ["equal-to-label"]


def test_the_order_of_the_rows_counts_if_the_split_is_by_time(
    client: TestClient, worker: Worker
) -> None:
    random = np.random.default_rng(0)
    lines = [f"{day},{random.random():.4f},{day + 0.5}" for day in range(60)]
    text = "\n".join(["day,x,y", *lines])
    for role, listed in (("time", True), ("ignored", False)):
        schema = json.dumps({"day": {"role": role}})
        upload(client, text, schema=schema)
        job = carry_out(
            client, worker, create(client, solver={"name": "newton"}, validation={"fraction": 0.2})
        )
        assert ("sorted-by-label" in names(job["audit"])) == listed
