"""Differences between SQLite and PostgreSQL: connections and errors."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import structlog
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.pool import ConnectionPoolEntry

from service.errors import StorageFull, Unavailable
from service.storage.disk import close_to_others, private_file, storage_unavailable

WAIT_S = 30
"""Timeout of writers that wait for each other; transactions take milliseconds."""
STOPPED_S = 10
"""Timeout of an idle transaction; less than that of the writers that wait for it."""

_POSTGRES = {
    "connect_timeout": 5,
    # A broken network is detected in seconds; TCP's default is 15 minutes.
    "keepalives_idle": 5,
    "keepalives_interval": 5,
    "keepalives_count": 2,
    "tcp_user_timeout": 10_000,
    "application_name": "svm-service",
    "client_encoding": "utf8",  # without it, some databases answer with bytes
    # A process stopped inside a transaction must not keep its locks.
    "options": f"-c lock_timeout={WAIT_S}s -c idle_in_transaction_session_timeout={STOPPED_S}s",
}
log = structlog.stdlib.get_logger("service.storage")

_SQLITE_BUGS = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_MISUSE, sqlite3.SQLITE_RANGE)
_SQLITE_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_NOT_UTF8 = "Could not decode to UTF-8"
_POSTGRES_FULL = "53100"
_POSTGRES_DAMAGED = ("XX001", "XX002")
DAMAGED = "the database is damaged; restore a backup"
DAMAGED_RETRY_S = 60
"""It needs an operator."""
TRY_S = 5e-4
"""Time between two tries to write to SQLite while another process writes."""
_WAIT_MS = "wait_ms"
"""Entry of the `info` of a connection that writes: how long it waits for other processes."""
_LEVEL = "synchronous"
"""Entry of a connection's `info`: how SQLite syncs its commits."""


def connect(url: str, connections: int) -> sa.Engine:
    """An engine for `sqlite:///…` or `postgresql://…` with at most `connections`; parameters in the
    URL override the defaults."""
    parsed = sa.make_url(url)
    options: dict[str, Any] = {
        "pool_size": connections,
        "max_overflow": 0,
        "pool_timeout": wait_s(url),
        "json_deserializer": _read_json,
    }
    if parsed.get_backend_name() == "sqlite":
        arguments = _missing({"timeout": WAIT_S}, parsed)
        engine = sa.create_engine(parsed, connect_args=arguments, **options)
        sa.event.listen(engine, "do_connect", _close_sqlite_to_others)
        sa.event.listen(engine, "connect", _configure_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)
        return engine
    engine = sa.create_engine(
        parsed.set(drivername="postgresql+psycopg"),
        connect_args=_missing(_POSTGRES, parsed),
        pool_pre_ping=True,  # no request fails after a restart of the database
        **options,
    )
    sa.event.listen(engine, "connect", _configure_postgres)
    return engine


def wait_s(url: str) -> float:
    """Timeout of writers that wait for each other."""
    return float(str(sa.make_url(url).query.get("timeout", WAIT_S)))


@contextmanager
def failures_reported() -> Iterator[None]:
    """Raises StorageFull or Unavailable for errors of the database itself, not of a statement."""
    try:
        yield
    except BadJson as error:
        raise _damaged(error) from error
    except (sa.exc.DBAPIError, sa.exc.TimeoutError) as error:
        cause = getattr(error, "orig", None)
        code, state = (getattr(cause, name, None) for name in ("sqlite_errorcode", "sqlstate"))
        damaged = code is not None and code & 0xFF in _SQLITE_DAMAGED
        if damaged or state in _POSTGRES_DAMAGED or str(cause).startswith(_NOT_UTF8):
            raise _damaged(cause) from cause
        if isinstance(error, sa.exc.DBAPIError) and not (
            error.connection_invalidated
            or isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError)
        ):
            raise
        if code is not None and code & 0xFF in _SQLITE_BUGS:
            raise
        log.warning("database failed", cause=str(cause or error))
        if state == _POSTGRES_FULL or code == sqlite3.SQLITE_FULL:
            detail = "the database has no space left; nothing was stored"
            raise StorageFull("storage-full", detail) from cause
        raise storage_unavailable("the database does not respond") from (cause or error)


def _damaged(cause: object) -> Unavailable:
    log.critical(DAMAGED, cause=str(cause))
    return Unavailable("storage-damaged", DAMAGED, retry_after_s=DAMAGED_RETRY_S)


class BadJson(Exception):
    """A JSON column contains invalid JSON."""


def _read_json(content: str | bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError as error:
        raise BadJson(str(error)) from None


def _missing(arguments: dict[str, Any], url: sa.URL) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name not in url.query}


def _close_sqlite_to_others(
    dialect: sa.Dialect, record: ConnectionPoolEntry, arguments: list[str], _: dict[str, Any]
) -> None:
    """SQLite creates its log and index with the file mode of the database."""
    file = arguments[0]
    private_file(Path(file))
    for beside in ("-wal", "-shm"):
        close_to_others(Path(file + beside))


def _configure_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # The driver must not begin transactions by itself: `_begin_sqlite` does.
    connection.isolation_level = None
    cursor = connection.cursor()
    _write_ahead(cursor)
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _write_ahead(cursor: DBAPICursor) -> None:
    """Use a write-ahead log. Waits if another connection changes the mode or writes meanwhile."""
    # SQLite's own timeout does not apply here: the change reads first and then writes.
    cursor.execute("PRAGMA busy_timeout")
    [(wait_ms,)] = cursor.fetchall()
    deadline = time.monotonic() + wait_ms / 1000
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def _configure_postgres(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # Some servers acknowledge a commit before it is written. Stricter settings, such as waiting for
    # replicas, are kept.
    cursor = connection.cursor()
    cursor.execute(
        "SELECT set_config('synchronous_commit', 'on', false)"
        " WHERE current_setting('synchronous_commit') = 'off'"
    )
    cursor.close()
    connection.commit()


def _begin_sqlite(connection: sa.Connection) -> None:
    # In WAL mode a transaction that reads first and then writes can fail at once, despite the
    # timeout. So writing transactions take the write lock at their start.
    options = connection.get_execution_options()
    if not options.get("svm_writes", False):
        connection.exec_driver_sql("BEGIN")
        return
    level = "FULL" if options["svm_synced"] else "NORMAL"
    if connection.info.setdefault(_LEVEL, "FULL") != level:
        connection.exec_driver_sql(f"PRAGMA synchronous = {level}")
        connection.info[_LEVEL] = level
    _begin_immediate(connection)


def _begin_immediate(connection: sa.Connection) -> None:
    """SQLite itself sleeps for up to 0.1 s between two tries, while the process that writes begins
    its next transaction within a millisecond: so it would write alone for seconds."""
    sqlite = connection.connection.driver_connection
    assert isinstance(sqlite, sqlite3.Connection)
    wait_ms = connection.info.get(_WAIT_MS)
    if wait_ms is None:
        [wait_ms] = sqlite.execute("PRAGMA busy_timeout").fetchone()
        connection.info[_WAIT_MS] = wait_ms
        sqlite.execute("PRAGMA busy_timeout = 0")
    deadline = time.monotonic() + wait_ms / 1000
    while time.monotonic() < deadline:
        try:
            sqlite.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                break
            time.sleep(TRY_S)
        else:
            return
    connection.exec_driver_sql("BEGIN IMMEDIATE")
