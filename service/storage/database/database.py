"""The database, SQLite or PostgreSQL: short transactions, one SQLAlchemy Core code path."""

from __future__ import annotations

import secrets
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles

from service.errors import Unavailable
from service.storage.database.dialects import connect, failures_reported, wait_s
from service.storage.database.signals import (
    JOBS_CHANGED,
    ModelChanges,
    PostgresModelChanges,
    SQLiteModelChanges,
)
from service.storage.disk import Reserve, storage_unavailable

BLOCKED_S = 1.0
"""If no transaction began or ended for this long while others waited, the database is blocked."""
CLOSE_S = 3.0
READERS, WRITERS = 8, 6
"""Connections of one process. SQLite has one writer at a time; the write queue orders them, which
SQLite's own lock would not."""
WAITING = 16
"""Threads that can wait to write while the database is blocked."""
_CHANGED = "svm_changed_models"
"""Execution option with the models that a transaction changes."""
_NOTE_CHANGE = sa.text(
    "INSERT INTO model_changes (model_name, number)"
    " VALUES (:name, (SELECT coalesce(max(number), 0) + 1 FROM model_changes))"
    " ON CONFLICT (model_name) DO UPDATE SET number = excluded.number"
)
MIGRATIONS = Path(__file__).parent / "migrations"


class now(sa.sql.functions.FunctionElement[float]):  # noqa: N801  (reads like SQL)
    """Seconds since 1970 by the database's clock, so that leases need no synchronized clocks."""

    type = sa.Float()
    inherit_cache = True


@compiles(now, "sqlite")
def _now_sqlite(element: now, compiler: sa.sql.compiler.SQLCompiler, **_: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(now, "postgresql")
def _now_postgresql(element: now, compiler: sa.sql.compiler.SQLCompiler, **_: Any) -> str:
    return "extract(epoch from clock_timestamp())::double precision"


def new_id(prefix: str) -> str:
    """An identifier such as `job_019a3f…`: creation time in milliseconds, then 80 random bits."""
    return f"{prefix}_{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


class UnusableDatabase(Exception):
    """The service cannot work with this database, or would damage it."""


class Database:
    """Connections with transactions. Safe to share between threads, not processes.

    All methods raise StorageFull if the database has no space, and Unavailable if it does not
    respond. A transaction that fails this way can still be committed, if the reply to its commit
    was lost.
    """

    def __init__(self, url: str, migrations: Path = MIGRATIONS) -> None:
        """`url` is `sqlite:///path` or `postgresql://…`; nothing is opened yet."""
        self.url = url
        self.revisions = sorted(
            (path.name[:4] for path in (migrations / "versions").glob("[0-9]*.py")), reverse=True
        )
        """Of the tables, the newest first: the names of the migrations' files."""
        self.on_jobs_changed: Callable[[], None] = lambda: None
        """Called after each commit to SQLite by which a job has changed."""
        self._migrations = migrations
        # Readers do not wait for writers, and the health check does not wait for either.
        self._reading = connect(url, READERS)
        self._is_sqlite = self._reading.dialect.name == "sqlite"
        at_once = 1 if self._is_sqlite else WRITERS
        self._writing = connect(url, at_once)
        self._checking = connect(url, 1)
        self._queue = WriteQueue(at_once, WAITING, wait_s(url))
        self._model_changes: ModelChanges | None = None
        file = self._reading.url.database if self._is_sqlite else None
        self.reserve = None if file is None else Reserve(Path(file).parent)
        """None with PostgreSQL, whose disk is another one."""

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A read-only transaction with a consistent view."""
        with failures_reported(), self._reading.connect() as connection:
            if not self._is_sqlite:
                connection.execution_options(
                    isolation_level="REPEATABLE READ", postgresql_readonly=True
                )
            with connection.begin():
                yield connection

    @contextmanager
    def write(self, *, makes_room: bool = False, synced: bool = True) -> Iterator[sa.Connection]:
        """A transaction that commits at the end of the block, and rolls back if it raises.

        With `makes_room`, for what deletes something or stops a job, it succeeds on a full disk
        too: it uses the reserve.

        Not `synced`, a loss of power can undo the commit in SQLite, until the next one: for what
        means nothing after the end of all processes of this machine.

        SQLite runs one at a time. PostgreSQL runs them concurrently, and each statement sees what
        was committed before it (READ COMMITTED): lock what a decision depends on, with
        `with_for_update` or `transaction_lock`.
        """
        changed: set[str] = set()
        with self._queue.turn(), failures_reported(), self._writing.connect() as connection:
            connection.execution_options(svm_writes=True, svm_synced=synced, **{_CHANGED: changed})
            # It begins without writing, and ends before the reserve is taken back.
            with ExitStack() as reserve, connection.begin():
                if makes_room:
                    reserve.enter_context(self.reserve_released())
                yield connection
        if changed and self._model_changes is not None:
            self._model_changes.committed(changed)
        if JOBS_CHANGED in connection.get_execution_options():
            self.on_jobs_changed()

    @contextmanager
    def reserve_released(self) -> Iterator[None]:
        """See `Reserve.released`."""
        with nullcontext() if self.reserve is None else self.reserve.released():
            yield

    def check(self) -> None:
        """Raises Unavailable if the database does not respond."""
        # SQLite answers `SELECT 1` without reading its file.
        query = "SELECT count(*) FROM sqlite_master" if self._is_sqlite else "SELECT 1"
        with failures_reported(), self._checking.connect() as connection:
            connection.exec_driver_sql(query).scalar()

    def changed_models(self) -> Collection[str] | None:
        """Names of the models that any process has changed since the last call, in microseconds;
        None if this is not known. Models that are not named have not changed.

        Only one reader may call it. The changes of other processes are reported with a delay of at
        most `signals.STALE_S`.
        """
        if self._model_changes is None:
            make = SQLiteModelChanges if self._is_sqlite else PostgresModelChanges
            try:
                self._model_changes = make(self._reading)
            except sqlite3.Error:
                return None
        return self._model_changes.take()

    def migrate(self, revision: str | None = None) -> None:
        """Upgrade the schema to a revision, by default the newest, if it is older.

        Raises UnusableDatabase, and Unavailable.
        """
        self.check_encoding()
        present = present_revision(self)
        if revision is None and present == self.revisions[0]:
            return
        if present is not None:
            self.check_revision(present)
        # Imported here: it is rarely needed, and never by workers.
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(self._migrations))
        with self.write() as connection:
            transaction_lock(connection, "migrate")
            config.attributes["connection"] = connection
            command.upgrade(config, revision or "head")

    def check_encoding(self) -> None:
        """Raises UnusableDatabase if the database cannot hold every text."""
        if not self._is_sqlite:
            with self.read() as connection:
                encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
            if encoding != "UTF8":
                raise UnusableDatabase(
                    f"the database has the encoding {encoding}, the service needs UTF8; make one "
                    "with `CREATE DATABASE name ENCODING 'UTF8' TEMPLATE template0`"
                )

    def check_revision(self, revision: str) -> None:
        """Raises UnusableDatabase for what cannot become the newest revision."""
        if revision in self.revisions:
            return
        if revision < self.revisions[-1]:
            raise UnusableDatabase(
                f"the database was made before 0.1.0 (revision {revision}), the first release, and "
                "cannot be upgraded; use another database and data directory"
            )
        raise UnusableDatabase(
            f"the database is of a newer version of svm-service (revision {revision}, this one "
            f"knows {self.revisions[0]}); install that version, or restore an older backup"
        )

    def close(self) -> None:
        """Close all connections; waits a moment for those in use by other threads."""
        if self._model_changes is not None:
            self._model_changes.close()
            self._model_changes = None
        deadline = time.monotonic() + CLOSE_S
        for engine in (self._writing, self._reading, self._checking):
            pool = engine.pool
            assert isinstance(pool, sa.QueuePool)
            while pool.checkedout() and time.monotonic() < deadline:
                time.sleep(0.01)  # a thread of a canceled request still uses it
            engine.dispose()


class WriteQueue:
    """Orders the threads that write. A waiting thread cannot serve other requests, such as reads:
    so only some may wait for a blocked database."""

    def __init__(self, at_once: int, waiting: int, wait_s: float) -> None:
        self._free = at_once
        self._most = waiting
        self._wait_s = wait_s
        self._queue: deque[threading.Event] = deque()
        self._lock = threading.Lock()
        self._moved = time.monotonic()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn and keep it for the block. Raises Unavailable after the timeout, and at
        once if too many threads wait for a blocked database."""
        ticket = threading.Event()
        with self._lock:
            if self._free > 0:
                self._free -= 1
                self._moved = time.monotonic()
                ticket.set()
            elif self._is_blocked() and len(self._queue) >= self._most:
                raise _blocked()
            else:
                self._queue.append(ticket)
        self._wait(ticket)
        try:
            yield
        finally:
            with self._lock:
                self._moved = time.monotonic()
                if self._queue:
                    self._queue.popleft().set()
                else:
                    self._free += 1

    def _wait(self, ticket: threading.Event) -> None:
        deadline = time.monotonic() + self._wait_s
        while not ticket.wait(min(BLOCKED_S, max(0.0, deadline - time.monotonic()))):
            with self._lock:
                if ticket.is_set():
                    return
                position = self._queue.index(ticket)
                too_many = position >= self._most and self._is_blocked()
                if too_many or time.monotonic() >= deadline:
                    del self._queue[position]
                    raise _blocked()

    def _is_blocked(self) -> bool:
        return time.monotonic() - self._moved > BLOCKED_S


def _blocked() -> Unavailable:
    return storage_unavailable("the database is blocked, and too many requests wait for it")


def present_revision(database: Database) -> str | None:
    """The revision of the database; None if it has no tables. Raises Unavailable."""
    with database.read() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        revision: str | None = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
        return revision


def transaction_lock(connection: sa.Connection, name: str) -> None:
    """Hold the lock of this name until the end of the transaction; others that ask for it wait.

    For decisions that depend on rows that do not exist yet, or on too many to lock. SQLite runs
    one writing transaction at a time, so it needs no lock.
    """
    if connection.dialect.name == "postgresql":
        lock = sa.func.pg_advisory_xact_lock(sa.func.hashtextextended(name, 0))
        connection.execute(sa.select(lock))


def put(connection: sa.Connection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows; those whose primary key exists are replaced."""
    connection.execute(_put(table, connection.dialect.name), rows)


@cache
def _put(table: sa.Table, dialect: str) -> sa.Insert:
    insert = (sqlite if dialect == "sqlite" else postgresql).insert(table)
    keys = [column.name for column in table.primary_key]
    new = {name: value for name, value in insert.excluded.items() if name not in keys}
    put: sa.Insert = insert.on_conflict_do_update(index_elements=keys, set_=new)
    return put


def note_change(connection: sa.Connection, model_name: str) -> None:
    """Report a change of the model at the commit of this transaction."""
    # With a lock, so that numbers become visible in ascending order.
    transaction_lock(connection, "model changes")
    connection.execute(_NOTE_CHANGE, {"name": model_name})
    connection.get_execution_options()[_CHANGED].add(model_name)
