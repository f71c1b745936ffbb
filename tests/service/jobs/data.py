"""Small data sets, uploaded as callers do it."""

from __future__ import annotations

from typing import Any

import httpx2
import numpy as np
import numpy.typing as npt
from starlette.testclient import TestClient

from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from service.storage.blobs import open_blobs


def csv_of(n_samples: int = 60, n_classes: int = 2, n_features: int = 3, seed: int = 0) -> str:
    """Overlapping clouds, one for each class `c0`, `c1`, …, as CSV with the label last."""
    random = np.random.default_rng(seed)
    codes = np.arange(n_samples) % n_classes
    X = random.normal(size=(n_samples, n_features)) + codes[:, None]
    header = [*(f"x{j}" for j in range(n_features)), "label"]
    rows = [[*(f"{value:.6f}" for value in x), f"c{k}"] for x, k in zip(X, codes, strict=True)]
    return "".join(",".join(cells) + "\n" for cells in (header, *rows))


def prices(
    n: int, seed: int = 0, weight: bool = False, base: int = 100
) -> tuple[str, npt.NDArray[np.float64]]:
    """CSV whose price is `base` + 30 size - 20 age, and noise; and the prices."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    price = np.round(base + 30 * X[:, 0] - 20 * X[:, 1] + 5 * random.normal(size=n), 3)
    head, columns = "size,age,noise,price", [*X.T, price]
    if weight:
        head, columns = f"{head},weight", [*columns, random.integers(0, 3, n)]
    lines = [",".join(map(str, row)) for row in zip(*columns, strict=True)]
    return "\n".join([head, *lines]) + "\n", price


def upload(client: httpx2.Client, text: str | None = None, **query: str) -> str:
    """Upload CSV and return the dataset's id."""
    reply = client.post(
        "/v1/datasets",
        content=(csv_of() if text is None else text).encode(),
        headers={"Content-Type": "text/csv"},
        params=query,
    )
    assert reply.status_code in (200, 201), reply.text
    dataset_id: str = reply.json()["id"]
    return dataset_id


def job_body(dataset_id: str = "latest", **fields: Any) -> dict[str, Any]:
    solver = {"name": "pegasos", "lambda": 0.01}
    return {"dataset_id": dataset_id, "model_name": "clouds", "solver": solver, "seed": 1, **fields}


def create(client: httpx2.Client, dataset_id: str = "latest", **fields: Any) -> str:
    """Queue a training and return the job's id."""
    reply = client.post("/v1/jobs", json=job_body(dataset_id, **fields))
    assert reply.status_code == 202, reply.text
    job_id: str = reply.json()["id"]
    return job_id


def read(client: httpx2.Client, job_id: str, **query: Any) -> dict[str, Any]:
    reply = client.get(f"/v1/jobs/{job_id}", params=query)
    assert reply.status_code == 200, reply.text
    job: dict[str, Any] = reply.json()
    return job


def files(settings: Settings, folder: str) -> list[str]:
    """Keys of the blobs in a folder."""
    keys = open_blobs(settings).keys()
    return [key for key in keys if key.startswith(f"{folder}/")]


def carry_out(client: TestClient, worker: Worker, job_id: str) -> dict[str, Any]:
    """Let the worker take one job, which must be this one, and return it."""
    assert worker.take_next_job()
    return read(client, job_id)


def succeeded(client: TestClient, worker: Worker, job_id: str) -> dict[str, Any]:
    """The same of a job that must succeed."""
    job = carry_out(client, worker, job_id)
    assert job["state"] == "succeeded", job["error"]
    return job


def trained(client: TestClient, worker: Worker, *dataset_id: str, **fields: Any) -> dict[str, Any]:
    """The job of a training on this dataset or the latest, which must succeed."""
    return succeeded(client, worker, create(client, *dataset_id, **fields))
