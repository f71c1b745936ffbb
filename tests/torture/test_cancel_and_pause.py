"""Cancel and pause take effect within a second, at random times of the largest jobs, from loading
the data to the last metrics."""

from __future__ import annotations

import io
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import numpy.typing as npt
import pytest

from service.settings import Settings
from service.storage.blobs import open_blobs
from service.storage.database import Database, new_id
from tests.journeys.server import Server, ok, running
from tests.seeds import seed_from
from tests.service.jobs.rows import add_dataset

TRIALS = int(os.environ.get("TORTURE_TRIALS", "100"))
KERNEL_ROWS, LINEAR_ROWS, N_FEATURES = 20_000, 5_000_000, 20
GAUSSIAN = {"name": "gaussian", "gamma": "median"}
NO_GAP = {"duality_gap": 1e-12}
KERNEL: list[dict[str, Any]] = [
    {"solver": {"name": "kernel-pegasos", "lambda": 1e-4, "kernel": GAUSSIAN}, "max_epochs": 3},
    {
        "solver": {"name": "kernel-pegasos", "lambda": 1e-4, "kernel": GAUSSIAN},
        "max_epochs": 2,
        "scaling": "standardize",
        "validation": {"fraction": 0.2},
    },
]
LINEAR: list[dict[str, Any]] = [
    {"solver": {"name": "pegasos", "lambda": 1e-4}, "max_epochs": 3},
    {"solver": {"name": "subgradient", "lambda": 1e-4}, "max_epochs": 3},
    {"solver": {"name": "newton", "C": 1.0}, "max_epochs": 6},
    {"solver": {"name": "dual-coordinate-descent", "C": 1.0}, "max_epochs": 3},
    {
        "solver": {"name": "gradient-descent", "C": 1e-6, "learning_rate": 1e-3},
        "max_epochs": 8,
        "scaling": "standardize",
    },
]


@pytest.mark.torture
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("rows", "specs"), [(KERNEL_ROWS, KERNEL), (LINEAR_ROWS, LINEAR)])
def test_cancel_and_pause_take_effect_within_a_second(
    tmp_path: Path, rows: int, specs: list[dict[str, Any]]
) -> None:
    """The 99th percentile over the trials, half of them cancel, half pause; measured by a caller
    that polls the job's state."""
    chance = random.Random(seed_from("TORTURE_SEED"))
    data_dir = tmp_path / "var"
    with running(data_dir, SVM_WORKERS="1", SVM_LIMITS__WORKER_MEMORY_BYTES=str(6 << 30)) as server:
        dataset_id = _add_data(Settings(data_dir=data_dir), rows)
        durations = [_duration(server, dataset_id, spec) for spec in specs]
        taken: dict[str, list[float]] = {"cancel": [], "pause": []}
        for trial in range(TRIALS):
            action = ("cancel", "pause")[trial % 2]
            k = chance.randrange(len(specs))
            job = _train(server, dataset_id, specs[k])
            _until(server, job, lambda job: job["state"] == "running")
            time.sleep(chance.uniform(0.0, durations[k]))
            begun = time.monotonic()
            reply = server.http.post(f"/v1/jobs/{job['id']}/{action}")
            if reply.status_code == 409:  # it had just ended
                continue
            goal = {"cancel": "canceled", "pause": "paused"}[action]
            ended = _until(server, job, lambda job: job["state"] not in ("queued", "running"))
            if ended["state"] == goal:
                taken[action].append(time.monotonic() - begun)
            server.http.post(f"/v1/jobs/{job['id']}/cancel")
        for action, times in taken.items():
            p50, p99 = np.quantile(times, [0.5, 0.99])
            print(
                f"{rows} rows, {action}: {len(times)} trials, p50 {p50:.2f} s, p99 {p99:.2f} s, "
                f"max {max(times):.2f} s"
            )
            assert p99 <= 1.0


def _add_data(settings: Settings, rows: int) -> str:
    """Store a dataset directly, since its upload would take minutes."""
    random = np.random.default_rng(0)
    X = random.normal(size=(rows, N_FEATURES))
    noise = 1.5 * random.normal(size=rows)
    y = (X @ random.normal(size=N_FEATURES) + noise > 0).astype(np.int32)
    dataset_id, blobs = new_id("ds"), open_blobs(settings)
    arrays = {
        name: blobs.write(f"datasets/{dataset_id}/{name}", _npy(array)).sha256
        for name, array in (("X", X), ("y", y))
    }
    database = Database(settings.database_url)
    add_dataset(
        database,
        id=dataset_id,
        n_samples=rows,
        n_features=N_FEATURES,
        classes=["a", "b"],
        class_counts=np.bincount(y).tolist(),
        arrays=arrays,
        columns=[f"x{j}" for j in range(N_FEATURES)],
    )
    database.close()
    return dataset_id


def _npy(array: npt.NDArray[Any]) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def _train(server: Server, dataset_id: str, spec: dict[str, Any]) -> dict[str, Any]:
    rest = {name: value for name, value in spec.items() if name != "max_epochs"}
    stopping = {"max_epochs": spec["max_epochs"], **NO_GAP}
    return server.train(dataset_id, "controlled", stopping=stopping, seed=1, **rest)


def _duration(server: Server, dataset_id: str, spec: dict[str, Any]) -> float:
    job = _train(server, dataset_id, spec)
    _until(server, job, lambda job: job["state"] == "running")
    began = time.monotonic()
    job = server.finished(job, 900)
    assert job["state"] == "succeeded", job
    print(spec["solver"]["name"], f"{time.monotonic() - began:.1f} s", flush=True)
    return time.monotonic() - began


def _until(
    server: Server, job: dict[str, Any], reached: Callable[[dict[str, Any]], bool]
) -> dict[str, Any]:
    deadline = time.monotonic() + 300
    while time.monotonic() < deadline:
        reply: httpx2.Response = server.http.get(f"/v1/jobs/{job['id']}")
        now = ok(reply, 200)
        if reached(now):
            return now
        time.sleep(0.01)
    raise AssertionError(f"the state was not reached: {job}")
