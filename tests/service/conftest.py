"""A database and files of their own for the tests of stores, without an application."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.storage.blobs import LocalBlobs
from service.storage.database import Database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'service.db'}")
    database.migrate()
    yield database
    database.close()


@pytest.fixture
def blobs(tmp_path: Path) -> LocalBlobs:
    return LocalBlobs(tmp_path / "blobs")
