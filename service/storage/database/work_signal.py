"""Tells workers on any machine at once that a job was queued: NOTIFY of PostgreSQL.

Only a hint: it may be lost, so workers look for jobs without it, too. SQLite has one service, whose
workers are woken by their supervisor.
"""

from __future__ import annotations

import threading
import time

import sqlalchemy as sa

from service.storage.database.dialects import connect

CHANNEL = "svm_work"
RETRY_S = 5.0


def announce_work(connection: sa.Connection) -> None:
    """Wake the workers at the commit of this transaction."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"NOTIFY {CHANNEL}")


def follow_work(url: str, woken: threading.Event) -> None:
    """Set `woken` whenever a job was queued, until this process ends. Returns at once."""
    if sa.make_url(url).get_backend_name() == "postgresql":
        threading.Thread(target=_listen, args=(url, woken), name="work", daemon=True).start()


def _listen(url: str, woken: threading.Event) -> None:
    import psycopg  # not needed with SQLite

    engine = connect(url, 1)
    while True:
        try:
            with engine.connect() as connection:
                listening = connection.connection.driver_connection
                assert isinstance(listening, psycopg.Connection)
                listening.set_autocommit(True)
                listening.execute(f"LISTEN {CHANNEL}")
                for _ in listening.notifies():
                    woken.set()
        except (psycopg.Error, sa.exc.SQLAlchemyError):
            time.sleep(RETRY_S)  # other connections report the error
