"""Jobs with `validation: {"folds": k}`, carried out by a worker in this process."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from service.jobs.context import CHECKPOINT_LOST
from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from service.storage.blobs import open_blobs
from svm.data.splitting import fold_numbers
from svm.model.metrics import classification_metrics, confusion_matrix
from svm.model.pipeline import Pipeline
from svm.solvers import Pegasos
from svm.stopping import Stopping
from svm.training.training import Training
from tests.service.jobs.data import carry_out, create, csv_of, files, read, trained, upload
from tests.service.jobs.stopping import StopAfter, carry_out_until

pytestmark = pytest.mark.one_application(checkpoint_s=0.05, lease_s=30.0)

FOLDS = {"folds": 3}
N_SAMPLES = 61
LONG = {"max_epochs": 2000}


@pytest.fixture
def worker(client: TestClient, settings: Settings) -> Worker:
    upload(client, csv_of(N_SAMPLES, n_classes=3))
    return Worker(settings, threading.Event())


def versions(client: TestClient) -> list[dict[str, Any]]:
    """Newest first."""
    found: list[dict[str, Any]] = client.get("/v1/models/clouds/versions").json()["versions"]
    return found


def fold_is_trained(progress: dict[str, Any]) -> bool:
    return (progress["fold"] or 0) >= 2


def left_among_the_folds(client: TestClient, settings: Settings, job_id: str) -> dict[str, Any]:
    """The job, given back by a worker that was stopped when it trained a fold."""
    stopping = threading.Event()
    worker = Worker(settings, stopping)
    return carry_out_until(client, worker, job_id, stopping.set, reached=fold_is_trained)


def test_every_row_is_predicted_by_a_training_that_did_not_see_it(
    client: TestClient, worker: Worker
) -> None:
    """Folds are measured as separate trainings would be; together they make the validation
    metrics, and their mean and deviation are reported."""
    stopping = {"max_epochs": 4}
    job = trained(client, worker, validation=FOLDS, stopping=stopping)
    lines = [line.split(",") for line in csv_of(N_SAMPLES, n_classes=3).splitlines()[1:]]
    X = np.array([line[:-1] for line in lines], dtype=np.float64)
    codes = np.array([int(line[-1][1:]) for line in lines])
    numbers = fold_numbers(codes, 3, seed=1)
    pipeline = Pipeline(
        solver=Pegasos(lambda_=0.01), scaling="standardize", stopping=Stopping(max_epochs=4)
    )
    pooled = np.zeros((3, 3), dtype=np.int64)
    found = job["metrics"]["validation"]
    for k, fold in enumerate(found["folds"]):
        inside = numbers == k
        training = Training(pipeline, X[~inside], codes[~inside], seed=1)
        assert list(training)
        confusion = confusion_matrix(codes[inside], training.result().fitted.predict(X[inside]), 3)
        assert fold == {
            **classification_metrics(confusion),
            "stop_reason": "max-epochs",
            "epochs": 4,
            "relative_gap": training.result().certificate.worst.relative_gap,
        }
        pooled += confusion
    accuracies = [fold["accuracy"] for fold in found["folds"]]
    assert {name: value for name, value in found.items() if name != "folds"} == {
        **classification_metrics(pooled),
        "accuracy_mean": pytest.approx(np.mean(accuracies)),
        "accuracy_std": pytest.approx(np.std(accuracies, ddof=1)),
        "trained_rows": 0,
    }
    assert sum(map(sum, found["confusion_matrix"])) == N_SAMPLES
    assert versions(client)[0]["metrics"] == job["metrics"]


def test_model_and_curve_are_those_of_all_rows(client: TestClient, worker: Worker) -> None:
    """The same job without validation gives the same model, certificate and curve."""
    stopping = {"max_epochs": 8}
    jobs = [
        carry_out(client, worker, create(client, validation=validation, stopping=stopping))
        for validation in (FOLDS, None)
    ]
    first, second = versions(client)
    assert first["digest"] == second["digest"]
    for field in ("certificate", "epochs", "updates", "stop_reason"):
        assert jobs[0][field] == jobs[1][field]
    assert jobs[0]["metrics"]["train"] == jobs[1]["metrics"]["train"]
    curves = [client.get(f"/v1/jobs/{job['id']}/trace").json()["rows"] for job in jobs]
    assert [row[3:] for row in curves[0]] == [row[3:] for row in curves[1]]
    assert jobs[0]["progress"]["fold"] is None
    assert jobs[0]["progress"]["fraction"] == 1.0
    assert jobs[0]["progress"]["epoch"] == jobs[0]["epochs"]


def test_stopped_anywhere_and_resumed_equals_undisturbed(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """Given back in the model's training and in those of folds, again and again: the same model
    and the same metrics, and the fraction never falls."""
    fields: dict[str, Any] = {"validation": FOLDS, "stopping": LONG, "calibration": "sigmoid"}
    expected = carry_out(client, worker, create(client, **fields))
    job_id, attempts, folds, fractions = create(client, **fields), 0, set(), [0.0]
    while (job := read(client, job_id))["state"] == "queued":
        job = carry_out(client, Worker(settings, StopAfter(100 * (attempts + 1))), job_id)
        attempts += 1
        folds.add(job["progress"]["fold"])
        fractions.append(job["progress"]["fraction"])
    assert attempts >= 3
    assert len(folds) >= 2
    assert fractions == sorted(fractions)
    assert (job["state"], job["warnings"]) == ("succeeded", [])
    assert job["metrics"] == expected["metrics"]
    assert job["certificate"] == expected["certificate"]
    first, second = versions(client)
    assert first["digest"] == second["digest"]


def test_canceled_among_the_folds_the_model_is_kept(client: TestClient, worker: Worker) -> None:
    """It was trained first: what is kept is the whole model, with the folds measured so far."""
    whole = carry_out(client, worker, create(client, stopping=LONG))
    job_id = create(client, stopping=LONG, validation=FOLDS)
    job = carry_out_until(
        client,
        worker,
        job_id,
        lambda: client.post(f"/v1/jobs/{job_id}/cancel", json={"keep_model": True}),
        reached=fold_is_trained,
    )
    assert (job["state"], job["stop_reason"]) == ("canceled", "canceled")
    assert job["model"] == {"name": "clouds", "version": 2}
    assert 1 <= len(job["metrics"]["validation"]["folds"]) < 3
    assert 0.25 < job["progress"]["fraction"] < 1.0
    assert job["certificate"] == whole["certificate"]
    first, second = versions(client)
    assert first["digest"] == second["digest"]


def test_canceled_before_the_folds_the_model_so_far_is_kept(
    client: TestClient, worker: Worker
) -> None:
    """As without folds; nothing was measured."""
    stopping = {"max_epochs": 1_000_000}
    job_id = create(client, stopping=stopping, validation=FOLDS, calibration="sigmoid")
    job = carry_out_until(
        client,
        worker,
        job_id,
        lambda: client.post(f"/v1/jobs/{job_id}/cancel", json={"keep_model": True}),
    )
    assert (job["state"], job["converged"]) == ("canceled", False)
    assert set(job["metrics"]) == {"train"}
    assert "no probabilities" in " ".join(job["warnings"])
    [version] = versions(client)
    assert version["calibration"] is None
    asked = {"dataset_id": "latest", "model": "clouds", "outputs": ["probability"]}
    refused = client.post("/v1/batch-predictions", json=asked)
    assert (refused.status_code, refused.json()["code"]) == (422, "not-calibrated")


def test_checkpoint_among_the_folds_becomes_the_model_it_is_canceled_with(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """A job that waits with folds to go ends at once, with the model that was finished."""
    whole = carry_out(client, worker, create(client, stopping=LONG))
    job_id = create(client, stopping=LONG, validation=FOLDS)
    assert left_among_the_folds(client, settings, job_id)["state"] == "queued"
    client.post(f"/v1/jobs/{job_id}/cancel", json={"keep_model": True})
    job = carry_out(client, worker, job_id)
    assert (job["state"], job["certificate"]) == ("canceled", whole["certificate"])
    first, second = versions(client)
    assert first["digest"] == second["digest"]


def test_canceled_among_the_folds_without_keeping(client: TestClient, worker: Worker) -> None:
    """No version, although the model was finished."""
    job_id = create(client, stopping=LONG, validation=FOLDS)
    job = carry_out_until(
        client,
        worker,
        job_id,
        lambda: client.post(f"/v1/jobs/{job_id}/cancel"),
        reached=fold_is_trained,
    )
    assert (job["state"], job["model"]) == ("canceled", None)
    assert client.get("/v1/models/clouds").status_code == 404


def test_time_budget_is_shared(client: TestClient, worker: Worker) -> None:
    """The model and each fold get an equal share: the whole job takes no longer."""
    stopping = {"max_epochs": 1_000_000, "time_budget_s": 0.8}
    job = carry_out(client, worker, create(client, stopping=stopping, validation=FOLDS))
    assert (job["state"], job["stop_reason"]) == ("succeeded", "time-budget")
    folds = job["metrics"]["validation"]["folds"]
    assert [fold["stop_reason"] for fold in folds] == ["time-budget"] * 3
    assert job["elapsed_s"] < 5  # loading and scaling are not in the budget, nor is this machine's


def test_damaged_checkpoint_among_the_folds_costs_only_time(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """Everything starts again from the beginning, with a warning."""
    fields: dict[str, Any] = {"stopping": LONG, "validation": FOLDS}
    expected = carry_out(client, worker, create(client, **fields))
    job_id = create(client, **fields)
    left_among_the_folds(client, settings, job_id)
    (key,) = (key for key in files(settings, "checkpoints") if "/part-" not in key)
    open_blobs(settings).write(key, b"nothing")
    job = carry_out(client, worker, job_id)
    assert (job["state"], job["warnings"]) == ("succeeded", [CHECKPOINT_LOST])
    assert job["metrics"] == expected["metrics"]


def test_folds_begin_at_zero_where_the_model_does_not(client: TestClient, worker: Worker) -> None:
    """The earlier model knows their rows: to begin there would flatter them."""
    fields: dict[str, Any] = {
        "stopping": {"duality_gap": 0.02, "max_epochs": 5000},
        "solver": {"name": "dual-coordinate-descent", "lambda": 0.05},
    }
    carry_out(client, worker, create(client, **fields))
    job_id = create(client, **fields, validation=FOLDS, warm_start_from="clouds/1")
    job = carry_out(client, worker, job_id)
    assert (job["epochs"], job["warnings"]) == (0, [])
    assert all(fold["epochs"] > 0 for fold in job["metrics"]["validation"]["folds"])
