"""Backups: rows and files of a service in one archive, made while it runs.

A tar archive of `files/<key>`, `tables/<name>.jsonl` and, last, `manifest.json` with the sha-256 of
each. Rows do not depend on the kind of database: SQLite can be restored into PostgreSQL, files of
a directory into S3, and an older version into a newer one, which then runs its migrations.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple

import sqlalchemy as sa
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    StringConstraints,
)

from service import __version__
from service.storage.blobs import BlobDamaged, Blobs
from service.storage.blobs.local import sync_folder
from service.storage.database import Database, present_revision
from service.storage.database.tables import IN_ROWS
from service.storage.disk import private_file

FORMAT = 1
MANIFEST = "manifest.json"
"""The last member of the archive."""
SNAPSHOTS = 20
"""Most snapshots of the rows. If the running service deletes files before they are copied, the next
snapshot does not name them."""
ROWS_AT_ONCE = 1000
OWN_TABLES = ("alembic_version", "identity")
"""Tables that a restored database has already."""

Show = Callable[[int, int], None]
"""Receives the number of files and bytes so far."""

Key = Annotated[
    str,
    StringConstraints(pattern=r"^[a-z][a-z-]*(/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+$", max_length=500),
]
"""Key of a file, without `..`."""


class BackupFailed(Exception):
    """A backup cannot be written, read or restored; the message says why."""


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TableEntry(_Entry):
    columns: list[str]
    rows: NonNegativeInt
    sha256: str


class FileEntry(_Entry):
    sha256: str
    size_bytes: NonNegativeInt


class Manifest(_Entry):
    """What the archive has."""

    format: int
    service_version: str
    revision: str
    """Revision of the schema."""
    tables: dict[str, TableEntry]
    files: dict[Key, FileEntry]
    damaged: list[Key] = Field(default_factory=list)
    """Files that rows name and that were missing or damaged."""


@dataclass(frozen=True, slots=True)
class Saved:
    """Contents of a backup."""

    rows: dict[str, int]
    """By table."""
    files: int
    file_bytes: int
    damaged: list[str]
    """Files that rows name and that are missing or damaged in the service itself."""


class FileRef(NamedTuple):
    """A file that a row names."""

    key: str
    sha256: str


class Snapshot(NamedTuple):
    """The rows at one moment, which are in a file, one table after the other."""

    revision: str
    tables: dict[str, TableEntry]
    sizes: list[int]
    """Bytes of each table."""
    files: list[FileRef]
    """That the rows name."""


def back_up(database: Database, blobs: Blobs, path: Path, show: Show | None = None) -> Saved:
    """Write all rows and files to `path`, which must not exist, completely or not at all.

    Raises BackupFailed, Unavailable, OSError.
    """
    if path.exists():
        raise BackupFailed(f"{path} exists already")
    partial = path.with_name(f"{path.name}.partial")
    try:
        partial.unlink(missing_ok=True)
        private_file(partial)
        # Beside the backup, since the disk of the service can be full; without a name, since there
        # it would be swept after an hour.
        with partial.open("r+b") as file, tempfile.TemporaryFile(dir=path.parent) as rows:
            with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
                saved = _write(archive, database, blobs, rows, show or (lambda *_: None))
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
        sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)
    return saved


def named_files(connection: sa.Connection) -> Iterator[FileRef]:
    """Every file that rows name, in pairs of columns `x_key`, `x_sha256` and arrays of datasets."""
    for table in tables_of(connection).sorted_tables:
        for key in table.c:
            digest = table.c.get(f"{key.name.removesuffix('_key')}_sha256")
            if key.name.endswith("_key") and digest is not None:
                in_file = key.is_not(None) & key.not_like(f"{IN_ROWS}%")
                for row in connection.execute(sa.select(key, digest).where(in_file)):
                    yield FileRef(*row)
        if table.name == "datasets":
            for dataset_id, arrays in connection.execute(sa.select(table.c.id, table.c.arrays)):
                for name, sha256 in arrays.items():
                    yield FileRef(f"datasets/{dataset_id}/{name}", sha256)


def _write(
    archive: tarfile.TarFile, database: Database, blobs: Blobs, rows: IO[bytes], show: Show
) -> Saved:
    copied: dict[FileRef, int] = {}
    missing: set[FileRef] = set()
    for _ in range(SNAPSHOTS):
        # Rows first, files second: files are written before their row.
        snapshot = _dump(database, rows)
        missing_before, missing = missing, set()
        for file in snapshot.files:
            if file not in copied and not _copy(archive, blobs, file, copied):
                missing.add(file)
            show(len(copied), sum(copied.values()))
        if missing <= missing_before:  # none, or files that rows still name
            break
    rows.seek(0)
    for name, size in zip(snapshot.tables, snapshot.sizes, strict=True):
        _add(archive, f"tables/{name}.jsonl", rows, size)
    manifest = Manifest(
        format=FORMAT,
        service_version=__version__,
        revision=snapshot.revision,
        tables=snapshot.tables,
        files={
            file.key: FileEntry(sha256=file.sha256, size_bytes=copied[file])
            for file in snapshot.files
            if file in copied
        },
        damaged=sorted(file.key for file in missing),
    )
    content = manifest.model_dump_json(indent=1).encode()
    _add(archive, MANIFEST, io.BytesIO(content), len(content))
    return summary_of(manifest)


def _dump(database: Database, rows: IO[bytes]) -> Snapshot:
    """Write all rows to `rows`, over what it had."""
    tables, sizes = {}, []
    revision = present_revision(database)
    if revision is None:
        raise BackupFailed("the database is empty: there is nothing to back up")
    rows.seek(0)
    with database.read() as connection:
        for table in tables_of(connection).sorted_tables:
            if table.name not in OWN_TABLES:
                start = rows.tell()
                tables[table.name] = _dump_table(connection, table, rows)
                sizes.append(rows.tell() - start)
        return Snapshot(revision, tables, sizes, list(named_files(connection)))


def _dump_table(connection: sa.Connection, table: sa.Table, file: IO[bytes]) -> TableEntry:
    # JSON as text: numbers are not rounded, and JSON's null differs from SQL's.
    selected = [sa.cast(c, sa.Text) if is_json(c) else c for c in table.c]
    digest, count = hashlib.sha256(), 0
    rows = connection.execution_options(yield_per=ROWS_AT_ONCE).execute(sa.select(*selected))
    for row in rows:
        line = json.dumps(list(row), default=_as_text).encode() + b"\n"
        file.write(line)
        digest.update(line)
        count += 1
    columns = [column.name for column in table.c]
    return TableEntry(columns=columns, rows=count, sha256=digest.hexdigest())


def _copy(
    archive: tarfile.TarFile, blobs: Blobs, file: FileRef, copied: dict[FileRef, int]
) -> bool:
    try:
        source = blobs.open(*file)
    except BlobDamaged:
        return False
    with source:
        size = os.fstat(source.fileno()).st_size
        _add(archive, f"files/{file.key}", source, size)
    copied[file] = size
    return True


def _as_text(value: bytes) -> str:
    return base64.b64encode(value).decode()


def tables_of(connection: sa.Connection) -> sa.MetaData:
    """The tables of this database, also of another version."""
    metadata = sa.MetaData()
    metadata.reflect(connection)
    return metadata


def is_json(column: sa.Column[Any]) -> bool:
    return isinstance(column.type, sa.JSON)


def _add(archive: tarfile.TarFile, name: str, content: IO[bytes], size: int) -> None:
    """A member with the next `size` bytes of `content`."""
    info = tarfile.TarInfo(name)
    info.size = size
    archive.addfile(info, content)


def summary_of(manifest: Manifest) -> Saved:
    return Saved(
        rows={name: entry.rows for name, entry in manifest.tables.items()},
        files=len(manifest.files),
        file_bytes=sum(entry.size_bytes for entry in manifest.files.values()),
        damaged=manifest.damaged,
    )
