"""Trainings on a numeric target: which rows, which labels, and what they begin with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from service.jobs.engine.worker_process import Worker
from tests.service.jobs.data import create, csv_of, job_body, succeeded, upload

pytestmark = pytest.mark.one_application

NEWTON = {"name": "newton"}
HINGE = {"name": "newton", "loss": "hinge"}
NUMERIC = {"name": "newton", "loss": "epsilon-insensitive"}


def houses(n: int = 90, seed: int = 0, header: str = "size,kind,sold,price") -> str:
    """A table with a category and a gap in every tenth row; the price depends on both."""
    random = np.random.default_rng(seed)
    lines = [header]
    for k in range(n):
        size, kind = random.uniform(50, 200), "ab"[k % 2]
        price = 1000 * size + 20_000 * (kind == "b") + random.normal(scale=500)
        lines.append(f"{size if k % 10 else '':},{kind},{1 + k % 3},{price:.2f}")
    return "\n".join(lines) + "\n"


def trained(client: TestClient, worker: Worker, **fields: Any) -> dict[str, Any]:
    return succeeded(client, worker, create(client, **{"solver": NEWTON, **fields}))


def version(client: TestClient, job: dict[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = client.get(
        f"/v1/models/clouds/versions/{job['model']['version']}"
    ).json()
    return read


def refused(client: TestClient, path: str = "/v1/jobs", **fields: Any) -> tuple[str, str]:
    """(code, pointer)"""
    body = {"dataset_id": "latest", **fields} if "specs" in fields else job_body(**fields)
    reply = client.post(path, json=body)
    assert reply.status_code == 422, reply.text
    return reply.json()["code"], reply.json()["errors"][0]["pointer"]


def test_split_is_that_of_the_dataset(client: TestClient, worker: Worker) -> None:
    """At random, since there are no classes: the part `train` gives the same model."""
    whole = upload(client, houses())
    both = client.post(f"/v1/datasets/{whole}/split", json={"fraction": 0.3, "seed": 5}).json()
    job = trained(client, worker, dataset_id=whole, validation={"fraction": 0.3}, seed=5)
    assert job["spec"]["validation"]["stratify"] is False
    assert job["metrics"]["validation"]["n_samples"] == both["test"]["n_samples"] == 27
    part = trained(client, worker, dataset_id=both["train"]["id"], seed=5)
    assert part["certificate"] == job["certificate"]
    assert part["metrics"]["train"] == job["metrics"]["train"]


def test_each_row_is_in_one_fold(client: TestClient, worker: Worker) -> None:
    upload(client, houses(50))
    metrics = trained(client, worker, validation={"folds": 4})["metrics"]["validation"]
    assert metrics["n_samples"] == 50
    assert [fold["n_samples"] for fold in metrics["folds"]] == [13, 13, 12, 12]


def test_weights_of_rows_count(client: TestClient, worker: Worker) -> None:
    """Rows of weight 0 are left out."""
    lines = houses().replace("sold", "weight").splitlines(keepends=True)
    without = [line for line in lines if ",3," not in line]
    with_zeros = [line.replace(",3,", ",0,") for line in lines]
    costs = []
    for text in (without, with_zeros):
        upload(client, "".join(text), schema='{"weight": {"role": "weight"}}')
        costs.append(trained(client, worker, seed=1)["certificate"]["primal"])
    assert costs[0] == costs[1]


@pytest.mark.parametrize(
    ("values", "solver", "classes"),
    [(30, HINGE, [*range(30)]), (3, NUMERIC, []), (30, NEWTON, []), (3, NEWTON, [0, 1, 2])],
)
def test_loss_decides_what_whole_numbers_are(
    client: TestClient, worker: Worker, values: int, solver: dict[str, Any], classes: list[int]
) -> None:
    """Over what the dataset says, in the model and in an evaluation of it."""
    upload(client, "a,b,y\n" + "".join(f"{k % values},{k},{k % values}\n" for k in range(120)))
    job = trained(client, worker, solver=solver, scaling="standardize")
    assert version(client, job)["classes"] == classes
    body = {"dataset_id": "latest", "model": "clouds"}
    evaluation = client.post("/v1/evaluations", json=body)
    assert evaluation.status_code == 202, evaluation.text
    done = succeeded(client, worker, evaluation.json()["id"])
    metrics = client.get(f"/v1/evaluations/{done['id']}").json()["metrics"]
    assert ("mae" in metrics) is not bool(classes)
    assert metrics["trained_rows"] == 120


def test_validation_set_of_its_own(client: TestClient, worker: Worker) -> None:
    """It may have few different numbers, which alone would be classes; texts are refused."""
    few = upload(client, "price,size,kind,sold\n50000,50,a,1\n90000,90,b,1\n", target="price")
    words = upload(client, "size,kind,sold,price\n50,a,1,low\n90,b,1,high\n", target="price")
    upload(client, houses(), target="price")
    validation = {"dataset_id": few}
    metrics = trained(client, worker, validation=validation)["metrics"]["validation"]
    assert metrics["n_samples"] == 2
    assert metrics["mae"] < 30_000
    pointer = "/validation/dataset_id"
    refusal = refused(client, solver=NEWTON, validation={"dataset_id": words})
    assert refusal == ("label-mismatch", pointer)


@pytest.mark.parametrize("solver", [NEWTON, {"name": "smo"}])
def test_warm_start_on_appended_rows(
    client: TestClient, worker: Worker, solver: dict[str, Any]
) -> None:
    """The dataset stays one of numbers; a model of classes is not a start."""
    first = upload(client, houses())
    trained(client, worker, solver=solver)
    reply = client.post(
        f"/v1/datasets/{first}/append",
        content=houses(30, seed=1).encode(),
        headers={"Content-Type": "text/csv"},
    )
    assert (reply.status_code, reply.json()["target_kind"]) == (201, "numbers")
    trained(client, worker, solver=solver, warm_start_from="clouds/1")
    upload(client, csv_of())
    refusal = refused(client, solver=solver, warm_start_from="clouds/1", scaling="standardize")
    assert refusal == ("warm-start-unsupported", "/warm_start_from")


def test_search_over_c(client: TestClient, worker: Worker) -> None:
    """Entries get the loss of the dataset; all of them predict the same."""
    upload(client, houses())
    grid = {"solver": [NEWTON, {"name": "dual-coordinate-descent"}], "C": [0.1, 1.0]}
    body = {"dataset_id": "latest", "grid": grid, "model_name": "clouds", "seed": 1}
    reply = client.post("/v1/comparisons", json=body)
    assert reply.status_code == 202, reply.text
    done = succeeded(client, worker, reply.json()["id"])
    assert version(client, done)["spec"]["solver"]["loss"] == "epsilon-insensitive"
    mixed = [{"solver": NEWTON}, {"solver": HINGE}]
    assert refused(client, "/v1/comparisons", specs=mixed) == ("invalid-field", "/specs")
    weighted = [{"solver": NEWTON, "class_weight": "balanced"}]
    assert refused(client, "/v1/comparisons", specs=weighted) == ("invalid-field", "/specs/0")
