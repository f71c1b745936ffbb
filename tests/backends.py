"""Where tests keep rows and files: SQLite and a directory, or PostgreSQL and S3.

Fixtures of the tests give the first; a test or module marked with `ON_ALL_BACKENDS` runs on both.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import sqlalchemy as sa

from service.settings import Settings
from service.storage.blobs import open_blobs
from service.storage.database import Database, note_change
from service.storage.database.tables import identity, metadata, model_changes, models
from service.storage.ownership import MARKS
from tests import servers

SQLITE_AND_FILES, POSTGRES_AND_S3 = "sqlite+files", "postgres+s3"
ON_ALL_BACKENDS = pytest.mark.parametrize(
    "backend", [SQLITE_AND_FILES, POSTGRES_AND_S3], indirect=True
)
ON_POSTGRES_AND_S3 = pytest.mark.parametrize("backend", [POSTGRES_AND_S3], indirect=True)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server, started for the first test that wants it."""
    with servers.postgres() as url:
        database = Database(url)
        database.migrate()
        database.close()
        yield url


@contextmanager
def emptied(url: str) -> Iterator[str]:
    """The database, without rows at the end: that is ten times faster than a new one."""
    yield url
    database = Database(url)
    with database.write() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
    database.close()


@pytest.fixture
def postgres_database_url(postgres_url: str) -> Iterator[str]:
    """Its database, with all tables, empty."""
    with emptied(postgres_url):
        yield postgres_url


@pytest.fixture(scope="session")
def s3() -> Iterator[servers.S3]:
    """A SeaweedFS server, started for the first test that wants it."""
    with servers.seaweedfs() as s3:
        yield s3


@pytest.fixture
def s3_url(s3: servers.S3, monkeypatch: pytest.MonkeyPatch) -> str:
    """A place of its own in the bucket, and the variables that lead there."""
    for name, value in s3.environment().items():
        monkeypatch.setenv(name, value)
    return f"{s3.url}/{secrets.token_hex(8)}"


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> dict[str, str]:
    """Where rows and files are kept, as settings: SQLite and a directory, unless a test is
    marked with `ON_ALL_BACKENDS`, or all run with `--shared`."""
    usual = POSTGRES_AND_S3 if request.config.getoption("--shared") else SQLITE_AND_FILES
    if getattr(request, "param", usual) == SQLITE_AND_FILES:
        return {}
    return {
        "database_url": request.getfixturevalue("postgres_database_url"),
        "blob_url": request.getfixturevalue("s3_url"),
    }


def forget(settings: Settings) -> None:
    """Remove all rows and files of a service, which may be running."""
    database = Database(settings.database_url)
    with database.write() as connection:
        for name in connection.scalars(sa.select(models.c.name)).all():
            note_change(connection, name)
        for table in reversed(metadata.sorted_tables):
            if table not in (identity, model_changes):
                connection.execute(table.delete())
    database.close()
    blobs = open_blobs(settings)
    for key in list(blobs.keys()):
        if not key.startswith(f"{MARKS}/"):
            blobs.delete(key)
