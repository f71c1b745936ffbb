"""Checks of the database and its files, as for `svm-service doctor`."""

from __future__ import annotations

import math
import sqlite3
import time
from dataclasses import dataclass

import sqlalchemy as sa

from service.errors import Unavailable
from service.storage.backups import FileRef, named_files
from service.storage.blobs import BlobDamaged, Blobs
from service.storage.database import Database
from service.storage.database.dialects import DAMAGED
from service.storage.ownership import MARKS

STEPS = 1000
"""SQLite instructions between two checks of the time limit."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Comparison of the rows with the files."""

    named: int
    """Files that rows name."""
    missing: list[str]
    damaged: list[str]
    """Empty if digests were not compared."""
    orphans: int
    """Files that no row names; the sweep deletes them when they are an hour old."""


def compare_rows_and_files(database: Database, blobs: Blobs, deep: bool) -> Agreement:
    """With `deep`, read every file and compare its digest. Raises Unavailable.

    The service can run meanwhile: files that it deletes are not reported.
    """
    stored = set(blobs.keys(""))
    named = _named(database)
    faulty = {file for file in named if file.key not in stored}
    damaged: set[FileRef] = set()
    if deep:
        for file in named - faulty:
            try:
                blobs.open(*file).close()
            except BlobDamaged:
                damaged.add(file)
    if faulty or damaged:
        still, stored = _named(database), set(blobs.keys(""))
        faulty = {file for file in faulty & still if file.key not in stored}
        damaged &= still
    keys = {file.key for file in named}
    orphans = [key for key in stored - keys if not key.startswith(f"{MARKS}/")]
    return Agreement(
        named=len(named),
        missing=sorted(file.key for file in faulty),
        damaged=sorted(file.key for file in damaged),
        orphans=len(orphans),
    )


def _named(database: Database) -> set[FileRef]:
    with database.read() as connection:
        return set(named_files(connection))


def check_undamaged(database: Database, within_s: float) -> None:
    """Raises Unavailable `storage-damaged` if a check of the SQLite file, with this time limit,
    finds damage."""
    if faults := sqlite_faults(database, False, within_s):
        raise Unavailable("storage-damaged", f"{DAMAGED}: {faults[0]}")


def sqlite_faults(database: Database, deep: bool, within_s: float = math.inf) -> list[str]:
    """Damage that SQLite's own check finds within the time limit; [] if there is none, and for
    PostgreSQL."""
    if not database.url.startswith("sqlite"):
        return []
    check = "integrity_check" if deep else "quick_check"
    deadline = time.monotonic() + within_s
    with database.read() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        driver.set_progress_handler(lambda: time.monotonic() > deadline, STEPS)
        try:
            faults = list(connection.scalars(sa.text(f"PRAGMA {check}(10)")))
        except sa.exc.OperationalError as error:
            if getattr(error.orig, "sqlite_errorcode", None) != sqlite3.SQLITE_INTERRUPT:
                raise
            return []
        finally:
            driver.set_progress_handler(None, STEPS)
    return [] if faults == ["ok"] else faults
