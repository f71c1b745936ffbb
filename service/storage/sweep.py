"""Deletes files without a row, which a crash between writing a file and its row leaves behind.

Any number of processes can sweep the same files. A file is deleted if it is old and has no row in
two checks a minute apart: if a clock jumps, there is still time to insert its row.
"""

from __future__ import annotations

import threading

import sqlalchemy as sa
import structlog

from service.storage.blobs import Blobs
from service.storage.database import Database
from service.storage.database.tables import datasets, metadata
from service.storage.ownership import MARKS

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
