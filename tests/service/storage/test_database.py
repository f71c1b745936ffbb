"""Transactions on SQLite: durable, exclusive for writers, rolled back on errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from service.storage.database import Database, new_id, now
from service.storage.tables import models


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = Database(f"sqlite:///{tmp_path / 'service.db'}")
    database.migrate()
    with database.write() as connection:
        connection.execute(models.insert().values(name="iris", created_at=0, last_version=0))
    yield database
    database.close()


def _version(database: Database) -> int:
    with database.read() as connection:
        found: int = connection.scalars(sa.select(models.c.last_version)).one()
    return found


def test_sqlite_is_set_for_durability(database: Database) -> None:
    """Write-ahead log, a sync with every commit, foreign keys enforced."""
    with database.read() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys")
        }
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}


def test_error_rolls_a_transaction_back(database: Database) -> None:
    """Nothing of a failed block is kept."""

    def write_half() -> None:
        with database.write() as connection:
            connection.execute(models.update().values(last_version=7))
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        write_half()
    assert _version(database) == 0


def test_read_then_write_loses_no_update(database: Database) -> None:
    """Writers that read first wait for each other: 4 threads count to 40 together."""

    def count() -> None:
        for _ in range(10):
            with database.write() as connection:
                seen = connection.scalars(sa.select(models.c.last_version)).one()
                connection.execute(models.update().values(last_version=seen + 1))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert _version(database) == 40


def test_clock_is_the_databases(database: Database) -> None:
    """`now` gives seconds since 1970."""
    with database.read() as connection:
        seconds = connection.scalars(sa.select(now())).one()
    assert abs(seconds - time.time()) < 5


def test_ids_sort_by_creation() -> None:
    """An id begins with its time, and no two are equal."""
    first = new_id("job")
    time.sleep(0.002)
    second = new_id("job")
    assert first < second
    assert len(first) == len("job_") + 32


def test_commits_tell_of_every_change_and_of_nothing_else(database: Database) -> None:
    """The number stays while others read or roll back, and changes when anybody commits."""
    elsewhere = Database(database.url)
    seen = database.commits()
    _version(database)
    _version(elsewhere)
    with pytest.raises(RuntimeError), database.write():
        raise RuntimeError
    assert database.commits() == seen
    for writer in (database, elsewhere, database):
        with writer.write() as connection:
            connection.execute(models.update().values(last_version=models.c.last_version + 1))
        assert database.commits() != seen
        seen = database.commits()
    elsewhere.close()


def test_commits_can_be_asked_after_reopening(database: Database) -> None:
    """Closing gives the connection back; asking again opens another."""
    database.commits()
    database.close()
    assert database.commits() == database.commits()
