"""Backups: rows and files are the same after a restore, in any database and file store."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from service.storage.backups import BackupFailed, back_up, named_files, restore
from service.storage.blobs import Blob, Blobs, LocalBlobs
from service.storage.database import Database
from service.storage.database.tables import (
    dataset_tags,
    datasets,
    identity,
    job_tags,
    jobs,
    metadata,
    model_versions,
    models,
)
from service.storage.ownership import KEY_COLUMNS, claim, sweep
from tests.backends import ON_ALL_BACKENDS

OWNERS = {"job_id": "job_1", "model_name": "iris", "version": 1}
TAGS = {dataset_tags: "ds_1", job_tags: "job_1"}


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[tuple[Database, Blobs]]:
    """A database without tables and a store without files: SQLite and a directory."""
    database = Database(f"sqlite:///{tmp_path / 'elsewhere.db'}")
    yield database, LocalBlobs(tmp_path / "files-elsewhere")
    database.close()


def _insert(database: Database, table: sa.Table, **given: Any) -> None:
    """A row with `given` values and a default in every other required column."""
    fill: dict[type, Any] = {str: "", int: 0, float: 0.1, bool: False, bytes: bytes(range(256))}
    row = {
        column.name: fill.get(column.type.python_type, {})
        for column in table.columns
        if not column.nullable
    }
    with database.write() as connection:
        connection.execute(table.insert().values(row | given))


def fill(database: Database, blobs: Blobs) -> list[Blob]:
    """Rows with difficult values, and the files that they name."""
    claim(database, blobs)
    X, model = blobs.write("datasets/ds_1/X", b"X" * 5000), blobs.write("models/m1", b"")
    checkpoint = blobs.write("checkpoints/job_1/1-2", b"checkpoint")
    _insert(
        database,
        datasets,
        id="ds_1",
        arrays={"X": X.sha256},
        statistics={"mean": [0.1 + 0.2, 5e-324, 1e308]},
        name="naïve\u2028 名前 \U0001f33b",
        columns=None,  # JSON's null
        created_at=1e9 / 3,
    )
    _insert(database, datasets, id="ds_2", upload_key="2", size_bytes=2**62)
    _insert(
        database,
        jobs,
        id="job_1",
        checkpoint_key=checkpoint.key,
        checkpoint_sha256=checkpoint.sha256,
    )
    _insert(database, models, name="iris")
    _insert(
        database,
        model_versions,
        model_name="iris",
        version=1,
        seed=2**53 - 1,
        artifact_key=model.key,
        artifact_sha256=model.sha256,
    )
    for table in metadata.sorted_tables:
        if table not in (datasets, jobs, models, model_versions, identity):
            given: dict[str, Any] = {k: owner for k, owner in OWNERS.items() if k in table.c}
            if table in TAGS:
                given |= {"id": TAGS[table]}
            if "file_key" in table.c:
                given |= {"file_key": model.key, "file_sha256": model.sha256}
            _insert(database, table, **given)
    return [X, model, checkpoint]


def _content(database: Database) -> dict[str, list[str]]:
    """All rows except the database's identity, JSON as text."""
    with database.read() as connection:
        return {
            table.name: sorted(
                map(
                    repr,
                    connection.execute(
                        sa.select(
                            *(
                                sa.cast(c, sa.Text) if isinstance(c.type, sa.JSON) else c
                                for c in table.c
                            )
                        )
                    ),
                )
            )
            for table in metadata.sorted_tables
            if table is not identity
        }


@ON_ALL_BACKENDS
def test_backup_is_restored_completely(
    database: Database, blobs: Blobs, elsewhere: tuple[Database, Blobs], tmp_path: Path
) -> None:
    """Every row to the bit and every file, from either kind of database into SQLite."""
    files = fill(database, blobs)
    blobs.write("models/orphan", b"of no row")
    saved = back_up(database, blobs, tmp_path / "backup.tar")
    restored = restore(*elsewhere, tmp_path / "backup.tar")
    assert saved == restored
    assert (saved.files, saved.rows["datasets"], saved.damaged) == (3, 2, [])
    assert _content(elsewhere[0]) == _content(database)
    for blob in files:
        assert elsewhere[1].read(blob.key, blob.sha256) == blobs.read(blob.key, blob.sha256)
    assert not [key for key in elsewhere[1].keys("") if "orphan" in key]


@ON_ALL_BACKENDS
def test_backup_is_restored_into_either_kind_of_service(
    database: Database, blobs: Blobs, elsewhere: tuple[Database, Blobs], tmp_path: Path
) -> None:
    """From SQLite and a directory; the sweep then finds no orphans."""
    elsewhere[0].migrate()
    fill(*elsewhere)
    back_up(*elsewhere, tmp_path / "backup.tar")
    restore(database, blobs, tmp_path / "backup.tar")
    assert _content(elsewhere[0]) == _content(database)
    assert sweep(database, blobs, min_age_s=0, again_s=0) == []
    claim(database, blobs)


def test_restored_database_has_a_new_id(
    database: Database, blobs: Blobs, elsewhere: tuple[Database, Blobs], tmp_path: Path
) -> None:
    """Otherwise the sweep of the old service could delete its files."""
    fill(database, blobs)
    back_up(database, blobs, tmp_path / "backup.tar")
    restore(*elsewhere, tmp_path / "backup.tar")
    ids = []
    for each in (database, elsewhere[0]):
        with each.read() as connection:
            ids.append(connection.scalar(sa.select(identity.c.id)))
    assert ids[0] != ids[1]


class Running(LocalBlobs):
    """Files of a running job: when its checkpoint is copied, it was replaced by a newer one."""

    def __init__(self, directory: Path, database: Database) -> None:
        super().__init__(directory)
        self.database = database
        self.checkpoints = 2

    def open(self, key: str, sha256: str) -> BufferedReader:
        if key.startswith("checkpoints/") and self.checkpoints < 5:
            self.checkpoints += 1
            blob = self.write(f"checkpoints/job_1/1-{self.checkpoints}", b"newer")
            values = {"checkpoint_key": blob.key, "checkpoint_sha256": blob.sha256}
            with self.database.write() as connection:
                connection.execute(sa.update(jobs).values(values))
            self.delete(key)
        return super().open(key, sha256)


def test_files_replaced_meanwhile_are_not_damage(
    database: Database, elsewhere: tuple[Database, Blobs], tmp_path: Path
) -> None:
    """A backup contains the checkpoint that its rows name."""
    blobs = Running(tmp_path / "files", database)
    fill(database, blobs)
    saved = back_up(database, blobs, tmp_path / "backup.tar")
    assert saved.damaged == []
    restore(*elsewhere, tmp_path / "backup.tar")
    with elsewhere[0].read() as connection:
        for file in named_files(connection):
            elsewhere[1].read(*file)
        assert connection.scalar(sa.select(jobs.c.checkpoint_key)) == "checkpoints/job_1/1-5"


def test_backup_that_takes_hours_is_not_swept(
    database: Database, blobs: Blobs, elsewhere: tuple[Database, Blobs], tmp_path: Path
) -> None:
    """The service deletes unfinished files that are an hour old, while it copies files."""
    fill(database, blobs)

    def sweep_now(*_: int) -> None:
        blobs.sweep_scratch(older_than_s=0)

    saved = back_up(database, blobs, tmp_path / "backup.tar", sweep_now)
    assert restore(*elsewhere, tmp_path / "backup.tar") == saved


def test_missing_files_are_reported_and_the_rest_is_saved(
    database: Database, blobs: Blobs, elsewhere: tuple[Database, Blobs], tmp_path: Path
) -> None:
    """Damaged files do not prevent a backup."""
    fill(database, blobs)
    blobs.delete("datasets/ds_1/X")
    blobs.write("models/m1", b"other bytes")
    saved = back_up(database, blobs, tmp_path / "backup.tar")
    assert saved.damaged == ["datasets/ds_1/X", "models/m1"]
    assert restore(*elsewhere, tmp_path / "backup.tar").files == 1


def test_nothing_is_overwritten(
    database: Database, blobs: Blobs, elsewhere: tuple[Database, Blobs], tmp_path: Path
) -> None:
    """Not an older backup, rows, or files."""
    path = tmp_path / "backup.tar"
    fill(database, blobs)
    back_up(database, blobs, path)
    with pytest.raises(BackupFailed, match="exists already"):
        back_up(database, blobs, path)
    with pytest.raises(BackupFailed, match="not empty: it has"):
        restore(database, elsewhere[1], path)
    elsewhere[1].write("models/other", b"other")
    with pytest.raises(BackupFailed, match="the file store is not empty"):
        restore(*elsewhere, path)


@pytest.mark.parametrize("length", [0, 1000, 12_000])
def test_incomplete_backup_is_refused(
    database: Database,
    blobs: Blobs,
    elsewhere: tuple[Database, Blobs],
    tmp_path: Path,
    length: int,
) -> None:
    """A truncated file restores nothing."""
    path = tmp_path / "backup.tar"
    fill(database, blobs)
    back_up(database, blobs, path)
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(BackupFailed, match="not a backup, or an incomplete one"):
        restore(*elsewhere, path)
    assert list(elsewhere[1].keys("")) == []


@pytest.mark.parametrize("what", [b"XXXXX", b'"iris"'])
def test_damaged_backup_is_refused(
    database: Database, blobs: Blobs, elsewhere: tuple[Database, Blobs], tmp_path: Path, what: bytes
) -> None:
    """If one byte of a file or a row is wrong, no row is restored."""
    path = tmp_path / "backup.tar"
    fill(database, blobs)
    back_up(database, blobs, path)
    content = path.read_bytes()
    path.write_bytes(content.replace(what, bytes(reversed(what[:-1])) + b"!", 1))
    with pytest.raises(BackupFailed, match="the backup is damaged"):
        restore(*elsewhere, path)
    elsewhere[0].migrate()
    assert all(rows == [] for rows in _content(elsewhere[0]).values())


@pytest.mark.parametrize(
    ("revision", "match"), [(b"9999", "newer than this version"), (b"0017", r"made before 0\.1\.0")]
)
def test_backup_of_another_version_is_refused(
    database: Database, blobs: Blobs, tmp_path: Path, revision: bytes, match: str
) -> None:
    """An older one that can be migrated is tested with the migrations."""
    path = tmp_path / "backup.tar"
    back_up(database, blobs, path)
    present = database.revisions[0].encode()
    path.write_bytes(path.read_bytes().replace(b'"%s"' % present, b'"%s"' % revision))
    fresh = Database(f"sqlite:///{tmp_path / 'fresh.db'}")
    with pytest.raises(BackupFailed, match=match):
        restore(fresh, LocalBlobs(tmp_path / "fresh"), path)
    fresh.close()


def test_every_key_has_its_digest() -> None:
    """Each column with keys of files has a column with their sha-256, so that backups find them."""
    for column in KEY_COLUMNS:
        if column.name != "upload_key":
            assert f"{column.name.removesuffix('_key')}_sha256" in column.table.c


def test_archive_is_a_tar_file(database: Database, blobs: Blobs, tmp_path: Path) -> None:
    """With files, tables, and the manifest last."""
    fill(database, blobs)
    back_up(database, blobs, tmp_path / "backup.tar")
    with tarfile.open(tmp_path / "backup.tar") as archive:
        names = archive.getnames()
    assert {"files/models/m1", "tables/jobs.jsonl"} < set(names)
    assert names[-1] == "manifest.json"
    assert [path.name for path in tmp_path.glob("backup*")] == ["backup.tar"]
