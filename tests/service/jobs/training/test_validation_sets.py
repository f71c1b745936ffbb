"""Another dataset as the validation set of a job, and patience on its error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from tests.service.jobs.data import carry_out, create, csv_of, job_body, succeeded, upload
from tests.service.jobs.stopping import StopAfter

pytestmark = pytest.mark.one_application(checkpoint_s=0.05, lease_s=30.0)

TRAIN, OTHER = csv_of(90, n_classes=3), csv_of(60, n_classes=3, seed=5)
TABLE = "color,size,label\n" + "red,1,a\nblue,5,b\ngreen,,a\nblue,4,b\nred,2,a\nred,6,b\n" * 4
TABLE_OTHER = "label,extra,size,color\n" + "a,0,1,blue\nb,0,4,red\nb,1,,pink\na,1,2,red\n" * 2


def shuffled(text: str) -> str:
    """The same rows with the columns in the opposite order, and one more."""
    lines = [line.split(",")[::-1] for line in text.splitlines()]
    return "".join(
        ",".join([*cells, "more" if k == 0 else "7"]) + "\n" for k, cells in enumerate(lines)
    )


def evaluated(
    client: TestClient, worker: Worker, job: dict[str, Any], other: str
) -> dict[str, Any]:
    """Metrics of the job's model on another dataset."""
    model = f"clouds/{job['model']['version']}"
    reply = client.post("/v1/evaluations", json={"dataset_id": other, "model": model})
    carry_out(client, worker, reply.json()["id"])
    metrics: dict[str, Any] = client.get(f"/v1/evaluations/{reply.json()['id']}").json()["metrics"]
    return metrics


def refusal(client: TestClient, **fields: Any) -> tuple[str, str, str]:
    """(pointer, code, message)"""
    reply = client.post("/v1/jobs", json=job_body(**fields))
    assert reply.status_code == 422, reply.text
    [error] = reply.json()["errors"]
    return error["pointer"], error["code"], error["message"]


@pytest.mark.parametrize("form", ["same", "other order", "table"])
def test_metrics_are_those_of_an_evaluation(client: TestClient, worker: Worker, form: str) -> None:
    """Columns are matched by their names, levels by their texts; all rows are trained on."""
    given = {"same": OTHER, "other order": shuffled(OTHER), "table": TABLE_OTHER}[form]
    train = TABLE if form == "table" else TRAIN
    other = upload(client, given, target="label")
    data = upload(client, train)
    job_id = create(client, data, validation={"dataset_id": other}, stopping={"max_epochs": 4})
    job = succeeded(client, worker, job_id)
    assert job["spec"]["validation"] == {"dataset_id": other}
    measured, expected = job["metrics"]["validation"], evaluated(client, worker, job, other)
    assert measured["confusion_matrix"] == expected["confusion_matrix"]
    assert sum(map(sum, job["metrics"]["train"]["confusion_matrix"])) == len(train.splitlines()) - 1
    rows = client.get(f"/v1/jobs/{job_id}/trace").json()
    place = rows["columns"].index("validation_error")
    assert all(row[place] is not None for row in rows["rows"])
    card = client.get(f"/v1/models/clouds/versions/{job['model']['version']}/card")
    assert f"Dataset {other} was the validation set." in card.text


def test_probabilities_are_fitted_on_it(client: TestClient, worker: Worker) -> None:
    other = upload(client, OTHER)
    fields: dict[str, Any] = {"validation": {"dataset_id": other}, "calibration": "sigmoid"}
    job = carry_out(client, worker, create(client, upload(client, TRAIN), **fields))
    fitted = evaluated(client, worker, job, other)["calibration"]["log_loss"]
    measured = job["metrics"]["validation"]["calibration"]["log_loss"]
    assert fitted < measured < 2 * fitted  # without the rows that are measured


def test_validation_rows_that_were_trained_on_are_counted(
    client: TestClient, worker: Worker
) -> None:
    """Of another dataset, a fraction and folds; in the job, its page, and the card."""
    whole = upload(client, TRAIN)
    job = carry_out(client, worker, create(client, whole, validation={"dataset_id": whole}))
    measured = job["metrics"]["validation"]
    n = sum(map(sum, measured["confusion_matrix"]))
    assert measured["trained_rows"] == n
    [found] = [one for one in job["audit"] if one["grade"] == "error"]
    assert found["found"].startswith(f"All of the {n} validation rows are equal to training rows")
    assert "accuracy on rows that it was trained on" in client.get(f"/jobs/{job['id']}").text
    card = client.get("/v1/models/clouds/versions/1/card").json()
    assert f"All of the {n} validation rows are equal to training rows" in " ".join(card["limits"])
    lines = csv_of(40).splitlines(keepends=True)
    repeated = upload(client, "".join([*lines, *lines[1:9]]))
    for validation in ({"fraction": 0.25}, {"folds": 4}):
        job = carry_out(client, worker, create(client, repeated, validation=validation))
        assert 0 < job["metrics"]["validation"]["trained_rows"] <= 16
        assert "trained-rows" not in [one["name"] for one in job["audit"]]
    job = carry_out(
        client, worker, create(client, upload(client, csv_of(40)), validation=validation)
    )
    assert job["metrics"]["validation"]["trained_rows"] == 0


def test_rows_that_are_equal_by_chance_are_no_error(client: TestClient, worker: Worker) -> None:
    """Of two columns with two values each, almost every row has an equal one."""
    random = np.random.default_rng(0)
    rows = [
        f"{a},{b},{'yes' if a + b + random.random() > 1.2 else 'no'}"
        for a, b in random.integers(0, 2, (120, 2))
    ]
    coarse = upload(client, "\n".join(["a,b,label", *rows]))
    job = carry_out(client, worker, create(client, coarse, validation={"folds": 4}))
    assert job["metrics"]["validation"]["trained_rows"] > 100
    assert "trained-rows" not in [one["name"] for one in job["audit"]]


@pytest.mark.parametrize("validation", [{"fraction": 0.25}, {"folds": 4}, {"dataset_id": ""}])
def test_validation_rows_that_were_trained_on_are_left_out_if_asked(
    client: TestClient, worker: Worker, validation: dict[str, Any]
) -> None:
    """The headline is of the rest, and says how many there were; without a rest there is none."""
    lines = csv_of(40).splitlines(keepends=True)
    other = csv_of(30, seed=5).splitlines(keepends=True)
    given = {"dataset_id": upload(client, "".join([*lines[:9], *other[1:]]))}
    validation = given if "dataset_id" in validation else validation
    repeated = upload(client, "".join([*lines, *lines[1:9]]))
    usual, asked = (
        carry_out(
            client,
            worker,
            create(client, repeated, validation=validation, leave_out_trained=left_out),
        )["metrics"]["validation"]
        for left_out in (False, True)
    )
    assert (asked["trained_rows"], "left_out_rows" in usual) == (0, False)
    assert asked["left_out_rows"] == usual["trained_rows"] > 0
    counts = [sum(map(sum, each["confusion_matrix"])) for each in (usual, asked)]
    assert counts[0] - counts[1] == asked["left_out_rows"]
    if "dataset_id" in validation:
        fields = {"validation": {"dataset_id": repeated}, "leave_out_trained": True}
        job = carry_out(client, worker, create(client, repeated, **fields))
        assert (job["state"], job["error"]["code"]) == ("failed", "empty-data")
        assert "all rows to measure the model on are equal to" in job["error"]["detail"]


def test_other_classes_are_left_out_with_the_training_rows(
    client: TestClient, worker: Worker
) -> None:
    other = upload(client, OTHER)
    fields: dict[str, Any] = {"validation": {"dataset_id": other}, "classes": ["c0", "c2"]}
    job = carry_out(client, worker, create(client, upload(client, TRAIN), **fields))
    assert sum(map(sum, job["metrics"]["validation"]["confusion_matrix"])) == 40


def test_wrong_validation_sets(client: TestClient, worker: Worker) -> None:
    """Each is refused at its place in the request."""
    data = upload(client, csv_of(60))
    place = "/validation/dataset_id"
    wrong = {
        "unknown-class": csv_of(30, n_classes=3),
        "feature-mismatch": csv_of(30).replace("x1", "y1"),
    }
    for code, text in wrong.items():
        found = refusal(client, dataset_id=data, validation={"dataset_id": upload(client, text)})
        assert found[:2] == (place, code)
    unlabeled = upload(client, csv_of(30), target="none")
    found = refusal(client, dataset_id=data, validation={"dataset_id": unlabeled})
    assert found[1] == "target-missing"
    missing = f"ds_{'0' * 32}"
    found = refusal(client, dataset_id=data, validation={"dataset_id": missing})
    assert found[:2] == (place, "invalid-field")
    both = {"dataset_id": data, "fraction": 0.5}
    assert refusal(client, dataset_id=data, validation=both)[0] == "/validation/fraction"
    first = [
        line for line in TRAIN.splitlines(keepends=True) if not line.endswith(("c1\n", "c2\n"))
    ]
    fields = {"classes": ["c1", "c2"], "validation": {"dataset_id": upload(client, "".join(first))}}
    found = refusal(client, dataset_id=upload(client, TRAIN), **fields)
    assert found[:2] == (place, "unknown-class")
    assert "'c1', 'c2'" in found[2]


def test_it_is_not_deleted_before_the_job_ends(client: TestClient, worker: Worker) -> None:
    data, other = upload(client, TRAIN), upload(client, OTHER)
    job_id = create(client, data, validation={"dataset_id": other})
    refused = client.delete(f"/v1/datasets/{other}")
    assert (refused.status_code, refused.json()["code"]) == (409, "resource-in-use")
    carry_out(client, worker, job_id)
    assert client.delete(f"/v1/datasets/{other}").status_code == 204


PATIENT: dict[str, Any] = {
    "solver": {"name": "pegasos", "lambda": 1e-3},
    "stopping": {"patience": 4, "max_epochs": 500},
    "trace": {},
}


def test_patience_keeps_the_best_model(client: TestClient, worker: Worker) -> None:
    """Its certificate and metrics are those of the epoch with the lowest error."""
    data, other = upload(client, csv_of(200)), upload(client, csv_of(100, seed=3))
    job_id = create(client, data, validation={"dataset_id": other}, **PATIENT)
    job = carry_out(client, worker, job_id)
    assert (job["stop_reason"], job["converged"]) == ("patience", True)
    trace = client.get(f"/v1/jobs/{job_id}/trace").json()
    rows = [dict(zip(trace["columns"], row, strict=True)) for row in trace["rows"]][1:]
    lowest = min(rows, key=lambda row: row["validation_error"])
    assert job["epochs"] == lowest["epoch"] == rows[-1]["epoch"] - 4
    assert job["certificate"]["primal"] == lowest["primal"]
    accuracy = job["metrics"]["validation"]["accuracy"]
    assert accuracy == pytest.approx(1.0 - lowest["validation_error"])


def test_stopped_services_and_the_same_end(
    client: TestClient, worker: Worker, settings: Settings
) -> None:
    """A job that is resumed several times waits as long, and keeps the same model."""
    upload(client, csv_of(400))
    fields = {**PATIENT, "validation": {"fraction": 0.3}}
    fields["stopping"] = {"patience": 12, "max_epochs": 500}
    whole = carry_out(client, worker, create(client, **fields))
    job_id, attempts = create(client, **fields), 0
    while client.get(f"/v1/jobs/{job_id}").json()["state"] != "succeeded":
        attempts += 1
        Worker(settings, StopAfter(60 * attempts)).take_next_job()
    assert attempts > 1
    again = client.get(f"/v1/jobs/{job_id}").json()
    for name in ("metrics", "certificate", "stop_reason", "epochs", "updates"):
        assert again[name] == whole[name]


@pytest.mark.parametrize("validation", [None, {"folds": 3}])
def test_patience_needs_a_validation_set(
    client: TestClient, worker: Worker, validation: Any
) -> None:
    upload(client)
    found = refusal(client, stopping={"patience": 3}, validation=validation)
    assert found[:2] == ("/stopping/patience", "invalid-field")
    assert refusal(client, stopping={"patience": 0})[0] == "/stopping/patience"


def test_patience_in_a_comparison(client: TestClient, worker: Worker) -> None:
    upload(client, csv_of(200))
    body = {
        "dataset_id": "latest",
        "specs": [{"solver": {"name": "pegasos", "lambda": 1e-3}}],
        "stopping": {"patience": 4, "max_epochs": 500},
        "seed": 1,
    }
    comparison = client.post("/v1/comparisons", json=body).json()
    carry_out(client, worker, comparison["id"])
    [entry] = client.get(f"/v1/comparisons/{comparison['id']}").json()["entries"]
    assert (entry["state"], entry["stop_reason"]) == ("finished", "patience")
    refused = client.post("/v1/comparisons", json=body | {"validation": {"folds": 2}})
    assert refused.status_code == 422
