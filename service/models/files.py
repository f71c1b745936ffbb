"""The files of model versions: the model, and the state for a warm start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import sqlalchemy as sa

from service.errors import Corrupt, NotFound
from service.models import artifacts
from service.models.described import described
from service.models.versions import Label, ModelVersion, no_version
from service.storage.arrays import Arrays, pack, unpack
from service.storage.blobs import Blob, BlobDamaged, Blobs
from service.storage.database import Database, new_id, note_change, now
from service.storage.database.tables import model_versions
from svm.model.pipeline import FittedPipeline


@dataclass(frozen=True, slots=True)
class PreparedVersion:
    """A model's stored file, and the values for its row."""

    blob: Blob
    warm_start: Blob | None
    digest: str
    classes: list[Label]
    columns: list[str] | None
    n_features: int
    calibration: str | None
    table: dict[str, Any] | None
    """Of a model of a table: `described`."""


class ModelFiles:
    """Writes, reads and deletes files; a version with a damaged file is quarantined."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self._database = database
        self._blobs = blobs

    def prepare(
        self,
        fitted: FittedPipeline,
        columns: Sequence[str] | None,
        warm_start: Arrays | None = None,
    ) -> PreparedVersion:
        """Write the model's file and the state for a warm start.

        The sweep deletes them later if no row follows.
        """
        number = new_id("artifact")
        with self._blobs.temporary() as path:
            digest = artifacts.dump(fitted, path)
            blob = self._blobs.adopt(f"models/{number}", path)
        state = None
        if warm_start is not None:
            state = self._blobs.write(f"warm-starts/{number}", pack(warm_start))
        return PreparedVersion(
            blob=blob,
            warm_start=state,
            digest=digest,
            classes=fitted.classes.tolist(),
            columns=None if columns is None else list(columns),
            n_features=fitted.n_features,
            calibration=None if fitted.calibration is None else fitted.calibration.name,
            table=described(fitted),
        )

    def load(self, version: ModelVersion) -> FittedPipeline:
        """The fitted model. If its file is damaged, quarantines the version and raises Corrupt."""
        _check_not_quarantined(version)
        try:
            content = self._blobs.read(version.artifact_key, version.artifact_sha256)
            return artifacts.load(content, version.artifact_sha256)
        except (Corrupt, BlobDamaged):
            raise self._quarantine(version) from None

    def load_warm_start(self, version: ModelVersion) -> Arrays:
        """The state for a warm start, as given to `prepare`. Raises Corrupt."""
        assert version.warm_start_key is not None
        assert version.warm_start_sha256 is not None
        try:
            return unpack(self._blobs.read(version.warm_start_key, version.warm_start_sha256))
        except BlobDamaged:
            name = f"{version.model_name}/{version.version}"
            detail = f"the warm-start file of {name} is damaged; the model itself is not affected"
            raise Corrupt("model-corrupt", detail) from None

    def open_artifact(self, version: ModelVersion) -> BinaryIO:
        """The model's file, after a check of its digest. Raises Corrupt as `load`."""
        _check_not_quarantined(version)
        try:
            return self._blobs.open(version.artifact_key, version.artifact_sha256)
        except BlobDamaged:
            raise self._quarantine(version) from None

    def delete(self, *keys: str | None) -> None:
        """Delete files of versions whose rows were deleted; None is skipped."""
        for key in keys:
            if key is not None:
                self._blobs.delete(key)

    def _quarantine(self, version: ModelVersion) -> Corrupt | NotFound:
        with self._database.write() as connection:
            marked = connection.execute(
                model_versions.update().where(same(version)).values(quarantined_at=now())
            )
            note_change(connection, version.model_name)
        if marked.rowcount == 0:  # deleted meanwhile
            return no_version(version.model_name, version.version)
        return _corrupt(version)


def same(version: ModelVersion) -> sa.ColumnElement[bool]:
    """The condition that a row is this version's."""
    return model_versions.c.artifact_key == version.artifact_key


def _check_not_quarantined(version: ModelVersion) -> None:
    if version.quarantined_at is not None:
        raise _corrupt(version)


def _corrupt(version: ModelVersion) -> Corrupt:
    return Corrupt(
        "model-corrupt",
        f"the file of {version.model_name} version {version.version} is damaged; "
        "it is quarantined; use another version, or restore a backup",
    )
