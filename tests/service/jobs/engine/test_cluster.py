"""A Dask cluster that is not the service's own: a scheduler, workers, and two replicas."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.jobs.engine.child import Child
from service.jobs.engine.versions import versions
from service.settings import Settings
from tests.backends import ON_POSTGRES_AND_S3
from tests.service.jobs.data import create, csv_of, read, upload
from tests.service.jobs.processes import (
    ENDLESS,
    free_port,
    has_checkpoint,
    processes,
    progress_beyond,
    until,
)

pytestmark = ON_POSTGRES_AND_S3


@pytest.fixture
def settings(tmp_path: Path, backend: dict[str, str]) -> Settings:
    return Settings(
        data_dir=tmp_path / "var",
        database_url=backend["database_url"],
        blob_url=backend["blob_url"],
        workers=2,
        lease_s=2.5,
        checkpoint_s=0.1,
        dask_address=f"tcp://127.0.0.1:{free_port()}",
    )


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    """The API; its engines are the test's."""
    with TestClient(create_app(settings.model_copy(update={"workers": 0}))) as client:
        upload(client, csv_of(4000, n_features=20))
        yield client


@pytest.fixture
def scheduler(settings: Settings) -> Iterator[Child]:
    assert settings.dask_address is not None
    port = settings.dask_address.rpartition(":")[2]
    scheduler = Child("service.jobs.engine.scheduler_process", settings, "127.0.0.1", port)
    yield scheduler
    scheduler.stop()


@pytest.fixture
def workers(settings: Settings) -> Iterator[Child]:
    """The worker processes of one machine."""
    workers = Child("service.jobs.engine.worker_host", settings)
    yield workers
    workers.stop()


@pytest.fixture
def replicas(settings: Settings) -> Iterator[list[Child]]:
    """The engines of two replicas."""
    replicas = [Child("service.jobs.engine.engine_process", settings) for _ in range(2)]
    yield replicas
    for replica in replicas:
        replica.stop()


def test_jobs_outlive_the_scheduler_and_every_replica_but_one(
    client: TestClient, scheduler: Child, workers: Child, replicas: list[Child]
) -> None:
    """Workers and engines may be started first, and come back to a scheduler that was killed; a
    worker carries out one job at a time though two replicas ask it to."""
    for process in (*replicas, workers):
        process.start()
    time.sleep(1)
    scheduler.start()
    jobs = [create(client, **ENDLESS) for _ in range(3)]
    for job in jobs[:2]:
        until(progress_beyond(client, job, 10))
    assert read(client, jobs[2])["state"] == "queued"
    assert scheduler.pid is not None
    psutil.Process(scheduler.pid).kill()
    until(lambda: all(read(client, job)["state"] == "queued" for job in jobs))
    replicas[0].stop()
    for job in jobs[:2]:
        until(lambda job=job: read(client, job)["attempt"] == 2)  # type: ignore[misc]
        client.post(f"/v1/jobs/{job}/cancel")
        assert read(client, job, wait_s=30)["state"] == "canceled"
    until(progress_beyond(client, jobs[2], 10))
    assert read(client, jobs[2])["attempt"] == 1


def test_no_worker_outlives_its_host(
    client: TestClient,
    settings: Settings,
    scheduler: Child,
    workers: Child,
    replicas: list[Child],
) -> None:
    """The process of `svm-service worker` is killed, or gets SIGTERM: its workers end too, and
    after SIGTERM their jobs are saved and released."""
    for process in (scheduler, workers, replicas[0]):
        process.start()
    job = create(client, **ENDLESS)
    until(progress_beyond(client, job, 10))
    assert workers.pid is not None
    running = processes(workers.pid)
    psutil.Process(workers.pid).kill()
    until(lambda: read(client, job)["attempt"] == 2)
    assert psutil.wait_procs(running, timeout=20)[1] == []
    until(progress_beyond(client, job, read(client, job)["progress"]["epoch"]))
    assert workers.pid is not None
    running = processes(workers.pid)
    workers.stop()
    given_back = read(client, job)
    assert (given_back["state"], given_back["attempt"]) == ("queued", 2)
    assert has_checkpoint(settings)
    assert psutil.wait_procs(running, timeout=20)[1] == []


def test_worker_with_other_versions_is_refused(
    client: TestClient,
    scheduler: Child,
    workers: Child,
    replicas: list[Child],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The job waits for a fitting worker, and both ends say what differs."""
    metadata = tmp_path / "older" / "numba-0.1.dist-info" / "METADATA"
    metadata.parent.mkdir(parents=True)
    metadata.write_text("Metadata-Version: 2.1\nName: numba\nVersion: 0.1\n")
    for process in (scheduler, replicas[0]):
        process.start()
    until(lambda: all(process.pid for process in (scheduler, replicas[0])))
    with monkeypatch.context() as patch:
        patch.syspath_prepend(str(tmp_path / "older"))
        workers.start()
        until(lambda: workers.pid)
    job = create(client)
    ours = versions()["numba"]
    log = ""

    def refused() -> bool:
        nonlocal log
        log += capfd.readouterr().err
        return f"numba 0.1 here and {ours} there" in log and "refused a task" in log

    until(refused)
    assert read(client, job)["state"] == "queued"
