"""Old files without a row are deleted, all others stay."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from service.storage.blobs import Blobs
from service.storage.database import Database
from service.storage.database.tables import datasets, jobs, model_versions, models
from service.storage.ownership import MARKS, MIN_AGE_S, ForeignFiles, check_owner, claim, sweep
from tests.backends import ON_ALL_BACKENDS

pytestmark = ON_ALL_BACKENDS


def _insert(database: Database, table: sa.Table, **given: object) -> None:
    """A row with `given` values and a default in every other required column."""
    fill: dict[type, object] = {str: "", int: 0, float: 0.0, bool: False}
    row = {
        column.name: fill.get(column.type.python_type, {})
        for column in table.columns
        if not column.nullable
    }
    with database.write() as connection:
        connection.execute(table.insert().values(row | given))


def _sweep(database: Database, blobs: Blobs, min_age_s: float = 0) -> list[str]:
    return sweep(database, blobs, min_age_s=min_age_s, again_s=0)


def test_named_files_stay_and_orphans_are_deleted(database: Database, blobs: Blobs) -> None:
    """A dataset's arrays, a model's file, the current checkpoint and the owner's mark stay."""
    claim(database, blobs)
    kept = list(blobs.keys())
    _insert(database, datasets, id="ds_1")
    _insert(database, jobs, id="job_1", checkpoint_key="checkpoints/job_1/1-2")
    _insert(database, models, name="iris")
    _insert(database, model_versions, model_name="iris", version=1, artifact_key="models/m1")
    named = ["datasets/ds_1/X", "checkpoints/job_1/1-2", "models/m1"]
    orphans = ["datasets/ds_2/X", "checkpoints/job_1/1-1", "models/m2"]
    for key in named + orphans:
        blobs.write(key, b"content")

    assert sorted(_sweep(database, blobs)) == sorted(orphans)
    assert sorted(blobs.keys()) == sorted(kept + named)


def test_young_files_stay(database: Database, blobs: Blobs) -> None:
    """Their row can still be inserted."""
    blobs.write("models/m1", b"content")
    assert _sweep(database, blobs, MIN_AGE_S) == []
    assert list(blobs.keys()) == ["models/m1"]


class Late(threading.Event):
    """Commits a row between the two checks of a sweep."""

    def __init__(self, commit: Callable[[], None]) -> None:
        super().__init__()
        self._commit = commit

    def wait(self, timeout: float | None = None) -> bool:
        self._commit()
        return False


def test_file_with_a_late_row_stays(database: Database, blobs: Blobs) -> None:
    """Also if it seems old after a jump of the clock: its row is found by the second check."""
    blobs.write("datasets/ds_1/X", b"content")
    late = Late(lambda: _insert(database, datasets, id="ds_1"))
    assert sweep(database, blobs, min_age_s=0, stop=late) == []
    assert list(blobs.keys()) == ["datasets/ds_1/X"]


def test_replicas_can_sweep_at_the_same_time(database: Database, blobs: Blobs) -> None:
    """Without errors, if another one has deleted a file first."""
    for number in range(20):
        blobs.write(f"datasets/ds_{number}/X", b"content")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: _sweep(database, blobs), range(4)))
    assert list(blobs.keys()) == []


def test_sweep_of_an_empty_store(database: Database, blobs: Blobs) -> None:
    """At the first start there is nothing to delete."""
    assert _sweep(database, blobs) == []


def test_files_are_claimed_by_one_database(
    database: Database, blobs: Blobs, tmp_path: Path
) -> None:
    """A second one is refused, before it can delete the files as orphans."""
    claim(database, blobs)
    claim(database, blobs)
    other = Database(f"sqlite:///{tmp_path / 'other.db'}")
    other.migrate()
    with pytest.raises(ForeignFiles, match="SVM_BLOB_URL"):
        claim(other, blobs)
    other.close()


def test_missing_files_prevent_a_claim(database: Database, blobs: Blobs) -> None:
    """Probably their disk is not mounted; a start would quarantine every model."""
    claim(database, blobs)
    _insert(database, models, name="iris")
    blobs.delete(MARKS)
    for look in (claim, check_owner):
        with pytest.raises(ForeignFiles, match="mount"):
            look(database, blobs)
    assert list(blobs.keys()) == []


def test_new_database_does_not_claim_old_files(database: Database, blobs: Blobs) -> None:
    """Files without a mark need a database with rows."""
    blobs.write("models/m1", b"content")
    with pytest.raises(ForeignFiles):
        claim(database, blobs)
    _insert(database, models, name="iris")
    claim(database, blobs)
