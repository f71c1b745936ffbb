"""What processes report to each other through the database: models that changed, queued jobs, and
jobs that changed.

A process caches the versions that references point to, and asks with every request which of them to
drop: a comparison of times, and every 20 ms of requests a query. Each change of a model gives its
name the next number in the table `model_changes`, in the same transaction (`database.note_change`);
other commits, such as the progress of a training, do not write to it.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias
from urllib.parse import quote

import sqlalchemy as sa
import structlog

from service.storage.database.dialects import connect

WORK, CHANGES = "svm_work", "svm_changes"
"""Channels of PostgreSQL's NOTIFY: a job or a part may wait for a worker; a job has changed."""
LISTEN_S = 1.0
"""How often a thread that listens looks whether it must end."""
LISTEN_RETRY_S = 5.0
"""Time until a retry to listen."""
JOBS_CHANGED = "svm_jobs_changed"
"""Execution option of a transaction: what to call after its commit if it changed a job."""
POLL_S = 0.02
"""Interval of queries while there are readers: SQLite's answers are at most this old."""
STALE_S = 0.05
"""An older answer is not used."""
RETRY_S = 1.0
"""Time until a retry to reach the database."""
CLOSE_S = 3.0
IDLE_S = 1.0
"""After this time without a reader the polling pauses."""

ANY = "*"
"""Reported instead of a name: any model may have changed."""

_NEWEST = f"SELECT '{ANY}', coalesce(max(number), 0) FROM model_changes"
_CHANGED_SINCE = "SELECT model_name, number FROM model_changes WHERE number > "

log = structlog.stdlib.get_logger("service.storage")


class SQLiteModelChanges:
    """Reports the changes of all processes to one reader: those of this one at once, those of
    others within `STALE_S`.

    The reader itself asks the database, in 10 µs: a thread could wait longer for the interpreter's
    lock than an answer may be old."""

    def __init__(self, engine: sa.Engine) -> None:
        # It does not wait for writers, only for the recovery of the log after a crash: then the
        # answer is None.
        self._connection = sqlite3.connect(
            f"file:{quote(str(engine.url.database))}?mode=rw",
            uri=True,
            timeout=0,
            isolation_level=None,
            check_same_thread=False,
        )
        self._seen = -1
        self._as_of = -float("inf")

    def take(self) -> Collection[str] | None:
        """Names of the models that were changed since the last call, or `ANY`; None if this is not
        known."""
        now = time.monotonic()
        if now - self._as_of < POLL_S:
            return ()
        self._as_of = now  # before it is asked: what this process commits meanwhile resets it
        try:
            query = _NEWEST if self._seen < 0 else f"{_CHANGED_SINCE}{self._seen:d}"
            rows = self._connection.execute(query).fetchall()
        except sqlite3.Error:
            self._as_of = -float("inf")
            return None
        self._seen = max((number for _, number in rows), default=self._seen)
        return [name for name, _ in rows]

    def committed(self, names: Iterable[str]) -> None:
        """This process has changed these models."""
        self._as_of = -float("inf")

    def close(self) -> None:
        self._connection.close()


class PostgresModelChanges:
    """The same for PostgreSQL: a thread asks the database. If there is no answer younger than
    `STALE_S`, because the database does not respond or polling has just begun, `take` returns
    None."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._changed: set[str] = set()
        self._as_of = self._asked = -float("inf")
        self._wanted, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="model-changes", daemon=True)
        self._thread.start()

    def take(self) -> Collection[str] | None:
        now = self._asked = time.monotonic()
        if not self._wanted.is_set():
            self._wanted.set()
        if now - self._as_of > STALE_S:
            return None
        if not self._changed:
            return ()
        with self._lock:
            changed, self._changed = self._changed, set()
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
        _, seen = connection.exec_driver_sql(_NEWEST).one()
        with self._lock:
            self._changed.add(ANY)
        while self._wanted.wait() and not self._closed.is_set():
            asked_at = time.monotonic()
            rows = connection.exec_driver_sql(f"{_CHANGED_SINCE}{seen:d}").all()
            with self._lock:
                self._changed.update(name for name, _ in rows)
                self._as_of = asked_at
            if asked_at - self._asked > IDLE_S:
                self._wanted.clear()
            seen = max((number for _, number in rows), default=seen)
            self._closed.wait(POLL_S)


ModelChanges: TypeAlias = SQLiteModelChanges | PostgresModelChanges


def announce_work(connection: sa.Connection) -> None:
    """Wake the workers at the commit of this transaction, on any machine at once.

    Only a hint: it may be lost, so workers look for jobs without it, too. SQLite has one service,
    whose workers are woken by their supervisor.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"NOTIFY {WORK}")


def announce_change(connection: sa.Connection) -> None:
    """Wake those that wait for a job at the commit of this transaction. Only a hint, too.

    PostgreSQL wakes all processes that listen. With SQLite this process calls
    `Database.on_jobs_changed`.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"NOTIFY {CHANGES}")
    else:
        connection.execution_options(**{JOBS_CHANGED: True})


def listen(url: str, channel: str, heard: Callable[[], None], ended: threading.Event) -> None:
    """Call `heard` in another thread after each announcement on this channel of PostgreSQL, until
    `ended` is set. Returns at once."""
    if sa.make_url(url).get_backend_name() == "postgresql":
        given = url, channel, heard, ended
        threading.Thread(target=_listen, args=given, name=channel, daemon=True).start()


def _listen(url: str, channel: str, heard: Callable[[], None], ended: threading.Event) -> None:
    import psycopg  # not needed with SQLite

    engine = connect(url, 1)
    while not ended.is_set():
        try:
            with engine.connect() as connection:
                listening = connection.connection.driver_connection
                assert isinstance(listening, psycopg.Connection)
                listening.set_autocommit(True)
                listening.execute(f"LISTEN {channel}")
                while not ended.is_set():
                    for _ in listening.notifies(timeout=LISTEN_S):
                        heard()
        except (psycopg.Error, sa.exc.SQLAlchemyError):
            ended.wait(LISTEN_RETRY_S)  # other connections report the error
    engine.dispose()
