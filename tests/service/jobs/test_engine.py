"""The engine and its worker processes: real ones, killed at bad moments."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.jobs.store import JobStore
from service.jobs.workers import Engine
from service.settings import Settings
from service.storage.blobs import open_blobs
from service.storage.database import Database
from tests.service.jobs.data import create, csv_of, files, read, upload

PATIENCE_S = 60.0
# Some seconds of work in epochs of some milliseconds.
SLOW: dict[str, Any] = {
    "solver": {"name": "pegasos", "lambda": 1e-3},
    "stopping": {"max_epochs": 10_000},
    "validation": {"fraction": 0.2},
}
ENDLESS: dict[str, Any] = {**SLOW, "stopping": {"max_epochs": 100_000_000}}


@pytest.fixture
def settings(tmp_path: Path, compiled: None) -> Settings:
    return Settings(data_dir=tmp_path / "var", workers=1, lease_s=2.5, checkpoint_s=0.1)


@pytest.fixture(scope="session")
def compiled(pytestconfig: pytest.Config) -> Iterator[None]:
    """Loops are compiled once for all engines of the tests, and kept for the next run."""
    assert pytestconfig.cache is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMBA_CACHE_DIR", str(pytestconfig.cache.mkdir("numba")))
        yield


def until(condition: Callable[[], Any]) -> Any:
    """The first true value of `condition`."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return value


def processes(engine_pid: int) -> list[psutil.Process]:
    """The engine process and all below it."""
    engine = psutil.Process(engine_pid)
    return [engine, *engine.children(recursive=True)]


def worker_pid(client: TestClient, settings: Settings, job_id: str) -> int:
    """The process that holds the job's lease."""
    database = Database(settings.database_url)
    job = JobStore(database, open_blobs(settings), 1).get(job_id)
    database.close()
    assert job.worker is not None
    return int(job.worker.rpartition(":")[2])


def progress_beyond(client: TestClient, job_id: str, epoch: int) -> Callable[[], bool]:
    def reached() -> bool:
        job = read(client, job_id)
        assert job["state"] in ("queued", "running"), job
        return bool(job["progress"]["epoch"] > epoch)

    return reached


def has_checkpoint(settings: Settings) -> bool:
    return files(settings, "checkpoints") != []


def digests(client: TestClient) -> list[str]:
    versions = client.get("/v1/models/clouds/versions").json()["versions"]
    return [version["digest"] for version in versions]


@pytest.fixture
def engine(settings: Settings) -> Engine:
    """Not started; the application's own one is off."""
    return Engine(settings)


@pytest.fixture
def client(settings: Settings, engine: Engine) -> Iterator[TestClient]:
    """The API without workers of its own, on the engine's data; the engine runs beside it."""
    with TestClient(create_app(settings.model_copy(update={"workers": 0}))) as client:
        upload(client, csv_of(4000, n_features=20))
        engine.start()
        yield client
        engine.stop()


def test_job_survives_its_killed_worker_with_the_same_model(
    client: TestClient, settings: Settings
) -> None:
    """SIGKILL in mid-training: resumed from the checkpoint, equal to the bit."""
    disturbed = create(client, **SLOW)
    until(progress_beyond(client, disturbed, 100))
    until(lambda: has_checkpoint(settings))
    before = read(client, disturbed)["elapsed_s"]
    psutil.Process(worker_pid(client, settings, disturbed)).kill()
    undisturbed = create(client, **SLOW)
    job = read(client, disturbed, wait_s=60)
    assert (job["state"], job["attempt"], job["warnings"]) == ("succeeded", 2, [])
    assert read(client, undisturbed, wait_s=60)["attempt"] == 1
    first, second = digests(client)
    assert first == second
    rows = client.get(f"/v1/jobs/{disturbed}/trace").json()["rows"]
    assert rows[0][2] < before, "the first epochs were trained again"


def test_running_job_is_canceled_within_a_second_or_so(
    client: TestClient, settings: Settings
) -> None:
    """The worker hears of it by its heartbeat, and is free for the next job."""
    job_id = create(client, **ENDLESS)
    until(progress_beyond(client, job_id, 10))
    started = time.monotonic()
    client.post(f"/v1/jobs/{job_id}/cancel")
    assert read(client, job_id, wait_s=30)["state"] == "canceled"
    assert time.monotonic() - started < 5  # less than 1 where nothing else runs
    assert read(client, create(client), wait_s=30)["state"] == "succeeded"


def test_stopped_engine_saves_its_job_and_leaves_no_process(
    client: TestClient, settings: Settings, engine: Engine
) -> None:
    """The job waits with a checkpoint; the next engine goes on from there."""
    job_id = create(client, **ENDLESS)
    until(progress_beyond(client, job_id, 10))
    assert engine.pid is not None
    running = processes(engine.pid)
    engine.stop()
    assert psutil.wait_procs(running, timeout=5)[1] == []
    job = read(client, job_id)
    assert (job["state"], job["attempt"]) == ("queued", 1)
    assert has_checkpoint(settings)
    reached = job["progress"]["epoch"]
    following = Engine(settings)
    following.start()
    until(progress_beyond(client, job_id, reached))
    assert read(client, job_id)["attempt"] == 2
    following.stop()


def test_killed_engine_process_is_started_again(
    client: TestClient, settings: Settings, engine: Engine
) -> None:
    """Its workers die with it, and the job goes on in new ones."""
    job_id = create(client, **ENDLESS)
    until(progress_beyond(client, job_id, 10))
    until(lambda: has_checkpoint(settings))
    assert engine.pid is not None
    first = engine.pid
    running = processes(first)
    psutil.Process(first).kill()
    assert psutil.wait_procs(running, timeout=5)[1] == []
    until(lambda: engine.pid not in (None, first))
    until(lambda: read(client, job_id)["attempt"] == 2)
    until(progress_beyond(client, job_id, 10))
    client.post(f"/v1/jobs/{job_id}/cancel")


PARENT = """
import sys, time
from service.jobs.workers import Engine
from service.settings import Settings
engine = Engine(Settings.model_validate_json(sys.argv[1]))
engine.start()
while engine.pid is None:
    time.sleep(0.01)
print(engine.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_outlives_a_killed_service(settings: Settings, how: signal.Signals) -> None:
    """However the API process dies: the engine sees its pipe close, and ends with its workers."""
    settings = settings.model_copy(update={"workers": 2})
    settings.data_dir.mkdir(parents=True)
    database = Database(settings.database_url)
    database.migrate()
    database.close()
    arguments = [sys.executable, "-c", PARENT, settings.model_dump_json()]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        engine_pid = int(parent.stdout.readline())
        # The engine, multiprocessing's tracker and two workers.
        until(lambda: len(processes(engine_pid)) >= 4)
        running = processes(engine_pid)
        parent.send_signal(how)
    assert psutil.wait_procs(running, timeout=20)[1] == []
