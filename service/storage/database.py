"""The database: short transactions, one SQLAlchemy Core code path."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import ConnectionPoolEntry

BUSY_TIMEOUT_S = 30
"""How long a writer waits for another one; transactions here take milliseconds."""


class now(sa.sql.functions.FunctionElement[float]):  # noqa: N801  (reads as SQL does)
    """Seconds since 1970 by the database's own clock, so that leases need no clocks in step."""

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


class Database:
    """Hands out connections inside transactions. Safe to share between threads, not processes."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine = sa.create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S})
        sa.event.listen(self._engine, "connect", _configure_sqlite)
        sa.event.listen(self._engine, "begin", _begin_sqlite)
        self._watcher: sa.PoolProxiedConnection | None = None

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """A consistent view; writes nothing."""
        with self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """A transaction that commits at the end of the block, and rolls back if it raises.

        It takes the write lock at its start: a transaction that reads first and writes later
        would fail at once in WAL mode, whatever the timeout.
        """
        with self._engine.connect() as connection:
            connection = connection.execution_options(svm_writes=True)
            with connection.begin():
                yield connection

    def commits(self) -> int:
        """A number that any commit changes, whichever process makes it; asking takes 2 µs.

        What was read after asking holds as long as the number stays the same.
        """
        if self._watcher is None:
            # A connection of its own, since each one counts the commits of the others.
            self._watcher = self._engine.raw_connection()
            self._watcher.detach()
        cursor = self._watcher.cursor()
        cursor.execute("PRAGMA data_version")
        return int(cursor.fetchall()[0][0])

    def migrate(self) -> None:
        """Bring the schema to the newest revision; nothing happens where it is there already."""
        # Imported here: workers use the database, but never migrate it.
        from alembic import command
        from alembic.config import Config

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        with self.write() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None
        self._engine.dispose()


def in_turn(connection: sa.Connection, name: str) -> None:
    """Wait until no other transaction that asked for this turn is open.

    SQLite has one writing transaction at a time anyway.
    """
    if connection.dialect.name == "postgresql":
        turn = sa.func.pg_advisory_xact_lock(sa.func.hashtext(name))
        connection.execute(sa.select(turn))


def _configure_sqlite(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    # The driver must not begin transactions by itself: `_begin_sqlite` does.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute("PRAGMA journal_mode = WAL")
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("svm_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
