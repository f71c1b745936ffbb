"""Derived files as rows and blobs: each is rendered once, and deleted with its version.

A file that shows data, such as points in a plot, is also deleted with the dataset. The database
deletes the rows; the sweep then deletes blobs without a row. The messages between the service and
the process that renders files are here, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import sqlalchemy as sa

from service.models.files import PreparedVersion
from service.storage.blobs import BlobDamaged, Blobs
from service.storage.database import Database, new_id, now
from service.storage.database.tables import DerivedFile, ModelVersion, StoredModel, derived_files
from service.subprocesses.working import Messages


class DerivedFiles:
    """Finds and stores derived files."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self._database = database
        self.blobs = blobs

    def find(self, version: ModelVersion, name: str) -> DerivedFile | None:
        """The file of this name, if it was rendered already."""
        key = {"model_name": version.model_name, "version": version.version, "name": name}
        statement = sa.select(derived_files).filter_by(**key)
        with self._database.read() as connection:
            row = connection.execute(statement).one_or_none()
        return None if row is None else DerivedFile(**row._mapping)

    def open(self, file: DerivedFile) -> BinaryIO | None:
        """Its content. If it is damaged: deletes its row, to render it again, and returns None."""
        try:
            return self.blobs.open(file.file_key, file.file_sha256)
        except BlobDamaged:
            with self._database.write() as connection:
                same = derived_files.c.file_key == file.file_key
                connection.execute(derived_files.delete().where(same))
            return None

    def keep(
        self,
        version: ModelVersion,
        name: str,
        path: Path,
        *,
        dataset_id: str | None,
        about: dict[str, Any],
    ) -> None:
        """Store a finished temporary file; of two that were rendered at once, one is kept.

        If the version or the data were deleted meanwhile, nothing is stored.
        """
        blob = self.blobs.adopt(f"derived/{new_id('file')}", path)
        row = derived_files.insert().values(
            model_name=version.model_name,
            version=version.version,
            name=name,
            created_at=now(),
            dataset_id=dataset_id,
            file_key=blob.key,
            file_sha256=blob.sha256,
            size_bytes=blob.size_bytes,
            about=about,
        )
        try:
            with self._database.write() as connection:
                connection.execute(row)
        except sa.exc.IntegrityError:
            self.blobs.delete(blob.key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Render:
    """Render a file of a version and store it."""

    model: str
    version: int
    name: str
    """A key of `render_process.FILES`."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The file is stored."""


@dataclass(frozen=True, slots=True)
class ReadModel:
    """Read a model from a file."""

    path: str
    media_type: str


@dataclass(frozen=True, slots=True)
class ImportedModel:
    """The model's file is stored; its row is not written yet."""

    prepared: PreparedVersion
    origin: dict[str, Any]


MESSAGES = Messages(Render, Rendered, ReadModel, ImportedModel, PreparedVersion, StoredModel)
