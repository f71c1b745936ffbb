"""Changes of models are reported, so that caches stay correct."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from service.storage.database import Database, note_change, signals
from service.storage.database.tables import models
from tests.backends import ON_ALL_BACKENDS, ON_POSTGRES_AND_S3
from tests.service.changes import reported


@pytest.fixture
def elsewhere(database: Database) -> Iterator[Database]:
    """The same database in another process; with a row to change."""
    with database.write() as connection:
        connection.execute(models.insert().values(name="iris", created_at=0, last_version=0))
    elsewhere = Database(database.url)
    yield elsewhere
    elsewhere.close()


def _change(database: Database, name: str = "iris") -> None:
    with database.write() as connection:
        connection.execute(models.update().values(last_version=models.c.last_version + 1))
        note_change(connection, name)


def _read(database: Database) -> int:
    with database.read() as connection:
        version: int = connection.scalars(sa.select(models.c.last_version)).one()
    return version


def test_missing_database_gives_none(tmp_path: Path) -> None:
    """The next call tries again."""
    folder = tmp_path / "away"
    database = Database(f"sqlite:///{folder / 'service.db'}")
    assert database.changed_models() is None
    folder.mkdir()
    assert database.changed_models() is None
    database.migrate()
    assert reported(database) == set()
    database.close()


@ON_ALL_BACKENDS
def test_own_change_is_reported_at_once(database: Database) -> None:
    """With no time for a query of the other processes' changes."""
    reported(database)
    for _ in range(100):
        _change(database)
        assert "iris" in (database.changed_models() or ())


@ON_ALL_BACKENDS
def test_a_writer_delays_no_reader(database: Database, elsewhere: Database) -> None:
    """While a transaction is open, its change is not reported, and nothing waits for it."""
    reported(database)
    with elsewhere.write() as connection:
        note_change(connection, "iris")
        assert reported(database) == set()
    assert reported(database) == {"iris"}


@ON_ALL_BACKENDS
def test_only_changes_of_models_are_reported(database: Database, elsewhere: Database) -> None:
    """Of this process or another; not of a transaction that was rolled back."""
    reported(database)
    for writer in (database, elsewhere):
        with writer.write() as connection:
            connection.execute(models.update().values(last_version=7))
        with suppress(RuntimeError), writer.write() as connection:
            note_change(connection, "digits")
            raise RuntimeError
        assert reported(database) == set()
        _change(writer)
        assert "iris" in (database.changed_models() or ()) or writer is elsewhere
        _change(writer)
        assert reported(database) == {"iris"}


@ON_ALL_BACKENDS
def test_no_concurrent_change_is_missed(database: Database, elsewhere: Database) -> None:
    """Also of a transaction that began first and commits last."""
    reported(database)
    names = {f"model-{number}" for number in range(100)}
    changed: set[str] = set()
    with ThreadPoolExecutor(4) as pool:
        changes = [pool.submit(_change, elsewhere, name) for name in names]
        while not all(change.done() for change in changes):
            changed |= reported(database)
    assert changed | reported(database) == names


@ON_ALL_BACKENDS
def test_cache_is_not_older_than_documented(database: Database, elsewhere: Database) -> None:
    """A reader that reads again only after a reported change, with 100 changes elsewhere."""
    remembered = None
    for _ in range(100):
        _change(elsewhere)
        committed = time.monotonic()
        while True:
            asked = time.monotonic()
            changed = database.changed_models()
            if changed is None or {"iris", signals.ANY} & set(changed):
                remembered = _read(database)
            if remembered == _read(elsewhere):
                break
            assert asked - committed < signals.STALE_S


@ON_ALL_BACKENDS
def test_changes_are_reported_after_reopening(database: Database) -> None:
    """Closing releases the connection; the next call opens another."""
    reported(database)
    database.close()
    names = None
    while names is None:
        names = database.changed_models()
    assert set(names) == {signals.ANY}
    _change(database)
    assert reported(database) == {"iris"}


def test_unreachable_database_gives_none() -> None:
    """Readers then query the database."""
    database = Database("postgresql://postgres@127.0.0.1:1/nowhere")
    assert {database.changed_models() for _ in range(100)} == {None}
    database.close()


@ON_POSTGRES_AND_S3
def test_first_call_after_a_pause_gives_none(
    database: Database, elsewhere: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no polling without readers."""
    monkeypatch.setattr(signals, "IDLE_S", 0.05)
    reported(database)
    time.sleep(0.3)
    _change(elsewhere)
    assert database.changed_models() is None
    assert reported(database) == {"iris"}


@ON_ALL_BACKENDS
def test_call_takes_microseconds(database: Database) -> None:
    """It runs for every prediction, on the event loop."""
    reported(database)
    started = time.perf_counter()
    for _ in range(10_000):
        database.changed_models()
    assert time.perf_counter() - started < 1.0  # 2 µs each on a quiet machine


def test_process_keeps_its_locks_on_the_log_index(database: Database) -> None:
    """To close any file of the index would drop them: the next process that opens the database
    would find no other one, and would truncate the index, which this one has mapped (SIGBUS)."""
    with database.read() as connection:
        connection.execute(sa.select(sa.func.count()).select_from(models))
        assert locks_on_index(database)
        database.changed_models()
        assert locks_on_index(database)
    assert locks_on_index(database)


def locks_on_index(database: Database) -> list[str]:
    """Of this process, as the kernel lists them."""
    index = Path(database.url.removeprefix("sqlite:///") + "-shm").stat().st_ino
    lines = Path("/proc/locks").read_text().splitlines()
    return [line for line in lines if f" {os.getpid()} " in line and f":{index} " in line]
