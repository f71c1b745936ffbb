"""A number tells of commits, so that what was read can be kept without being wrong."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from service.errors import Unavailable
from service.storage import commits
from service.storage.database import Database
from service.storage.tables import models
from tests.backends import ON_ALL_BACKENDS, ON_POSTGRES_AND_S3


@pytest.fixture
def elsewhere(database: Database) -> Iterator[Database]:
    """The same database as another process sees it; it has a row to change."""
    with database.write() as connection:
        connection.execute(models.insert().values(name="iris", created_at=0, last_version=0))
    elsewhere = Database(database.url)
    yield elsewhere
    elsewhere.close()


def _commit(database: Database) -> None:
    with database.write() as connection:
        connection.execute(models.update().values(last_version=models.c.last_version + 1))


def _read(database: Database) -> int:
    with database.read() as connection:
        found: int = connection.scalars(sa.select(models.c.last_version)).one()
    return found


def _settled(database: Database) -> object:
    """The number once it is fresh."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        first = database.commits()
        time.sleep(commits.POLL_S / 4)
        if database.commits() == first:
            return first
    raise AssertionError("the number never settles")


def test_database_that_cannot_be_opened_is_unavailable(tmp_path: Path) -> None:
    """As for readers and writers; and it is asked again once it is there."""
    folder = tmp_path / "away"
    database = Database(f"sqlite:///{folder / 'service.db'}")
    with pytest.raises(Unavailable):
        database.commits()
    folder.mkdir()
    assert database.commits() == database.commits()
    database.close()


@ON_ALL_BACKENDS
def test_every_commit_changes_the_number_and_nothing_else_does(
    database: Database, elsewhere: Database
) -> None:
    """Not those who read or roll back; but whoever commits, in this process or another."""
    for _ in range(20):  # on a busy machine a number may be too old to be trusted: then it changes
        seen = _settled(database)
        _read(database)
        _read(elsewhere)
        with pytest.raises(RuntimeError), database.write():
            raise RuntimeError
        if database.commits() == seen:
            break
    else:
        raise AssertionError("the number changes without a commit")
    for writer in (database, elsewhere, database):
        _commit(writer)
        deadline = time.monotonic() + 10
        while database.commits() == seen:
            assert time.monotonic() < deadline
        seen = _settled(database)


@ON_ALL_BACKENDS
def test_what_was_read_under_a_number_is_late_by_no_more_than_promised(
    database: Database, elsewhere: Database
) -> None:
    """A reader that reads again only when the number changes, against 100 commits elsewhere."""
    kept, number = _read(database), database.commits()
    for _ in range(100):
        _commit(elsewhere)
        committed = time.monotonic()
        while True:
            asked = time.monotonic()
            if number != (number := database.commits()):
                kept = _read(database)
            if kept == _read(elsewhere):
                break
            assert asked - committed < commits.STALE_S


@ON_ALL_BACKENDS
def test_number_can_be_asked_after_reopening(database: Database) -> None:
    """Closing gives the connection back; asking again opens another."""
    _settled(database)
    database.close()
    _settled(database)


def test_nothing_is_kept_while_the_database_is_away() -> None:
    """Without a fresh answer every number is a new one, so that readers ask for themselves."""
    database = Database("postgresql://postgres@127.0.0.1:1/nowhere")
    numbers = {database.commits() for _ in range(100)}
    assert len(numbers) == 100
    database.close()


@ON_POSTGRES_AND_S3
def test_asking_again_after_a_pause_trusts_no_old_answer(
    database: Database, elsewhere: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody polls while nobody asks; the first number afterwards is a new one."""
    monkeypatch.setattr(commits, "IDLE_S", 0.05)
    seen = _settled(database)
    time.sleep(0.3)
    _commit(elsewhere)
    assert database.commits() != seen


@ON_ALL_BACKENDS
def test_asking_costs_microseconds(database: Database) -> None:
    """It is done for every prediction, on the event loop."""
    _settled(database)
    started = time.perf_counter()
    for _ in range(10_000):
        database.commits()
    assert time.perf_counter() - started < 1.0  # 2 µs each on a quiet machine
