"""For the tests of stores a database and files of their own, without an application; for others a
worker beside the application, which takes one job each time that a test lets it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from service.jobs.engine.worker_process import Worker
from service.settings import Settings
from service.storage.blobs import Blobs, open_blobs
from service.storage.database import Database


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    settings.data_dir.mkdir(exist_ok=True)
    database = Database(settings.database_url)
    database.migrate()
    yield database
    database.close()


@pytest.fixture
def blobs(settings: Settings) -> Blobs:
    return open_blobs(settings)


@pytest.fixture
def blobs_elsewhere(settings: Settings, tmp_path: Path) -> Blobs:
    """The same files as another machine sees them, which has copied none yet."""
    return open_blobs(settings.model_copy(update={"data_dir": tmp_path / "elsewhere"}))


@pytest.fixture
def worker(client: TestClient, settings: Settings) -> Worker:
    return Worker(settings, threading.Event())
