"""Waiting for what worker processes do, and looking at what they left."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import psutil
from starlette.testclient import TestClient

from service.jobs.core.store import JobStore
from service.settings import Settings
from service.storage.blobs import open_blobs
from service.storage.database import Database
from tests.service.jobs.data import files, read

# Some seconds of work in epochs of some milliseconds.
SLOW: dict[str, Any] = {
    "solver": {"name": "pegasos", "lambda": 1e-3},
    "stopping": {"max_epochs": 5_000},
    "validation": {"fraction": 0.2},
}
ENDLESS: dict[str, Any] = {**SLOW, "stopping": {"max_epochs": 100_000_000}}


def processes(pid: int) -> list[psutil.Process]:
    """The process and all below it."""
    top = psutil.Process(pid)
    return [top, *top.children(recursive=True)]


def worker_pid(settings: Settings, job_id: str) -> int:
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


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])
