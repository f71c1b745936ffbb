"""Files that no row names are removed once they are old enough, all others stay."""

from __future__ import annotations

import sqlalchemy as sa

from service.storage.blobs import Blobs
from service.storage.database import Database
from service.storage.sweep import sweep
from service.storage.tables import datasets, jobs, model_versions, models
from tests.backends import ON_ALL_BACKENDS

pytestmark = ON_ALL_BACKENDS


def _insert(database: Database, table: sa.Table, **given: object) -> None:
    """A row with `given` values and something fitting in every other required column."""
    fill: dict[type, object] = {str: "", int: 0, float: 0.0, bool: False}
    row = {
        column.name: fill.get(column.type.python_type, {})
        for column in table.columns
        if not column.nullable
    }
    with database.write() as connection:
        connection.execute(table.insert().values(row | given))


def test_named_files_stay_and_orphans_go(database: Database, blobs: Blobs) -> None:
    """A dataset's arrays, a model's file and the present checkpoint are kept."""
    _insert(database, datasets, id="ds_1")
    _insert(database, jobs, id="job_1", checkpoint_key="checkpoints/job_1/1-2")
    _insert(database, models, name="iris")
    _insert(database, model_versions, model_name="iris", version=1, artifact_key="models/m1")
    kept = ["datasets/ds_1/X.npy", "checkpoints/job_1/1-2", "models/m1"]
    orphans = ["datasets/ds_2/X.npy", "checkpoints/job_1/1-1", "models/m2", "models/m3"]
    for key in kept + orphans:
        blobs.write(key, b"content")

    assert sorted(sweep(database, blobs, min_age_s=0)) == sorted(orphans)
    assert sorted(blobs.keys()) == sorted(kept)


def test_young_files_stay(database: Database, blobs: Blobs) -> None:
    """A file whose row may still be on its way is not touched."""
    blobs.write("models/m1", b"content")
    assert sweep(database, blobs) == []
    assert list(blobs.keys()) == ["models/m1"]


def test_sweep_works_on_nothing(database: Database, blobs: Blobs) -> None:
    """A service that starts for the first time has nothing to remove."""
    assert sweep(database, blobs) == []
