"""Small data sets, uploaded as callers do it."""

from __future__ import annotations

from typing import Any

import httpx2
import numpy as np
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
