"""The jobs table in a real SQLite database."""

from __future__ import annotations

import pytest

from service.jobs.core.leases import Leases
from service.jobs.core.store import JobStore
from service.storage.blobs import Blobs
from service.storage.database import Database
from tests.service.jobs.rows import add_dataset


@pytest.fixture
def jobs(database: Database, blobs: Blobs) -> JobStore:
    return JobStore(database, blobs, queue_limit=1000)


@pytest.fixture
def leases(database: Database, blobs: Blobs) -> Leases:
    return Leases(database, blobs)


@pytest.fixture
def dataset_id(database: Database) -> str:
    return add_dataset(database)
