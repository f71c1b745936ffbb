"""The engine and its worker processes: real ones, killed at bad moments."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.jobs.core.leases import Leases
from service.jobs.engine import worker_process
from service.jobs.engine.child import Child
from service.jobs.engine.worker_process import Worker
from service.settings import MIB, Limits, Settings
from service.storage.blobs import open_blobs
from service.storage.database import Database
from tests.service.jobs.data import create, csv_of, read, upload
from tests.service.jobs.processes import (
    ENDLESS,
    SLOW,
    has_checkpoint,
    processes,
    progress_beyond,
    worker_pid,
)
from tests.waiting import until

ENGINE = "service.jobs.engine.supervisor"


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return settings_in(tmp_path_factory.mktemp("engine"))


def settings_in(folder: Path, **others: Any) -> Settings:
    given = {"workers": 1, "lease_s": 2.5, "checkpoint_s": 0.1} | others
    return Settings(data_dir=folder / "var", **given)


@contextmanager
def api(settings: Settings) -> Iterator[TestClient]:
    """The API without workers of its own, on the engine's data."""
    with TestClient(create_app(settings.model_copy(update={"workers": 0}))) as client:
        upload(client, csv_of(4000, n_features=20))
        yield client


@pytest.fixture(scope="module")
def client(settings: Settings) -> Iterator[TestClient]:
    with api(settings) as client:
        yield client


@pytest.fixture(scope="module")
def engines(client: TestClient, settings: Settings) -> Iterator[list[Child]]:
    """Of all tests, beside the API; the last one runs."""
    engines = [Child(ENGINE, settings)]
    engines[0].start()
    yield engines
    for engine in engines:
        engine.stop()


@pytest.fixture
def engine(engines: list[Child]) -> Child:
    return engines[-1]


@pytest.mark.long
def test_job_survives_its_killed_worker_with_the_same_model(
    client: TestClient, settings: Settings, engine: Child
) -> None:
    """SIGKILL in mid-training: resumed from the checkpoint, equal to the bit."""
    disturbed = create(client, **SLOW)
    until(progress_beyond(client, disturbed, 100))
    until(lambda: has_checkpoint(settings))
    before = read(client, disturbed)["elapsed_s"]
    psutil.Process(worker_pid(settings, disturbed)).kill()
    undisturbed = create(client, **SLOW)
    job, other = (read(client, job_id, wait_s=60) for job_id in (disturbed, undisturbed))
    assert (job["state"], job["attempt"], job["warnings"]) == ("succeeded", 2, [])
    assert (other["state"], other["attempt"]) == ("succeeded", 1)
    first, second = (
        client.get(f"/v1/models/clouds/versions/{each['model']['version']}").json()["digest"]
        for each in (job, other)
    )
    assert first == second
    rows = client.get(f"/v1/jobs/{disturbed}/trace").json()["rows"]
    assert rows[0][2] < before, "the first epochs were trained again"


@pytest.mark.long
def test_killed_worker_loses_no_point_of_a_trace(
    client: TestClient, settings: Settings, engine: Child
) -> None:
    """SIGKILL of a job that waits for a lower validation error: trace, end, certificate and
    metrics are those of an undisturbed one."""
    fields: dict[str, Any] = {
        "solver": {"name": "gradient-descent", "batch_size": 400},
        "stopping": {"patience": 400, "max_epochs": 1000},
        "validation": {"fraction": 0.2},
        "trace": {"every": 20, "unit": "update"},
    }
    disturbed = create(client, **fields)
    until(progress_beyond(client, disturbed, 20))
    until(lambda: has_checkpoint(settings))
    psutil.Process(worker_pid(settings, disturbed)).kill()
    undisturbed = create(client, **fields)
    job, other = (read(client, job_id, wait_s=60) for job_id in (disturbed, undisturbed))
    assert (job["state"], job["attempt"]) == ("succeeded", 2)
    assert (other["state"], other["attempt"]) == ("succeeded", 1)
    for name in ("stop_reason", "epochs", "updates", "certificate", "metrics"):
        assert job[name] == other[name]
    traces = [client.get(f"/v1/jobs/{job_id}/trace").json() for job_id in (disturbed, undisturbed)]
    clock = traces[0]["columns"].index("elapsed_s")
    rows, expected = ([row[:clock] + row[clock + 1 :] for row in t["rows"]] for t in traces)
    assert rows == expected
    assert len(rows) > 100


@pytest.mark.long
def test_running_job_is_canceled_within_a_second_or_so(client: TestClient, engine: Child) -> None:
    """The worker hears of it by its heartbeat, and is free for the next job."""
    job_id = create(client, **ENDLESS)
    until(progress_beyond(client, job_id, 10))
    started = time.monotonic()
    client.post(f"/v1/jobs/{job_id}/cancel")
    assert read(client, job_id, wait_s=30)["state"] == "canceled"
    assert time.monotonic() - started < 5  # less than 1 where nothing else runs
    assert read(client, create(client), wait_s=30)["state"] == "succeeded"


def test_worker_reports_every_change_of_its_job(tmp_path: Path) -> None:
    """To the service, at once: that it was taken, its progress, its end."""
    changed = threading.Event()
    engine = Child(ENGINE, settings_in(tmp_path), on_told=changed.set)
    states: list[str] = []
    with api(settings_in(tmp_path)) as client:
        job_id = create(client)
        engine.start()
        while states[-1:] != ["succeeded"]:
            assert changed.wait(60)
            changed.clear()
            states.append(read(client, job_id)["state"])
        engine.stop()
    assert len(states) >= 2


def test_workers_let_requests_go_first(
    client: TestClient, settings: Settings, engine: Child
) -> None:
    """By niceness and policy, and by the group of their session, where the kernel has such."""
    job_id = create(client, **ENDLESS)
    until(progress_beyond(client, job_id, 10))
    pid = worker_pid(settings, job_id)
    for thread in psutil.Process(pid).threads():
        assert os.getpriority(os.PRIO_PROCESS, thread.id) >= worker_process.NICENESS
        assert os.sched_getscheduler(thread.id) == os.SCHED_BATCH
    group = Path(f"/proc/{pid}/autogroup")
    assert not group.exists() or group.read_text().endswith(f"nice {worker_process.NICENESS}\n")
    client.post(f"/v1/jobs/{job_id}/cancel")
    assert read(client, job_id, wait_s=30)["state"] == "canceled"


def test_stopped_engine_saves_its_job_and_leaves_no_process(
    client: TestClient, settings: Settings, engines: list[Child], engine: Child
) -> None:
    """The job waits with a checkpoint; the next engine resumes it."""
    job_id = create(client, **ENDLESS)
    until(progress_beyond(client, job_id, 10))
    assert engine.pid is not None
    running = processes(engine.pid)
    engine.stop()
    assert psutil.wait_procs(running, timeout=20)[1] == []
    job = read(client, job_id)
    assert (job["state"], job["attempt"]) == ("queued", 1)
    assert has_checkpoint(settings)
    reached = job["progress"]["epoch"]
    engines.append(Child(ENGINE, settings))
    engines[-1].start()
    until(progress_beyond(client, job_id, reached))
    assert read(client, job_id)["attempt"] == 2
    client.post(f"/v1/jobs/{job_id}/cancel")


@pytest.mark.long
def test_killed_engine_process_is_started_again(
    client: TestClient, settings: Settings, engine: Child
) -> None:
    """Its workers die with it, and the job continues in new ones."""
    job_id = create(client, **ENDLESS)
    until(progress_beyond(client, job_id, 10))
    until(lambda: has_checkpoint(settings))
    assert engine.pid is not None
    first = engine.pid
    running = processes(first)
    psutil.Process(first).kill()
    assert psutil.wait_procs(running, timeout=20)[1] == []
    until(lambda: engine.pid not in (None, first))
    until(lambda: read(client, job_id)["attempt"] == 2)
    until(progress_beyond(client, job_id, 10))
    client.post(f"/v1/jobs/{job_id}/cancel", json={"keep_model": True})
    job = read(client, job_id, wait_s=30)
    lasted = {one["name"]: one["elapsed_s"] for one in job["progress"]["phases"]}
    assert list(lasted)[:3] == ["queued", "reading", "training"]
    assert sum(lasted.values()) - lasted["queued"] == pytest.approx(job["elapsed_s"], abs=1e-6)


def test_job_that_takes_too_much_memory_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit counts the memory that the worker may write to. (The plan of the job fits. What
    breaks it is memory that something else takes in the worker's process.)"""
    (tmp_path / "sitecustomize.py").write_text(f"kept = b'x' * {150 * MIB}")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    limits = Limits(worker_memory_bytes=400 * MIB)
    settings = settings_in(tmp_path, limits=limits, lease_s=1.0)
    features = {"name": "random-fourier", "n_components": 3000, "gamma": 0.1}
    small = Child(ENGINE, settings)
    with api(settings) as client:
        job_id = create(client, features=features, solver={"name": "newton", "C": 1.0})
        small.start()
        until(lambda: read(client, job_id)["state"] not in ("queued", "running"))
        small.stop()
        job = read(client, job_id)
    assert (job["state"], job["attempt"]) == ("failed", 1)
    assert job["error"]["code"] == "out-of-memory", job["error"]


@pytest.mark.long
def test_workers_end_without_jobs_and_are_back_for_the_next(tmp_path: Path) -> None:
    """Then only the supervisor is left. A job that is queued just when they end is not missed."""
    settings = settings_in(tmp_path, workers=2)
    engine = Child("tests.service.jobs.engine.impatient", settings)
    with api(settings) as client:
        engine.start()
        pid = until(lambda: engine.pid)
        until(lambda: len(processes(pid)) >= 3)
        until(lambda: len(processes(pid)) == 1)
        for pause_s in (0.0, 0.95, 1.0, 1.05):
            time.sleep(pause_s)
            job_id = create(client)
            engine.wake()
            assert read(client, job_id, wait_s=30)["state"] == "succeeded"
        engine.stop()


@pytest.mark.long
def test_worker_that_keeps_much_memory_is_replaced(tmp_path: Path) -> None:
    """It keeps the rows of its last job: one that has grown by an eighth of its memory ends when
    there is no job, and the next one finds another."""
    limits = Limits(worker_memory_bytes=600_000_000)
    settings = settings_in(tmp_path, workers=1, limits=limits)
    engine = Child(ENGINE, settings)
    with api(settings) as client:
        rows = np.random.default_rng(0).normal(size=(120_000, 100))
        rows[:, -1] = rows[:, 0] > 0.0
        content = io.BytesIO()
        np.save(content, rows)
        headers = {"Content-Type": "application/x-npy"}
        reply = client.post("/v1/datasets", content=content.getvalue(), headers=headers)
        assert reply.status_code == 201, reply.text
        engine.start()
        pid = until(lambda: engine.pid)
        (first,) = until(lambda: [one.pid for one in processes(pid) if one.pid != pid])
        quick = {"name": "newton", "C": 1e-3}
        for _ in range(2):
            job_id = create(client, reply.json()["id"], solver=quick, scaling="none")
            engine.wake()
            assert read(client, job_id, wait_s=30)["state"] == "succeeded"
        until(lambda: first not in [one.pid for one in processes(pid)])
        engine.stop()


def test_workers_wait_for_the_lease_of_a_lost_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although it lasts longer than they stay without a job."""
    monkeypatch.setattr(worker_process, "LOOK_S", 0.05)
    monkeypatch.setattr(worker_process, "IDLE_S", 0.0)
    settings = settings_in(tmp_path)
    with api(settings) as client:
        job_id = create(client)
        database = Database(settings.database_url)
        assert Leases(database, open_blobs(settings)).take("killed", lease_s=1.0)
        database.close()
        worker = Worker(settings, threading.Event())
        assert worker.run(threading.Event(), dead=(), stays=False)
        job = read(client, job_id)
        assert (job["state"], job["attempt"]) == ("succeeded", 2)


PARENT = """
import sys, time
from service.jobs.engine.child import Child
from service.settings import Settings
engine = Child("service.jobs.engine.supervisor", Settings.model_validate_json(sys.argv[1]))
engine.start()
while engine.pid is None:
    time.sleep(0.01)
print(engine.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize(
    "how", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.torture)]
)
def test_no_process_outlives_a_killed_service(tmp_path: Path, how: signal.Signals) -> None:
    """However the API process dies: the engine sees its pipe close, and ends with its workers."""
    settings = settings_in(tmp_path, workers=2)
    settings.data_dir.mkdir(parents=True)
    database = Database(settings.database_url)
    database.migrate()
    database.close()
    arguments = [sys.executable, "-c", PARENT, settings.model_dump_json()]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        engine_pid = int(parent.stdout.readline())
        until(lambda: len(processes(engine_pid)) >= 3)  # with two workers
        running = processes(engine_pid)
        parent.send_signal(how)
    assert psutil.wait_procs(running, timeout=20)[1] == []
