"""Whether rows and files agree: what a service that runs would only notice when it needs them."""

from __future__ import annotations

import math
import sqlite3
import time
from dataclasses import dataclass

import sqlalchemy as sa

from service.errors import Unavailable
from service.storage.backups.backup import FileRef, Show, named_files
from service.storage.blobs import BlobDamaged, Blobs
from service.storage.database import Database
from service.storage.database.dialects import DAMAGED
from service.storage.ownership import MARKS

STEPS = 1000
"""Of SQLite, between two looks at the clock."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Of the files that rows name."""

    named: int
    missing: list[str]
    damaged: list[str]
    """Empty where no digests were compared."""
    orphans: int
    """Files that no row names; the sweep removes them when they are an hour old."""


def compare_rows_and_files(
    database: Database, blobs: Blobs, deep: bool, show: Show | None = None
) -> Agreement:
    """With `deep` every file is read and compared with its digest. Raises Unavailable.

    The service may run meanwhile: what it deletes between two looks is no damage.
    """
    there = set(blobs.keys(""))
    named = _named(database)
    faulty = {file for file in named if file.key not in there}
    damaged: set[FileRef] = set()
    if deep:
        for done, file in enumerate(sorted(named - faulty), 1):
            try:
                blobs.open(*file).close()
            except BlobDamaged:
                damaged.add(file)
            if show is not None:
                show(done, len(named))
    if faulty or damaged:
        still, there = _named(database), set(blobs.keys(""))
        faulty = {file for file in faulty & still if file.key not in there}
        damaged &= still
    keys = {file.key for file in named}
    orphans = [key for key in there - keys if not key.startswith(f"{MARKS}/")]
    return Agreement(
        named=len(named),
        missing=sorted(file.key for file in faulty),
        damaged=sorted(file.key for file in damaged),
        orphans=len(orphans),
    )


def _named(database: Database) -> set[FileRef]:
    with database.read() as connection:
        return set(named_files(connection))


def check_sound(database: Database, within_s: float) -> None:
    """Raises Unavailable `storage-damaged` for a damaged file of SQLite, as far as that is found in
    so many seconds."""
    if faults := sqlite_faults(database, False, within_s):
        raise Unavailable("storage-damaged", f"{DAMAGED}: {faults[0]}")


def sqlite_faults(database: Database, deep: bool, within_s: float = math.inf) -> list[str]:
    """What SQLite itself finds wrong with its file; [] for a sound one, for PostgreSQL, and if
    there was nothing wrong with as much as could be read `within_s` seconds."""
    if not database.url.startswith("sqlite"):
        return []
    check = "integrity_check" if deep else "quick_check"
    deadline = time.monotonic() + within_s
    with database.read() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        driver.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
        try:
            found = list(connection.scalars(sa.text(f"PRAGMA {check}(10)")))
        except sa.exc.OperationalError as error:
            if getattr(error.orig, "sqlite_errorcode", None) != sqlite3.SQLITE_INTERRUPT:
                raise
            return []
        finally:
            driver.set_progress_handler(None, STEPS)
    return [] if found == ["ok"] else found
