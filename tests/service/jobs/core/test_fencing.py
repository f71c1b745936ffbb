"""A worker that was thought dead and comes back: real processes, stopped and continued."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from starlette.testclient import TestClient

from service.app import create_app
from service.jobs.engine.child import Child
from service.settings import Settings
from tests.service.jobs.data import create, csv_of, files, read, upload
from tests.service.jobs.processes import ENDLESS, progress_beyond, worker_pid
from tests.waiting import until

LEASE_S = 2.5


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "var", workers=2, lease_s=LEASE_S, checkpoint_s=0.1)


@pytest.fixture
def client(settings: Settings) -> Iterator[TestClient]:
    """The API, and an engine of two workers beside it."""
    engine = Child("service.jobs.engine.supervisor", settings)
    with TestClient(create_app(settings.model_copy(update={"workers": 0}))) as client:
        upload(client, csv_of(4000, n_features=20))
        engine.start()
        yield client
        engine.stop()


def pause_outside_transactions(worker: psutil.Process, settings: Settings) -> None:
    """SIGSTOP at a moment when the worker does not hold SQLite's write lock."""
    path = settings.database_url.removeprefix("sqlite:///")
    while True:
        worker.suspend()
        time.sleep(0.1)  # the signal has reached all of its threads
        connection = sqlite3.connect(path, timeout=0.2, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError:
            worker.resume()
            time.sleep(0.05)
        finally:
            connection.close()


def everything(settings: Settings, job_id: str) -> Any:
    """All that is kept of a job: its row, trace and events, and all files."""
    path = settings.database_url.removeprefix("sqlite:///")
    with sqlite3.connect(path) as connection:
        rows = [
            connection.execute(f"SELECT * FROM {table} WHERE {key} = ?", (job_id,)).fetchall()
            for table, key in (("jobs", "id"), ("job_trace", "job_id"), ("job_events", "job_id"))
        ]
        rows.append(connection.execute("SELECT * FROM model_versions").fetchall())
    connection.close()
    return rows, files(settings, "checkpoints"), files(settings, "models")


@pytest.mark.long
def test_worker_continued_after_its_lease_can_write_nothing(
    client: TestClient, settings: Settings
) -> None:
    """Stopped past its lease, it loses the job to another worker. While that one is stopped,
    too, so that no other process writes, the first one is continued: not one byte of the job
    changes, and it takes another job."""
    job_id = create(client, **ENDLESS)
    until(progress_beyond(client, job_id, 10))
    stale = psutil.Process(worker_pid(settings, job_id))
    known = [stale]
    pause_outside_transactions(stale, settings)
    try:
        until(lambda: read(client, job_id)["attempt"] == 2)
        until(progress_beyond(client, job_id, read(client, job_id)["progress"]["epoch"]))
        holder = psutil.Process(worker_pid(settings, job_id))
        assert holder.pid != stale.pid
        known.append(holder)
        pause_outside_transactions(holder, settings)
        before = everything(settings, job_id)
        stale.resume()
        time.sleep(LEASE_S / 4)  # well before the holder's own lease runs out
        rows, checkpoints, models = everything(settings, job_id)
        assert (rows, models) == (before[0], before[2])
        # It may have been stopped with a file that no row names yet; then it removes that one.
        own = {key for key in before[1] if key.startswith(f"checkpoints/{job_id}/1-")}
        assert set(before[1]) - own <= set(checkpoints) <= set(before[1])
        holder.resume()
        until(progress_beyond(client, job_id, read(client, job_id)["progress"]["epoch"]))
        assert read(client, job_id)["attempt"] == 2
        other = create(client, stopping={"max_epochs": 10})
        assert read(client, other, wait_s=30)["state"] == "succeeded"
        client.post(f"/v1/jobs/{job_id}/cancel")
    finally:
        for process in known:
            process.resume()
