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
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, BinaryIO, NamedTuple

import sqlalchemy as sa
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    StringConstraints,
    ValidationError,
)
from pydantic_core import from_json

from service import __version__
from service.storage.blobs import BlobDamaged, Blobs
from service.storage.blobs.local import sync_folder
from service.storage.database import Database, present_revision
from service.storage.database.tables import IN_ROWS
from service.storage.disk import private_file
from service.storage.ownership import MARKS, claim

FORMAT = 1
MANIFEST = "manifest.json"
"""The last member of the archive."""
SNAPSHOTS = 20
"""Most snapshots of the rows. If the running service deletes files before they are copied, the next
snapshot does not name them."""
ROWS_AT_ONCE = 1000
OWN_TABLES = ("alembic_version", "identity")
"""Tables that a restored database has already."""
UNREADABLE = (tarfile.TarError, EOFError, ValueError, OverflowError, RecursionError)
"""Errors of `tarfile` for a damaged archive."""
INVALID_ROWS = (
    *(ValueError, TypeError, RecursionError, OverflowError),
    *(sa.exc.IntegrityError, sa.exc.DataError),
)
"""Errors of rows that do not match their table."""

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


def restore(database: Database, blobs: Blobs, path: Path, show: Show | None = None) -> Saved:
    """Restore the backup `path` into an empty database and an empty file store.

    Nothing else may use them meanwhile. After an error, no rows and no files are left. Raises
    BackupFailed, Unavailable, OSError.
    """
    with _opened(path) as archive, ExitStack() as unless_done:
        manifest = _manifest_of(_content(archive, MANIFEST))
        _check_revision(database, manifest)
        _check_empty(database, blobs)
        _restore_files(archive, manifest, blobs, show or (lambda *_: None), unless_done)
        database.migrate(manifest.revision)
        # Rows last, in one transaction.
        with database.write() as connection:
            _restore_tables(archive, manifest, connection)
        unless_done.pop_all()
        database.migrate()
        claim(database, blobs)
    return summary_of(manifest)


def _restore_files(
    archive: tarfile.TarFile, manifest: Manifest, blobs: Blobs, show: Show, unless_done: ExitStack
) -> None:
    done = 0
    for number, (key, entry) in enumerate(manifest.files.items(), 1):
        if key.startswith((f"{MARKS}/", f"{blobs.scratch.name}/")):
            raise BackupFailed(f"the backup is damaged: {key} does not belong into one")
        with blobs.temporary() as path:
            with _member(archive, f"files/{key}") as source, path.open("wb") as target:
                while chunk := _read(source, key, 1024 * 1024):
                    target.write(chunk)
            unless_done.callback(blobs.delete, key)
            blob = blobs.adopt(key, path)
        if (blob.sha256, blob.size_bytes) != (entry.sha256, entry.size_bytes):
            raise BackupFailed(f"the backup is damaged: {key} is not what was saved")
        done += blob.size_bytes
        show(number, done)


def _restore_tables(
    archive: tarfile.TarFile, manifest: Manifest, connection: sa.Connection
) -> None:
    tables = [t for t in tables_of(connection).sorted_tables if t.name not in OWN_TABLES]
    if other := {table.name for table in tables} ^ set(manifest.tables):
        names = ", ".join(sorted(other))
        raise BackupFailed(f"the backup is damaged: {MANIFEST} has other tables: {names}")
    for table in tables:
        content = _content(archive, f"tables/{table.name}.jsonl")
        try:
            _restore_rows(content, manifest.tables[table.name], table, connection)
        except INVALID_ROWS as error:
            reason = str(getattr(error, "orig", error)).partition("\n")[0]
            detail = f"the backup is damaged: the rows of {table.name} cannot be stored: {reason}"
            raise BackupFailed(detail) from None
    saved = {FileRef(key, entry.sha256) for key, entry in manifest.files.items()}
    for file in named_files(connection):
        if file not in saved and file.key not in manifest.damaged:
            raise BackupFailed(f"the backup is damaged: {file.key} does not match the rows")


def _restore_rows(
    content: bytes, entry: TableEntry, table: sa.Table, connection: sa.Connection
) -> None:
    """Raises INVALID_ROWS."""
    if hashlib.sha256(content).hexdigest() != entry.sha256:
        raise ValueError("their digest does not match")
    if set(entry.columns) != set(table.c.keys()):
        raise ValueError("they have other columns")
    columns = [table.c[name] for name in entry.columns]
    for column in filter(is_json, columns):
        column.type = sa.JSON(none_as_null=True)
    rows = [
        {column.name: _value(column, value) for column, value in zip(columns, row, strict=True)}
        for row in map(json.loads, content.splitlines())
    ]
    if len(rows) != entry.rows:
        raise ValueError(f"there are {len(rows)} of {entry.rows}")
    for start in range(0, len(rows), ROWS_AT_ONCE):
        connection.execute(sa.insert(table), rows[start : start + ROWS_AT_ONCE])


def _value(column: sa.Column[Any], value: Any) -> Any:
    if value is None:
        return None
    kind = column.type.python_type
    if is_json(column):
        return sa.JSON.NULL if value == "null" else json.loads(value)
    if kind is bytes:
        return base64.b64decode(value, validate=True)
    if type(value) is not kind and not (kind is float and type(value) is int):
        raise TypeError(f"{column.name} is a {type(value).__name__}, not a {kind.__name__}")
    return value


def _check_empty(database: Database, blobs: Blobs) -> None:
    with database.read() as connection:
        tables = tables_of(connection).sorted_tables
        for table in tables:
            if table.name not in OWN_TABLES and connection.scalar(sa.select(sa.exists(table))):
                raise BackupFailed(f"the database is not empty: it has {table.name}")
    # A service that was started once has written its mark.
    if any(not (tables and key.startswith(f"{MARKS}/")) for key in blobs.keys("")):
        raise BackupFailed("the file store is not empty")
    if tables:
        claim(database, blobs)


def _check_revision(database: Database, manifest: Manifest) -> None:
    present = present_revision(database)
    if present not in (None, manifest.revision):
        raise BackupFailed("the database has tables of another version: use one without tables")
    if manifest.revision not in database.revisions:
        if manifest.revision < database.revisions[-1]:
            detail = "the backup was made before 0.1.0, the first release: it cannot be restored"
        else:
            version = manifest.service_version
            detail = f"the backup is of version {version}, which is newer than this version"
        raise BackupFailed(detail)


def _manifest_of(content: bytes) -> Manifest:
    """Raises BackupFailed with the location of the error."""
    try:
        document: Any = from_json(content)
    except ValueError as error:
        raise BackupFailed(f"not a backup: {MANIFEST} is not JSON: {error}") from None
    format = document.get("format") if isinstance(document, dict) else None
    if type(format) is int and format > FORMAT:
        raise BackupFailed(f"the backup has format {format}: use a newer version of svm-service")
    try:
        return Manifest.model_validate(document)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        location = ".".join(str(part) for part in fault["loc"]) or "the document"
        detail = f"the backup is damaged: {MANIFEST}, {location}: {fault['msg']}"
        raise BackupFailed(detail) from None


def _opened(path: Path) -> tarfile.TarFile:
    if path.is_file():  # opening a FIFO would block
        try:
            return tarfile.open(path, "r:")
        except UNREADABLE:
            pass
    raise BackupFailed(f"{path} is not a backup, or an incomplete one")


def _content(archive: tarfile.TarFile, name: str) -> bytes:
    with _member(archive, name) as file:
        return _read(file, name)


def _member(archive: tarfile.TarFile, name: str) -> BinaryIO:
    try:
        member = archive.getmember(name)
        file = archive.extractfile(member) if member.isreg() else None
    except (KeyError, *UNREADABLE):
        file = None
    if file is None:
        raise BackupFailed(f"not a backup, or an incomplete one: {name} is missing")
    return file  # type: ignore[return-value]  # IO[bytes] is one


def _read(file: BinaryIO, name: str, size: int = -1) -> bytes:
    try:
        return file.read(size)
    except UNREADABLE:
        raise BackupFailed(f"not a backup, or an incomplete one: {name} is truncated") from None
