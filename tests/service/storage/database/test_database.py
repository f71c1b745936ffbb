"""Transactions: durable, serialized if necessary, rolled back on errors."""

from __future__ import annotations

import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from service.errors import Unavailable
from service.storage.database import Database, new_id, now, present_revision, transaction_lock
from service.storage.database.tables import models
from tests.backends import ON_ALL_BACKENDS, ON_POSTGRES_AND_S3


@pytest.fixture(autouse=True)
def iris(database: Database) -> None:
    """A row to change."""
    with database.write() as connection:
        connection.execute(models.insert().values(name="iris", created_at=0, last_version=0))


def _version(database: Database) -> int:
    with database.read() as connection:
        version: int = connection.scalars(sa.select(models.c.last_version)).one()
    return version


@ON_ALL_BACKENDS
def test_database_is_configured_for_durability(database: Database) -> None:
    """SQLite: write-ahead log, a sync with every commit, foreign keys enforced. PostgreSQL: a
    commit is written before it is acknowledged, even if the server is configured otherwise, and
    locks of a stopped process time out."""
    wanted: dict[str, dict[str, Any]] = {
        "sqlite": {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1},
        "postgresql": {
            "synchronous_commit": "on",
            "lock_timeout": "30s",
            "idle_in_transaction_session_timeout": "10s",
        },
    }
    with database.read() as connection:
        name = connection.dialect.name
        ask = "PRAGMA" if name == "sqlite" else "SHOW"
        actual = {key: connection.exec_driver_sql(f"{ask} {key}").scalar() for key in wanted[name]}
    assert actual == wanted[name]


@pytest.mark.parametrize(("synced", "level"), [(True, 2), (False, 1)])
def test_only_some_commits_of_sqlite_may_be_lost_with_the_power(
    database: Database, synced: bool, level: int
) -> None:
    """The next one is synced again."""
    for wanted, expected in ((synced, level), (True, 2)):
        with database.write(synced=wanted) as connection:
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == expected


def test_locked_new_file_is_waited_for(tmp_path: Path) -> None:
    """If services start together, one enables the write-ahead log of the file; the others wait
    for its lock with the timeout of writers."""
    path = tmp_path / "service.db"
    with (
        closing(sqlite3.connect(path, isolation_level=None)) as first,
        ThreadPoolExecutor(1) as pool,
    ):
        first.execute("BEGIN IMMEDIATE")
        short, long = (Database(f"sqlite:///{path}?timeout={s}") for s in (0.1, 30))
        with pytest.raises(Unavailable):
            present_revision(short)
        waiting = pool.submit(present_revision, long)
        time.sleep(0.1)
        assert not waiting.done()
        first.execute("COMMIT")
        waiting.result()
        for database in (short, long):
            database.close()


def test_busy_writer_does_not_keep_others_out(database: Database) -> None:
    """SQLite's own wait misses the moments between the transactions of another process."""
    ended = threading.Event()

    def write_most_of_the_time() -> None:
        path = database.url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as other:
            while not ended.is_set():
                other.execute("BEGIN IMMEDIATE")
                time.sleep(4e-3)
                other.execute("COMMIT")
                time.sleep(1e-3)

    waited_s = 0.0
    with ThreadPoolExecutor(1) as pool:
        pool.submit(write_most_of_the_time)
        for _ in range(60):
            time.sleep(7e-3)
            began = time.perf_counter()
            with database.write():
                waited_s += time.perf_counter() - began
        ended.set()
    assert waited_s < 0.6


@ON_ALL_BACKENDS
def test_read_transaction_has_a_consistent_view(database: Database) -> None:
    """It does not see what others commit meanwhile."""
    with database.read() as connection:
        before = connection.scalars(sa.select(models.c.last_version)).one()
        with database.write() as other:
            other.execute(models.update().values(last_version=7))
        assert connection.scalars(sa.select(models.c.last_version)).one() == before
    assert _version(database) == 7


@ON_ALL_BACKENDS
def test_error_rolls_a_transaction_back(database: Database) -> None:
    """Nothing from a failed block is stored."""

    def write_half() -> None:
        with database.write() as connection:
            connection.execute(models.update().values(last_version=7))
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        write_half()
    assert _version(database) == 0


@ON_ALL_BACKENDS
def test_read_then_write_loses_no_update(database: Database) -> None:
    """Writers that read first wait for each other: 4 threads count to 40."""

    def count() -> None:
        for _ in range(10):
            with database.write() as connection:
                row = sa.select(models.c.last_version).with_for_update()
                seen = connection.scalars(row).one()
                connection.execute(models.update().values(last_version=seen + 1))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert _version(database) == 40


@ON_ALL_BACKENDS
def test_transaction_lock_serializes(database: Database) -> None:
    """Also without a row to lock: 4 threads insert 20 rows with 20 numbers."""

    def add() -> None:
        for _ in range(5):
            with database.write() as connection:
                transaction_lock(connection, "models")
                count = connection.scalars(sa.select(sa.func.count(models.c.name))).one()
                row = {"name": f"m{count}", "created_at": 0, "last_version": 0}
                connection.execute(models.insert().values(row))

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(add) for _ in range(4)]:
            done.result()
    with database.read() as connection:
        assert connection.scalars(sa.select(sa.func.count(models.c.name))).one() == 21


@ON_ALL_BACKENDS
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


@ON_POSTGRES_AND_S3
def test_locks_of_a_stopped_process_time_out(database: Database) -> None:
    """Others can write; when the process continues, it gets an error."""
    stopped = Database(f"{database.url}&options=-c idle_in_transaction_session_timeout=200ms")

    def stop_inside() -> None:
        with stopped.write() as connection:
            transaction_lock(connection, "models")
            connection.execute(models.update().values(last_version=7))
            with database.write() as other:
                transaction_lock(other, "models")
                other.execute(models.update().values(last_version=8))
            connection.execute(models.update().values(last_version=9))

    with pytest.raises(Unavailable):
        stop_inside()
    assert _version(database) == 8
    stopped.close()
