"""Restores a backup into an empty database and an empty file store."""

from __future__ import annotations

import base64
import hashlib
import json
import tarfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import sqlalchemy as sa
from pydantic import ValidationError
from pydantic_core import from_json

from service.storage.backups.backup import (
    FORMAT,
    MANIFEST,
    OWN_TABLES,
    ROWS_AT_ONCE,
    BackupFailed,
    FileRef,
    Manifest,
    Saved,
    Show,
    TableEntry,
    is_json,
    named_files,
    summary_of,
    tables_of,
)
from service.storage.blobs import Blobs
from service.storage.database import Database, present_revision
from service.storage.ownership import MARKS, claim

UNREADABLE = (tarfile.TarError, EOFError, ValueError, OverflowError, RecursionError)
"""Errors of `tarfile` for a damaged archive."""
INVALID_ROWS = (
    *(ValueError, TypeError, RecursionError, OverflowError),
    *(sa.exc.IntegrityError, sa.exc.DataError),
)
"""Errors of rows that do not match their table."""


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
