"""Jobs on data larger than a worker's memory: planned at creation, trained from files."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.datasets.store import DatasetStore
from service.jobs.engine.child import Child
from service.jobs.engine.worker_process import Worker
from service.rows.spec import Parsed
from service.rows.table.arrays import ArrayWriter, write_array
from service.settings import GIB, MIB, Limits, Settings
from service.storage.blobs import open_blobs
from service.storage.database import Database
from tests.service.jobs.data import carry_out, create, job_body, read, upload
from tests.service.jobs.processes import processes
from tests.waiting import until

LIMIT = 420 * MIB
BLOCKS = {"name": "pegasos", "lambda": 1e-4, "order": "blocks"}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    limits = Limits(worker_memory_bytes=LIMIT)
    return Settings(data_dir=tmp_path / "var", workers=1, limits=limits, checkpoint_s=0.5)


@pytest.fixture
def api(settings: Settings) -> Iterator[TestClient]:
    """The API without workers of its own."""
    with TestClient(create_app(settings.model_copy(update={"workers": 0}))) as client:
        yield client


def add_clouds(settings: Settings, n_samples: int, n_features: int, n_classes: int = 2) -> str:
    """Put overlapping clouds straight into the store: too large to be uploaded, or to be held."""
    blobs, database = open_blobs(settings), Database(settings.database_url)
    random = np.random.default_rng(3)
    codes = (np.arange(n_samples) * n_classes // n_samples).astype(np.int32)
    with blobs.temporary_folder() as folder:
        writer = ArrayWriter(folder / "X.npy", "<f8")
        noise = random.normal(scale=2.0, size=(10_000, n_features))
        for start in range(0, n_samples, len(noise)):
            some = codes[start : start + len(noise)]
            X = noise[: len(some)].copy()
            X[:, 0] += 4.0 * some
            writer.write(X)
        writer.finish((n_samples, n_features))
        write_array(folder / "y.npy", codes)
        parsed = Parsed(
            n_samples=n_samples,
            n_features=n_features,
            sparse=False,
            target="label",
            columns=None,
            classes=[f"c{k}" for k in range(n_classes)],
            class_counts=np.bincount(codes).tolist(),
            statistics={},
            warnings=[],
            matrix_digest=f"{n_samples} {n_features}",
            arrays=["X", "y"],
        )
        dataset, _ = DatasetStore(database, blobs).add(
            parsed, folder, name=None, media_type="application/x-npy"
        )
    database.close()
    return dataset.id


ONE_EPOCH = {"max_epochs": 1, "time_budget_s": 0.1}  # certified by its own counts


@pytest.mark.torture
@pytest.mark.parametrize(
    ("stopping", "scaling"), [(ONE_EPOCH, "none"), ({"max_epochs": 4}, "standardize")]
)
@pytest.mark.timeout(600)
def test_three_times_the_memory_of_a_worker(
    stopping: dict[str, Any], scaling: str, settings: Settings, api: TestClient
) -> None:
    """A real worker under its limit trains on rows that need three times as much, in one
    attempt, and its model is certified."""
    n_features = 500
    n_samples = 3 * LIMIT // (8 * n_features)
    add_clouds(settings, n_samples, n_features)
    job_id = create(api, solver=BLOCKS, scaling=scaling, stopping=stopping)
    engine = Child("service.jobs.engine.supervisor", settings)
    engine.start()
    until(lambda: engine.pid)
    assert engine.pid is not None
    peak = 0
    while (job := read(api, job_id))["state"] in ("queued", "running"):
        for process in processes(engine.pid):
            with contextlib.suppress(psutil.NoSuchProcess):
                peak = max(peak, process.memory_info().rss)
        time.sleep(0.05)
    engine.stop()
    print(f"peak {peak / MIB:.0f} MiB")
    assert (job["state"], job["attempt"]) == ("succeeded", 1), job
    assert job["epochs"] == stopping["max_epochs"]
    assert 0.0 < job["certificate"]["relative_gap"] < 1.0
    assert job["metrics"]["train"]["accuracy"] > 0.6
    assert peak < 0.9 * LIMIT


@pytest.fixture
def rows_of_100_mb(settings: Settings, api: TestClient) -> str:
    return add_clouds(settings, 125_000, 100, n_classes=3)


FOLLOWING: dict[str, dict[str, Any]] = {
    "pegasos": {"solver": BLOCKS, "scaling": "standardize", "validation": {"fraction": 0.3}},
    "gradient-descent": {"solver": {"name": "gradient-descent", "C": 1e-4}},
}


@pytest.mark.parametrize("name", FOLLOWING)
def test_same_model_under_any_limit(
    name: str, rows_of_100_mb: str, settings: Settings, api: TestClient
) -> None:
    """From files or in memory: digest, certificate and metrics are the same."""
    spec = {**FOLLOWING[name], "stopping": {"max_epochs": 2}}
    jobs = []
    for limit in (LIMIT, 8 * LIMIT):
        limits = Limits(worker_memory_bytes=limit)
        given = settings.model_copy(update={"limits": limits})
        worker = Worker(given, threading.Event())
        jobs.append(carry_out(api, worker, create(api, rows_of_100_mb, **spec)))
    assert [job["state"] for job in jobs] == ["succeeded", "succeeded"], jobs
    for key in ("certificate", "metrics", "updates"):
        assert jobs[0][key] == jobs[1][key]
    versions = api.get("/v1/models/clouds/versions").json()["versions"]
    assert versions[0]["digest"] == versions[1]["digest"]


@pytest.mark.long
def test_same_model_of_texts_under_any_limit(settings: Settings, api: TestClient) -> None:
    """As of numbers: of 40,000 messages."""
    random = np.random.default_rng(0)
    words = [f"word{k}" for k in range(4000)]
    lines = [" ".join(random.choice(words, size=21)) + f",c{k % 2}\n" for k in range(40_000)]
    text = "message,label\n" + "".join(lines)
    dataset_id = upload(api, text, schema='{"message": {"kind": "text"}}')
    blocks = {"name": "dual-coordinate-descent", "order": "blocks"}
    spec = {"solver": blocks, "stopping": {"max_epochs": 3}}
    jobs, in_files = [], []
    for limit in (640 * MIB, 2 * GIB):
        given = settings.model_copy(update={"limits": Limits(worker_memory_bytes=limit)})
        with TestClient(create_app(given.model_copy(update={"workers": 0}))) as client:
            asked = job_body(dataset_id, **spec)
            plan = client.post("/v1/jobs", json=asked, params={"validate_only": True}).json()
            in_files.append(plan["rows_in_files"])
            worker = Worker(given, threading.Event())
            jobs.append(carry_out(client, worker, create(client, dataset_id, **spec)))
    assert in_files == [True, False]
    assert [job["state"] for job in jobs] == ["succeeded", "succeeded"], jobs
    assert jobs[0]["certificate"] == jobs[1]["certificate"]
    versions = api.get("/v1/models/clouds/versions").json()["versions"]
    assert versions[0]["digest"] == versions[1]["digest"]


@pytest.mark.parametrize("validation", [{"fraction": 0.2}, {"folds": 2}], ids=str)
def test_probabilities_of_many_classes_are_planned_for(
    validation: dict[str, Any], settings: Settings, api: TestClient
) -> None:
    """4,950 scores of every validation row are needed at once: a worker died of them, three times,
    after all else was done."""
    dataset_id = add_clouds(settings, 10_000, 3, n_classes=100)
    spec = job_body(dataset_id, validation=validation)
    asked = [spec, spec | {"calibration": "sigmoid"}]
    params = {"validate_only": True}
    accepted, refused = (api.post("/v1/jobs", json=body, params=params) for body in asked)
    assert accepted.status_code == 200, accepted.text
    assert refused.status_code == 422
    assert refused.json()["code"] == "plan-too-large"
    [error] = refused.json()["errors"]
    assert (error["pointer"], "smaller `fraction`" in error["hint"]) == ("/calibration", True)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "each epoch": ({"name": "pegasos"}, '`order: "blocks"`'),
    "dual": ({"name": "dual-coordinate-descent", "dtype": "float32"}, '`order: "blocks"`'),
    "small batches": ({"name": "gradient-descent", "batch_size": 10}, '`order: "blocks"`'),
    "new order": ({"name": "subgradient"}, '`order: "blocks"`'),
}


@pytest.mark.parametrize("name", REFUSED)
def test_plan_that_needs_more_memory_is_refused(
    name: str, rows_of_100_mb: str, api: TestClient
) -> None:
    """At creation, with the estimate in bytes and what to do instead."""
    solver, hint = REFUSED[name]
    reply = api.post("/v1/jobs", json=job_body(rows_of_100_mb, solver=solver))
    assert reply.status_code == 422
    problem = reply.json()
    assert problem["code"] == "plan-too-large"
    assert problem["limit"] == int(0.9 * LIMIT) < problem["estimate_bytes"] < 2 * LIMIT
    [error] = problem["errors"]
    assert hint in error["hint"]
    assert error["pointer"] == "/solver/name"
