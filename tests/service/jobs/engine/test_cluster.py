"""Workers on several machines: what they share is the database and the file store."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.jobs.core import events
from service.jobs.engine.child import Child
from service.settings import Settings
from tests.backends import ON_POSTGRES_AND_S3
from tests.service.jobs.data import create, csv_of, read, upload
from tests.service.jobs.processes import (
    ENDLESS,
    has_checkpoint,
    processes,
    progress_beyond,
    worker_pid,
)
from tests.waiting import until

pytestmark = ON_POSTGRES_AND_S3


@pytest.fixture
def settings(tmp_path: Path, backend: dict[str, str]) -> Settings:
    return Settings(
        data_dir=tmp_path / "var",
        database_url=backend["database_url"],
        blob_url=backend["blob_url"],
        workers=1,
        lease_s=2.5,
        checkpoint_s=0.1,
    )


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    """A replica without workers."""
    with TestClient(create_app(settings.model_copy(update={"workers": 0}))) as client:
        upload(client, csv_of(4000, n_features=20))
        yield client


@pytest.fixture
def machines(settings: Settings, tmp_path: Path) -> Iterator[list[Child]]:
    """Two machines with a worker each."""
    machines = []
    for k in range(2):
        own = settings.model_copy(update={"data_dir": tmp_path / f"machine-{k}"})
        machines.append(Child("service.jobs.engine.supervisor", own))
        machines[k].start()
    until(lambda: all(machine.pid for machine in machines))
    yield machines
    for machine in machines:
        machine.stop()


@pytest.mark.long
def test_job_continues_on_the_other_machine(
    client: TestClient, settings: Settings, machines: list[Child]
) -> None:
    """A machine is lost with all its processes: the lease expires, the checkpoint is shared."""
    job = create(client, **ENDLESS)
    until(progress_beyond(client, job, 10))
    until(lambda: has_checkpoint(settings))
    first = worker_pid(settings, job)
    lost = next(machine for machine in machines if first in _pids(machine))
    assert lost.pid is not None
    running = processes(lost.pid)
    for process in running:
        process.send_signal(signal.SIGSTOP)  # silent, as behind a broken network
    until(lambda: read(client, job)["attempt"] == 2)
    until(progress_beyond(client, job, read(client, job)["progress"]["epoch"]))
    assert worker_pid(settings, job) not in [process.pid for process in running]
    for process in running:
        process.send_signal(signal.SIGCONT)
    client.post(f"/v1/jobs/{job}/cancel")
    assert read(client, job, wait_s=30)["state"] == "canceled"


@pytest.mark.long
def test_stopped_machine_saves_its_job(
    client: TestClient, settings: Settings, machines: list[Child]
) -> None:
    """It leaves no process, and the other machine resumes the job without waiting for a lease."""
    job = create(client, **ENDLESS)
    until(progress_beyond(client, job, 10))
    first = worker_pid(settings, job)
    stopped = next(machine for machine in machines if first in _pids(machine))
    assert stopped.pid is not None
    running = processes(stopped.pid)
    reached = read(client, job)["progress"]["epoch"]
    stopped.stop()
    assert psutil.wait_procs(running, timeout=20)[1] == []
    until(progress_beyond(client, job, reached))
    assert read(client, job)["attempt"] == 2
    client.post(f"/v1/jobs/{job}/cancel")


@pytest.mark.long
def test_queued_job_wakes_a_worker_on_another_machine(
    client: TestClient, machines: list[Child]
) -> None:
    """By NOTIFY: a worker looks by itself every 5 s, and jobs of 0.2 s do not wait that long."""
    assert read(client, create(client), wait_s=60)["state"] == "succeeded"
    times = []
    for _ in range(5):
        time.sleep(0.3)
        started = time.monotonic()
        assert read(client, create(client), wait_s=30)["state"] == "succeeded"
        times.append(time.monotonic() - started)
    assert sorted(times)[2] < 2.0, times


def test_end_of_a_job_on_another_machine_wakes_the_reply(
    client: TestClient, machines: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By NOTIFY, too."""
    monkeypatch.setattr(events, "POLL_S", 600.0)
    started = time.monotonic()
    assert read(client, create(client), wait_s=60)["state"] == "succeeded"
    assert time.monotonic() - started < 55


def _pids(machine: Child) -> list[int]:
    assert machine.pid is not None
    return [process.pid for process in processes(machine.pid)]
