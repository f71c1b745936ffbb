"""Derived files as rows and blobs: each is made once, and goes with its version.

One that shows data, such as points in a plot, goes with the dataset, too. The database sees to
both; the sweep then finds blobs that no row names.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import sqlalchemy as sa

from service.models.versions import ModelVersion
from service.storage.blobs import BlobDamaged, Blobs
from service.storage.database import Database, new_id, now
from service.storage.database.tables import derived_files


@dataclass(frozen=True, slots=True)
class DerivedFile:
    """A file's row."""

    model_name: str
    version: int
    name: str
    created_at: float
    dataset_id: str | None
    """Of the data that can be seen in it."""
    file_key: str
    file_sha256: str
    size_bytes: int
    about: dict[str, Any]


class DerivedFiles:
    """Finds and keeps them."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self._database = database
        self.blobs = blobs

    def find(self, version: ModelVersion, name: str) -> DerivedFile | None:
        """The file of this name, if it was made already."""
        statement = sa.select(derived_files).where(*_named(version, name))
        with self._database.read() as connection:
            row = connection.execute(statement).one_or_none()
        return None if row is None else DerivedFile(**row._mapping)

    def open(self, file: DerivedFile) -> BinaryIO | None:
        """Its content; None if it is damaged, and then it is forgotten, to be made again."""
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
        """Take over a finished temporary file; of two that were made at once one stays.

        Should the version or the data have been deleted meanwhile, nothing is kept.
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


def _named(version: ModelVersion, name: str) -> tuple[sa.ColumnElement[bool], ...]:
    columns = derived_files.c
    return (
        columns.model_name == version.model_name,
        columns.version == version.version,
        columns.name == name,
    )
