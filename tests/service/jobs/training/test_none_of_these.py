"""What a training learns about rows of no known class, and jobs that withhold labels."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from starlette.testclient import TestClient

from service.common.figures import percent
from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from svm.data.splitting import class_groups
from tests.service.jobs.data import carry_out, create, job_body, read, succeeded, trained, upload
from tests.service.jobs.stopping import StopAfter

pytestmark = pytest.mark.one_application(checkpoint_s=0.05, lease_s=30.0)

N_CLASSES, N_FEATURES = 6, 12
DUAL = {"name": "dual-coordinate-descent", "C": 1.0}
FRACTION = {"fraction": 0.4}


def clusters(n: int, seed: int, numbers: bool = False) -> str:
    """CSV of rows around centers that are the same for every seed, with the label last."""
    centers = 3.0 * np.random.default_rng(0).normal(size=(N_CLASSES, N_FEATURES))
    codes = np.arange(n) % N_CLASSES
    X = centers[codes] + np.random.default_rng(seed).normal(size=(n, N_FEATURES))
    lines = [",".join([*(f"x{j}" for j in range(N_FEATURES)), "label"])]
    for row, code in zip(X, codes, strict=True):
        label = str(code) if numbers else f"c{code}"
        lines.append(",".join([*(f"{value:.6f}" for value in row), label]))
    return "\n".join([*lines, ""])


def train(client: TestClient, worker: Worker, **fields: Any) -> dict[str, Any]:
    return trained(client, worker, **{"solver": DUAL, **fields})


def test_price_and_recall_are_recorded(client: TestClient, worker: Worker) -> None:
    """In the job and its version: for shares that have rows enough, the threshold and what is
    withheld; and of classes that are left out in turn, how many rows are recognized."""
    upload(client, clusters(300, seed=1))
    job = train(client, worker, validation=FRACTION, left_out_groups=3)
    found = job["metrics"]["validation"]["none_of_these"]
    assert found["n_samples"] == 120
    assert [one["withheld"] for one in found["prices"]] == [0.01, 0.02, 0.05, 0.1, 0.2]
    assert [one["mean_share"] for one in found["prices"]] == [k / 121 for k in (1, 2, 6, 12, 24)]
    assert sorted(one["threshold"] for one in found["prices"]) == [
        one["threshold"] for one in found["prices"]
    ]
    for one in found["prices"]:
        low, high = one["interval"]
        assert low < one["mean_share"] <= one["withheld"] < high
    groups = found["left_out"]
    left_out = [label for group in groups for label in group["classes"]]
    assert sorted(left_out) == [f"c{k}" for k in range(N_CLASSES)]
    numbers = class_groups(N_CLASSES, 3, seed=1)
    assert [int(label[1:]) for label in groups[0]["classes"]] == np.flatnonzero(
        numbers == 0
    ).tolist()
    assert [group["n_samples"] for group in groups] == [40, 40, 40]
    usual = next(one for one in found["prices"] if one["withheld"] == 0.05)
    assert usual["recall"] == sum(group["withheld"]["0.05"] for group in groups) / 120
    assert usual["recall"] >= 0.4
    assert job["progress"]["fraction"] == 1.0
    version = client.get("/v1/models/clouds/versions/1").json()
    assert version["metrics"] == job["metrics"]
    card = " ".join(client.get("/v1/models/clouds/versions/1/card").json()["quality"])
    assert f"{percent(usual['recall'])} of the 120 validation rows" in card
    page = client.get("/models/clouds/versions/1").text
    for words in ("Certainty below", '<td class="num">1.9 % to 9.5 %</td>', "Recognized"):
        assert words in page
    for values, said in (([0.0] * N_FEATURES, True), (clusters(1, seed=1), False)):
        if isinstance(values, str):
            values = list(map(float, values.splitlines()[1].split(",")[:N_FEATURES]))
        entries = {f"x{j}": str(value) for j, value in enumerate(values)}
        page = client.post("/models/clouds/versions/1/predict", data=entries).text
        assert ("Perhaps none of these" in page) == said


def test_left_out_classes_change_neither_model_nor_price(
    client: TestClient, worker: Worker
) -> None:
    """And without them there is no recall."""
    upload(client, clusters(120, seed=1))
    weight = {"c0": 2.0, "c5": 3.0}
    jobs = [
        train(client, worker, validation=FRACTION, class_weight=weight, **more)
        for more in ({}, {"left_out_groups": 2})
    ]
    first, second = client.get("/v1/models/clouds/versions").json()["versions"]
    assert first["digest"] == second["digest"]
    plain, measured = (job["metrics"]["validation"].pop("none_of_these") for job in jobs)
    assert jobs[0]["metrics"] == jobs[1]["metrics"]
    assert plain["left_out"] == []
    for one, other in zip(plain["prices"], measured["prices"], strict=True):
        assert one["recall"] is None
        assert one | {"recall": other["recall"]} == other


def test_stopped_anywhere_and_resumed_equals_undisturbed(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    upload(client, clusters(120, seed=1))
    fields: dict[str, Any] = {
        "solver": {"name": "pegasos", "lambda": 0.01},
        "stopping": {"max_epochs": 40},
        "validation": FRACTION,
        "left_out_groups": 3,
    }
    expected = train(client, worker, **fields)
    job_id, trainings, attempts = create(client, **fields), set(), 0
    while (job := read(client, job_id))["state"] == "queued":
        attempts += 1
        job = carry_out(client, Worker(settings, StopAfter(60 * attempts)), job_id)
        trainings.add(job["progress"]["fold"])
    assert attempts >= 3
    assert len(trainings) >= 2
    assert (job["state"], job["metrics"]) == ("succeeded", expected["metrics"])
    first, second = client.get("/v1/models/clouds/versions").json()["versions"]
    assert first["digest"] == second["digest"]


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    "fields",
    [{}, {"validation": {"folds": 3}}, {"validation": FRACTION, "stopping": {"patience": 3}}],
)
def test_rows_that_the_model_saw_tell_nothing(
    client: TestClient, worker: Worker, fields: dict[str, Any]
) -> None:
    """Neither of all rows nor of folds, nor those that ended the training."""
    upload(client, clusters(60, seed=1))
    job = train(client, worker, **{"solver": {"name": "pegasos", "lambda": 0.1}, **fields})
    assert "none_of_these" not in job["metrics"].get("validation", {})
    body = {"dataset_id": "latest", "model": "clouds", "outputs": ["label_or_none"]}
    reply = client.post("/v1/batch-predictions", json=body)
    assert (reply.status_code, reply.json()["code"]) == (422, "not-calibrated")
    assert "rows that it was not trained on" in reply.json()["detail"]
    card = client.get("/v1/models/clouds/versions/1/card").json()
    assert "withholds no label" in " ".join(card["limits"])


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "needs a validation set"),
        ({"validation": {"folds": 3}}, "needs a validation set"),
        ({"validation": FRACTION, "classes": ["c0", "c1", "c2"]}, "and the data have 3"),
        ({"validation": FRACTION, "left_out_groups": 7}, "make at most 6 groups"),
        ({"validation": FRACTION, "left_out_groups": 1}, "at least 2"),
        ({"validation": FRACTION, "stopping": {"patience": 3}}, "`patience`"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    client: TestClient, fields: dict[str, Any], words: str
) -> None:
    upload(client, clusters(60, seed=1))
    body = job_body(**{"left_out_groups": 2, **fields})
    reply = client.post("/v1/jobs", json=body)
    assert (reply.status_code, reply.json()["code"]) == (422, "invalid-field")
    [error] = reply.json()["errors"]
    assert error["pointer"] == "/left_out_groups"
    assert words in error["message"]


@pytest.mark.parametrize("numbers", [False, True])
def test_batch_predictions_have_the_answers_of_predict(
    client: TestClient, worker: Worker, tmp_path: Path, numbers: bool
) -> None:
    """In every format: null, an empty cell, or in NPY an empty text; also of an imported model."""
    upload(client, clusters(120, seed=1, numbers=numbers), schema='{"label": {"kind": "category"}}')
    train(client, worker, validation=FRACTION)
    document = client.get("/v1/models/clouds/versions/1/export", params={"format": "json"})
    headers = {"Content-Type": "application/json"}
    imported = client.post("/v1/models/copy/versions", content=document.content, headers=headers)
    assert imported.status_code == 201, imported.text
    assert imported.json()["digest"] == client.get("/v1/models/clouds/versions/1").json()["digest"]
    upload(client, clusters(60, seed=2, numbers=numbers))
    rows = [
        list(map(float, line.split(",")[:N_FEATURES]))
        for line in clusters(60, seed=2).splitlines()[1:]
    ]
    shared: dict[str, Any] = {"outputs": ["label", "label_or_none"], "withheld": 0.3}
    body = {"instances": rows, **shared}
    expected = client.post("/v1/models/clouds/predict", json=body).json()
    assert (
        client.post("/v1/models/copy/predict", json=body).json()["label_or_none"]
        == (expected["label_or_none"])
    )
    given = expected["label_or_none"]
    assert 0 < given.count(None) < 60

    def predicted(**fields: Any) -> bytes:
        body = {"dataset_id": "latest", "model": "copy", **shared, **fields}
        reply = client.post("/v1/batch-predictions", json=body)
        assert reply.status_code == 202, reply.text
        job = succeeded(client, worker, reply.json()["id"])
        assert client.get(reply.headers["Location"]).json()["withheld"] == 0.3
        return client.get(f"/v1/batch-predictions/{job['id']}/results").content

    texts = ["" if one is None else str(one) for one in given]
    head, *cells = csv.reader(io.StringIO(predicted().decode()))
    assert head == ["label", "label_or_none"]
    assert cells == [
        [str(label), text] for label, text in zip(expected["label"], texts, strict=True)
    ]
    records = [json.loads(line) for line in predicted(format="ndjson").splitlines()]
    assert [record["label_or_none"] for record in records] == given
    alone = predicted(format="npy", outputs=["label_or_none"])
    assert np.load(io.BytesIO(alone)).tolist() == texts
    path = tmp_path / "x.parquet"
    path.write_bytes(predicted(format="parquet"))
    with duckdb.connect(":memory:") as connection:
        table = connection.execute("SELECT * FROM read_parquet(?)", [str(path)]).fetchall()
    assert [list(row) for row in table] == [
        list(row) for row in zip(expected["label"], given, strict=True)
    ]
    single = predicted(outputs=["label_or_none"]).decode()
    assert [line for [line] in csv.reader(io.StringIO(single))][1:] == texts
