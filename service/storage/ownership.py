"""Files belong to one database; only its services sweep them.

A mark among the files has the database's id. Without it, a service with the files of one database
and the address of another would delete all files as orphans.

The sweep deletes files without a row, which a crash between writing a file and its row leaves
behind. Any number of processes can sweep the same files. A file is deleted if it is old and has no
row in two checks a minute apart: if a clock jumps, there is still time to insert its row.
"""

from __future__ import annotations

import secrets
import threading

import sqlalchemy as sa
import structlog

from service.storage.blobs import Blobs
from service.storage.database import Database, new_id, transaction_lock
from service.storage.database.tables import datasets, identity, jobs, metadata, models

MARKS = "owner"
"""The key of the mark is `owner/<id>`."""
MIN_AGE_S = 3600.0
"""A younger file can still get its row."""
AGAIN_S = 60.0
"""Time between the two checks; longer than a commit can take."""
STOP_S = 5.0
KEY_COLUMNS = [
    column
    for table in metadata.sorted_tables
    for column in table.columns
    if column.name.endswith("_key")
]
"""All columns that can name a file, by their suffix, so that new columns are included."""
log = structlog.stdlib.get_logger("service.storage")


class ForeignFiles(Exception):
    """The files are of another database, or they are missing."""

    def __init__(self, detail: str = "") -> None:
        super().__init__(
            detail
            or "the files belong to another database, and would be deleted; set SVM_DATABASE_URL "
            "to that database, or SVM_BLOB_URL to another place"
        )


def claim(database: Database, blobs: Blobs) -> None:
    """Mark the files as this database's. Raises ForeignFiles if they are not, Unavailable."""
    check_owner(database, blobs)
    mark = f"{MARKS}/{_identity(database)[0]}"
    if not set(blobs.keys(MARKS)):
        blobs.write(mark, b"")
    if set(blobs.keys(MARKS)) != {mark}:  # another database has claimed them meanwhile
        raise ForeignFiles


def check_owner(database: Database, blobs: Blobs) -> None:
    """Read-only check. Raises ForeignFiles if a service would not start, Unavailable."""
    # In this order: another replica can start at the same time and write rows, mark and files.
    was_new = _is_new(database)
    marks = set(blobs.keys(MARKS))
    has_files = marks or any(not key.startswith(f"{MARKS}/") for key in blobs.keys(""))
    with database.read() as connection:
        own_id = connection.scalar(sa.select(identity.c.id))
    if marks - {f"{MARKS}/{own_id}"} or (has_files and not marks and _is_new(database)):
        raise ForeignFiles
    if not has_files and not was_new and own_id is not None:
        raise ForeignFiles(
            "the files of this database are missing; mount their disk, or set SVM_BLOB_URL to "
            "their place"
        )


def secret_of(database: Database) -> bytes:
    """The key for signatures, the same for all replicas of this installation; 256 random bits."""
    return bytes.fromhex(_identity(database)[1])


def _identity(database: Database) -> tuple[str, str]:
    """The id and the secret, which the first call creates."""
    with database.write() as connection:
        transaction_lock(connection, "identity")
        query = sa.select(identity.c.id, identity.c.secret)
        if connection.execute(query).first() is None:
            own = {"id": new_id("db"), "secret": secrets.token_hex(32)}
            connection.execute(identity.insert().values(own))
        own_id, secret = connection.execute(query).one()
        return own_id, secret


def _is_new(database: Database) -> bool:
    with database.read() as connection:
        return not any(
            connection.scalar(sa.select(sa.exists().select_from(table)))
            for table in (datasets, jobs, models)
        )


class Sweeper:
    """Sweeps at its start and every hour, in its own thread."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self._database = database
        self._blobs = blobs
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sweeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if removed := sweep(self._database, self._blobs, stop=self._stop):
                    log.info("deleted old files", names=removed[:20], total=len(removed))
            except Exception:
                log.exception("sweep failed")
            self._stop.wait(MIN_AGE_S)


def sweep(
    database: Database,
    blobs: Blobs,
    min_age_s: float = MIN_AGE_S,
    again_s: float = AGAIN_S,
    stop: threading.Event | None = None,
) -> list[str]:
    """Delete orphans and unfinished files; returns their names.

    Raises Unavailable.
    """
    stop = stop or threading.Event()
    orphans = _orphans(database, blobs, min_age_s)
    if orphans and not stop.wait(again_s):
        orphans &= _orphans(database, blobs, min_age_s)
        for key in sorted(orphans):
            blobs.delete(key)
        return sorted(orphans) + blobs.sweep_scratch(min_age_s)
    return blobs.sweep_scratch(min_age_s)


def _orphans(database: Database, blobs: Blobs, min_age_s: float) -> set[str]:
    # Files first, rows second, so that a row that is inserted meanwhile is seen.
    old = set(blobs.keys(older_than_s=min_age_s))
    named: set[str | None] = set()
    with database.read() as connection:
        owners = {f"datasets/{id}" for id in connection.scalars(sa.select(datasets.c.id))}
        for column in KEY_COLUMNS:
            named.update(connection.scalars(sa.select(column)))
    folders = {*owners, MARKS}
    return {key for key in old if key not in named and key.rpartition("/")[0] not in folders}
