"""Reports which models have changed, to invalidate caches.

A process caches the versions that references point to, and asks with every request which of them
to drop. So this takes microseconds and never waits for the network. Each change of a model gives
its name the next number in the table `model_changes`, in the same transaction
(`database.note_change`); other commits, such as the progress of a training, do not write to it.
"""

from __future__ import annotations

import mmap
import sqlite3
import threading
import time
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import sqlalchemy as sa
import structlog

POLL_S = 0.02
"""Interval of queries to PostgreSQL while there are readers."""
STALE_S = 0.05
"""An older answer is not used."""
RETRY_S = 1.0
"""Time until a retry to reach PostgreSQL."""
CLOSE_S = 3.0
INDEX_HEADER_BYTES = 48
"""Size of the first copy of the header of the log's index, which has a counter of transactions."""
IDLE_S = 1.0
"""After this time without a reader the polling pauses."""

ANY = "*"
"""Reported instead of a name: any model may have changed."""

_NEWEST = "SELECT coalesce(max(number), 0) FROM model_changes"
_CHANGED_SINCE = "SELECT model_name, number FROM model_changes WHERE number > "

log = structlog.stdlib.get_logger("service.storage")


class ModelChanges(Protocol):
    """Reports the changes of all processes, this one included, to one reader."""

    def take(self) -> Collection[str] | None:
        """Names of the models that were changed since the last call, or `ANY`; None if this is not
        known."""

    def committed(self, names: Iterable[str]) -> None:
        """This process has changed these models."""

    def close(self) -> None: ...


class SQLiteModelChanges:
    """Reads the header of the index of SQLite's log, which is in shared memory and makes a commit
    visible to all processes (https://sqlite.org/walformat.html, 2.1). The table is only read after
    a commit.

    `PRAGMA data_version` compares the same bytes, behind two file locks: 8 µs, not 0.2.
    """

    def __init__(self, engine: sa.Engine) -> None:
        path = str(engine.url.database)
        # A reader does not wait for writers, only for the recovery of the log after a crash: then
        # the answer is None. The index stays mapped while the connection is open.
        self._connection = sqlite3.connect(
            f"file:{quote(path)}?mode=rw",
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            [(self._seen,)] = self._connection.execute(_NEWEST).fetchall()
            # Stays open: closing it drops all locks of this process on the index, and the next
            # process that opens the database truncates an index without locks.
            self._file = Path(f"{path}-shm").open("rb")  # noqa: SIM115
            self._index = mmap.mmap(
                self._file.fileno(), INDEX_HEADER_BYTES, access=mmap.ACCESS_READ
            )
        except BaseException:
            self._connection.close()
            raise
        self._header = b""

    def mark(self) -> bytes:
        """Changes with every commit."""
        return self._index[:INDEX_HEADER_BYTES]

    def take(self) -> Collection[str] | None:
        first = not self._header
        header = self.mark()  # before the table: a commit in between is seen next time
        if header == self._header:
            return ()
        try:
            rows = self._connection.execute(_CHANGED_SINCE + "?", (self._seen,)).fetchall()
        except sqlite3.Error:
            return None
        self._header = header
        self._seen = max((number for _, number in rows), default=self._seen)
        return [ANY] if first else [name for name, _ in rows]

    def committed(self, names: Iterable[str]) -> None:
        pass  # the log's index shows it

    def close(self) -> None:
        """After all other connections of this process: see above."""
        self._connection.close()
        self._index.close()
        self._file.close()


class PostgresModelChanges:
    """A thread polls PostgreSQL, so that an answer is at most `STALE_S` older than the commits of
    other processes. If there is no such answer, because the database does not respond or polling
    has just begun, `take` returns None."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._changed: set[str] = set()
        self._as_of = self._asked = -float("inf")
        self._wanted, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="model-changes", daemon=True)
        self._thread.start()

    def take(self) -> Collection[str] | None:
        now = time.monotonic()
        changed: Collection[str] | None = ()
        with self._lock:
            self._asked = now
            if now - self._as_of > STALE_S:
                changed = None
            elif self._changed:
                changed, self._changed = self._changed, set()
        if not self._wanted.is_set():
            self._wanted.set()
        return changed

    def committed(self, names: Iterable[str]) -> None:
        with self._lock:
            self._changed.update(names)

    def close(self) -> None:
        self._closed.set()
        self._wanted.set()
        self._thread.join(CLOSE_S)

    def _watch(self) -> None:
        while not self._closed.is_set():
            try:
                with self._engine.connect() as connection:
                    self._poll(connection.execution_options(isolation_level="AUTOCOMMIT"))
            except sa.exc.SQLAlchemyError:
                pass  # readers get the same error and report it
            except Exception:
                log.exception("reading changes of models failed")
            self._closed.wait(RETRY_S)

    def _poll(self, connection: sa.Connection) -> None:
        # The database can have been restored from a backup, and use the same numbers again.
        seen = connection.exec_driver_sql(_NEWEST).scalar_one()
        with self._lock:
            self._changed.add(ANY)
        while self._wanted.wait() and not self._closed.is_set():
            asked_at = time.monotonic()
            rows = connection.exec_driver_sql(_CHANGED_SINCE + "%s", (seen,)).all()
            with self._lock:
                self._changed.update(name for name, _ in rows)
                self._as_of = asked_at
                if asked_at - self._asked > IDLE_S:
                    self._wanted.clear()
            seen = max((number for _, number in rows), default=seen)
            self._closed.wait(POLL_S)
