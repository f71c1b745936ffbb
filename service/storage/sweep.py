"""Removes files that no row names: what a crash left between writing a file and its row."""

from __future__ import annotations

import sqlalchemy as sa

from service.storage.blobs import Blobs
from service.storage.database import Database
from service.storage.tables import datasets, jobs, model_versions

MIN_AGE_S = 3600
"""A file younger than this may still get its row."""


def sweep(database: Database, blobs: Blobs, min_age_s: float = MIN_AGE_S) -> list[str]:
    """Delete the orphans and what is left of files never finished; gives their names."""
    # Files first, rows second: a row that appears meanwhile is seen.
    old = list(blobs.keys(min_age_s))
    with database.read() as connection:
        owners = {f"datasets/{id}" for id in connection.scalars(sa.select(datasets.c.id))}
        named = set(connection.scalars(sa.select(model_versions.c.artifact_key)))
        named.update(connection.scalars(sa.select(model_versions.c.warm_start_key)))
        named.update(connection.scalars(sa.select(jobs.c.checkpoint_key)))
    orphans = [key for key in old if key not in named and key.rpartition("/")[0] not in owners]
    for key in orphans:
        blobs.delete(key)
    return orphans + blobs.sweep_scratch(min_age_s)
