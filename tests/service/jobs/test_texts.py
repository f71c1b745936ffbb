"""Jobs on tables with columns of texts, beside numbers and categories."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from service.datasets.store import DatasetStore
from service.jobs.engine.worker_process import Worker
from service.jobs.training.admission import rows_stay_in_files
from service.jobs.training.schemas import JobCreate
from service.settings import GIB, Settings
from service.storage.blobs import open_blobs
from service.storage.database import Database
from tests.service.jobs.data import create, job_body, read, succeeded, trained, upload
from tests.service.jobs.stopping import StopAfter

pytestmark = pytest.mark.one_application(checkpoint_s=0.05, lease_s=30.0)

COLUMNS = ("message", "amount", "shop", "label")
WORDS = ("parcel", "late", "refund", "please", "card", "login", "again", "größe", "thanks", "42")
KINDS = json.dumps({"message": {"kind": "text"}, "shop": {"kind": "category"}})


def tickets(
    n: int = 90, n_classes: int = 3, seed: int = 0, order: tuple[str, ...] = COLUMNS
) -> str:
    """CSV: a message of some words, among them one of its class; some have none."""
    random = np.random.default_rng(seed)
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(order)
    for i in range(n):
        code = i % n_classes
        words = [*random.choice(WORDS, size=5).tolist(), f"own{code}"]
        row = {
            "message": "" if i % 17 == 3 else " ".join(random.permutation(words).tolist()),
            "amount": f"{random.normal(code):.3f}",
            "shop": "abc"[random.integers(3)],
            "label": f"c{code}",
        }
        writer.writerow([row[name] for name in order])
    return text.getvalue()


def add(client: TestClient, text: str) -> str:
    return upload(client, text, target="label", schema=KINDS)


def results(client: TestClient, worker: Worker, dataset_id: str) -> list[dict[str, Any]]:
    """Of a batch prediction."""
    asked = {"dataset_id": dataset_id, "model": "clouds", "outputs": ["label", "decision"]}
    reply = client.post("/v1/batch-predictions", json=asked | {"format": "ndjson"})
    assert reply.status_code == 202, reply.text
    succeeded(client, worker, reply.json()["id"])
    lines = client.get(f"{reply.headers['Location']}/results").text.splitlines()
    return [json.loads(line) for line in lines]


def test_defaults_follow_from_the_texts(client: TestClient, worker: Worker) -> None:
    """The spec shows them, in a plan and in a comparison too; what is named stays."""
    dataset_id = add(client, tickets(132, n_classes=11))
    auto = {"solver": {"name": "auto"}}
    spec = read(client, create(client, dataset_id, **auto))["spec"]
    shown = spec["solver"]["loss"], spec["multiclass"], spec["scaling"]
    assert shown == ("squared-hinge", "one-vs-rest", "standardize")
    plan = client.post(
        "/v1/jobs", json=job_body(dataset_id, **auto), params={"validate_only": True}
    )
    assert plan.json()["binary_problems"] == 11
    named = {"solver": {"name": "newton", "loss": "hinge"}, "multiclass": "one-vs-one"}
    spec = read(client, create(client, dataset_id, **named))["spec"]
    assert (spec["solver"]["loss"], spec["multiclass"]) == ("hinge", "one-vs-one")
    few = add(client, tickets())
    spec = read(client, create(client, few, solver={"name": "pegasos"}))["spec"]
    assert (spec["solver"]["loss"], spec["multiclass"]) == (None, "one-vs-rest")
    asked = {"dataset_id": dataset_id, "grid": {"solver": [{"name": "newton"}], "C": [1, 2]}}
    reply = client.post("/v1/comparisons", json=asked, params={"validate_only": True})
    specs = [entry["spec"] for entry in reply.json()["entries"]]
    assert {(one["solver"]["loss"], one["multiclass"]) for one in specs} == {
        ("squared-hinge", "one-vs-rest")
    }


def test_numbers_are_predicted_from_texts(client: TestClient, worker: Worker) -> None:
    """With the default loss for numbers, as one problem; and with intervals."""
    dataset_id = upload(client, tickets(120), target="amount", schema=KINDS)
    asked = {"solver": {"name": "auto"}, "validation": {"fraction": 0.3}}
    job = trained(client, worker, dataset_id, **asked)
    spec = job["spec"]
    assert (spec["solver"]["loss"], spec["multiclass"]) == ("epsilon-insensitive", "one-vs-one")
    assert job["metrics"]["validation"]["conformal"] is not None


def test_folds_probabilities_and_duplicates(client: TestClient, worker: Worker) -> None:
    """Each fold learns its own tokens; equal rows are found by their texts."""
    text = tickets(60)
    lines = text.splitlines(keepends=True)
    dataset_id = add(client, text + "".join(lines[1:31]))
    asked = {"solver": {"name": "auto"}, "calibration": "sigmoid", "validation": {"folds": 3}}
    job = trained(client, worker, dataset_id, **asked)
    measured = job["metrics"]["validation"]
    assert measured["accuracy"] > 0.9
    assert 0 < measured["trained_rows"] <= 60
    asked["validation"] = {"fraction": 0.3}
    job = trained(client, worker, dataset_id, **asked)
    assert job["metrics"]["validation"]["calibration"]["log_loss"] < 1.0
    assert any("message: " in text for text in job["metrics"]["encoding"])


def test_other_datasets_are_read_by_names_and_texts(client: TestClient, worker: Worker) -> None:
    """Evaluations, validation sets and batch predictions on columns in another order; a category
    is read as texts."""
    first, second = add(client, tickets()), add(client, tickets(50, seed=1))
    turned = add(client, tickets(50, seed=1, order=COLUMNS[::-1]))
    asked: dict[str, Any] = {"solver": {"name": "auto"}, "validation": {"dataset_id": turned}}
    job = trained(client, worker, first, **asked)
    assert job["metrics"]["validation"]["accuracy"] > 0.9
    assert results(client, worker, turned) == results(client, worker, second)
    evaluated = {"dataset_id": turned, "model": "clouds", "importance": True}
    reply = client.post("/v1/evaluations", json=evaluated)
    succeeded(client, worker, reply.json()["id"])
    done = client.get(reply.headers["Location"]).json()
    assert done["metrics"]["accuracy"] == job["metrics"]["validation"]["accuracy"]
    assert done["unknown_cells"] == {"unseen": {}, "missing": {}, "words": 0}
    most = done["metrics"]["importance"]["columns"][0]
    assert most["name"] == "message"
    assert most["decrease"] > 0.3
    levels = "message,amount,shop,label\n" + "".join(
        f"{'late own1 never' if i % 2 else 'own2'},1,a,{'c1' if i % 2 else 'c2'}\n"
        for i in range(20)
    )
    few = upload(
        client,
        levels,
        target="label",
        schema=json.dumps(
            {
                "message": {"kind": "category"},
                "amount": {"kind": "number"},
                "shop": {"kind": "category"},
            }
        ),
    )
    assert [row["label"] for row in results(client, worker, few)] == ["c2", "c1"] * 10
    job_id = client.get("/v1/batch-predictions").json()["batch_predictions"][0]["id"]
    shown = client.get(f"/v1/batch-predictions/{job_id}").json()["unknown_cells"]
    assert shown["words"] == 10  # "never"; pairs do not count


def test_resumed_job_has_the_model_of_an_undisturbed_one(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """Stopped again and again."""
    dataset_id = add(client, tickets(240))
    fields = {
        "solver": {"name": "pegasos", "lambda": 0.001},
        "stopping": {"max_epochs": 150},
        "validation": {"folds": 2},
    }
    whole = trained(client, worker, dataset_id, **fields)
    job_id = create(client, dataset_id, **fields)
    for looks in range(100, 2000, 100):
        Worker(settings, StopAfter(looks)).take_next_job()
        if (job := read(client, job_id))["state"] != "queued":
            break
    assert job["attempt"] > 2
    assert job["metrics"] == whole["metrics"]
    versions = client.get("/v1/models/clouds/versions").json()["versions"]
    assert len({version["digest"] for version in versions}) == 1


def test_warm_start_on_appended_rows(client: TestClient, worker: Worker) -> None:
    """The encoder stays: new words are unknown, columns are the same."""
    first = add(client, tickets())
    asked: dict[str, Any] = {"solver": {"name": "newton"}}
    trained(client, worker, first, **asked)
    reply = client.post(
        f"/v1/datasets/{first}/append",
        content=tickets(30, seed=2).encode(),
        headers={"Content-Type": "text/csv"},
    )
    assert reply.status_code == 201, reply.text
    more = reply.json()["id"]
    job = trained(client, worker, more, warm_start_from="clouds/1", **asked)
    assert job["metrics"]["train"]["accuracy"] > 0.9


@pytest.mark.parametrize("solver", ["auto", "newton"])
def test_a_million_messages_are_trained_from_files(
    client: TestClient, settings: Settings, solver: str
) -> None:
    """Of 200 characters each, in 2 GiB: their tokens would take 7 GB."""
    job = create(client, add(client, tickets(n_classes=2)), solver={"name": solver})
    spec = JobCreate.from_spec(read(client, job)["spec"])
    database = Database(settings.database_url)
    dataset = DatasetStore(database, open_blobs(settings)).get(spec.dataset_id)
    database.close()
    n = 1_000_000
    table = [one | {"characters": 200 * n * (one["kind"] == "text")} for one in dataset.table]
    many = replace(dataset, n_samples=n, table=table, size_bytes=250 * n)
    assert rows_stay_in_files(spec, many, 2 * GIB)


def test_comparison_of_texts(client: TestClient, worker: Worker) -> None:
    """Of sizes in rows and columns, and of tokens."""
    dataset_id = add(client, tickets())
    newton = {"name": "newton"}
    for asked in (
        {"specs": [{"solver": newton}, {"solver": newton, "encoding": {"tokens": "words"}}]},
        {"specs": [{"solver": newton}], "sizes": {"rows": [20, 60]}},
        {"specs": [{"solver": newton}], "sizes": {"columns": [1, 3]}},
    ):
        reply = client.post("/v1/comparisons", json={"dataset_id": dataset_id, "seed": 1, **asked})
        assert reply.status_code == 202, reply.text
        succeeded(client, worker, reply.json()["id"])
        entries = client.get(reply.headers["Location"]).json()["entries"]
        assert [entry["error"] for entry in entries] == [None, None]
        assert all(entry["validation"]["accuracy"] > 0.6 for entry in entries)


@pytest.mark.parametrize(
    ("fields", "pointer", "message"),
    [
        (
            {"encoding": {"text_weights": {"shop": 2.0}}},
            "/encoding/text_weights",
            "'shop' is not a column of texts",
        ),
        (
            {"encoding": {"text_weights": {"message": 1e300}}},
            "/encoding/text_weights/message",
            "Input should be at most 1e+100",
        ),
        ({"features": {"name": "polynomial", "degree": 2}}, "/features", "use square"),
    ],
)
def test_what_texts_cannot_have_is_refused(
    client: TestClient, fields: dict[str, Any], pointer: str, message: str
) -> None:
    reply = client.post("/v1/jobs", json=job_body(add(client, tickets()), **fields))
    assert reply.status_code == 422, reply.text
    [error] = reply.json()["errors"]
    assert error["pointer"] == pointer
    assert message in error["message"]
