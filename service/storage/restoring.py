"""Backups put back: into any empty database and any empty store of files."""

from __future__ import annotations

import base64
import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any, BinaryIO

import sqlalchemy as sa

from service.storage.backups import (
    FORMAT,
    MANIFEST,
    OWN_TABLES,
    ROWS_AT_ONCE,
    BackupFailed,
    Saved,
    Show,
    is_json,
    summary_of,
    tables_of,
)
from service.storage.blobs import Blobs
from service.storage.database import Database, present_revision, revisions
from service.storage.ownership import MARKS, claim


def restore(database: Database, blobs: Blobs, path: Path, show: Show | None = None) -> Saved:
    """Fill an empty database and an empty store of files with what was backed up to `path`.

    Nothing else may use either meanwhile. Raises BackupFailed, Unavailable, OSError.
    """
    with _opened(path) as archive:
        manifest = _manifest(archive)
        _check_revision(database, manifest)
        _check_empty(database, blobs)
        database.migrate(manifest["revision"])
        _restore_files(archive, manifest["files"], blobs, show or (lambda *_: None))
        # Rows last, and all at once: a service never sees half of them.
        with database.write() as connection:
            for table in tables_of(connection).sorted_tables:
                if table.name in manifest["tables"]:
                    _restore_rows(archive, manifest["tables"][table.name], table, connection)
        database.migrate()
        claim(database, blobs)
    return summary_of(manifest)


def _restore_files(
    archive: tarfile.TarFile, files: dict[str, dict[str, Any]], blobs: Blobs, show: Show
) -> None:
    done = 0
    for number, (key, entry) in enumerate(files.items(), 1):
        if ".." in key.split("/") or key.startswith("/"):
            raise BackupFailed(f"no backup of ours: {key!r} is no key")
        with blobs.temporary() as path:
            with _member(archive, f"files/{key}") as source, path.open("wb") as target:
                while chunk := source.read(1024 * 1024):
                    target.write(chunk)
            blob = blobs.adopt(key, path)
        if blob.sha256 != entry["sha256"]:
            raise BackupFailed(f"the backup is damaged: {key} is not what was saved")
        done += blob.size_bytes
        show(number, done)


def _restore_rows(
    archive: tarfile.TarFile, entry: dict[str, Any], table: sa.Table, connection: sa.Connection
) -> None:
    with _member(archive, f"tables/{table.name}.jsonl") as file:
        content = file.read()
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise BackupFailed(
            f"the backup is damaged: the rows of {table.name} are not what was saved"
        )
    columns = [table.c[name] for name in entry["columns"]]
    for column in filter(is_json, columns):
        column.type = sa.JSON(none_as_null=True)
    rows = [
        {column.name: _value(column, value) for column, value in zip(columns, row, strict=True)}
        for row in map(json.loads, content.splitlines())
    ]
    for start in range(0, len(rows), ROWS_AT_ONCE):
        connection.execute(sa.insert(table), rows[start : start + ROWS_AT_ONCE])


def _value(column: sa.Column[Any], said: Any) -> Any:
    if said is None:
        return None
    if is_json(column):
        return sa.JSON.NULL if said == "null" else json.loads(said)
    return base64.b64decode(said) if isinstance(column.type, sa.LargeBinary) else said


def _check_empty(database: Database, blobs: Blobs) -> None:
    with database.read() as connection:
        tables = tables_of(connection).sorted_tables
        for table in tables:
            if table.name not in OWN_TABLES and connection.scalar(sa.select(sa.exists(table))):
                raise BackupFailed(f"the database is not empty: it has {table.name}")
    # A service that was started once has left its mark.
    if any(not (tables and key.startswith(f"{MARKS}/")) for key in blobs.keys("")):
        raise BackupFailed("the store of files is not empty")
    if tables:
        claim(database, blobs)


def _check_revision(database: Database, manifest: dict[str, Any]) -> None:
    wanted = manifest["revision"]
    present = present_revision(database)
    if present not in (None, wanted):
        raise BackupFailed("the database has tables of another version: give one without tables")
    if wanted not in revisions():
        version = manifest["service_version"]
        raise BackupFailed(f"the backup is of version {version}, which is newer than this one")


def _opened(path: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(path, "r:")
    except tarfile.TarError:
        raise BackupFailed(f"{path} is no backup, or an incomplete one") from None


def _manifest(archive: tarfile.TarFile) -> dict[str, Any]:
    with _member(archive, MANIFEST) as file:
        manifest: dict[str, Any] = json.load(file)
    if manifest["format"] != FORMAT:
        raise BackupFailed(f"the backup has format {manifest['format']}: use a newer version")
    return manifest


def _member(archive: tarfile.TarFile, name: str) -> BinaryIO:
    try:
        file = archive.extractfile(name)
    except (KeyError, tarfile.TarError):
        file = None
    if file is None:
        raise BackupFailed(f"no backup, or an incomplete one: {name} is missing")
    return file  # type: ignore[return-value]  # IO[bytes] is one
