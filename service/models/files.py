"""The files of model versions: the model, and beside it what a warm start needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import sqlalchemy as sa

from service.errors import Corrupt, NotFound
from service.models import artifacts
from service.models.versions import Label, ModelVersion, no_version
from service.storage.arrays import Arrays, pack, unpack
from service.storage.blobs import Blob, BlobDamaged, Blobs
from service.storage.database import Database, new_id, note_change, now
from service.storage.database.tables import model_versions
from svm.model.pipeline import FittedPipeline


@dataclass(frozen=True, slots=True)
class PreparedVersion:
    """A model's file, already written, and what its row will say of it."""

    blob: Blob
    warm_start: Blob | None
    digest: str
    classes: list[Label]
    columns: list[str] | None
    n_features: int
    calibration: str | None


class ModelFiles:
    """Writes, reads and deletes them; a damaged model is set aside in its version's row."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self._database = database
        self._blobs = blobs

    def prepare(
        self,
        fitted: FittedPipeline,
        columns: Sequence[str] | None,
        warm_start: Arrays | None = None,
    ) -> PreparedVersion:
        """Write the model's file, and beside it what a training that begins there needs.

        Unless their row follows, they are swept away later.
        """
        number = new_id("artifact")
        with self._blobs.temporary() as path:
            digest = artifacts.dump(fitted, path)
            blob = self._blobs.adopt(f"models/{number}", path)
        beside = None
        if warm_start is not None:
            beside = self._blobs.write(f"warm-starts/{number}", pack(warm_start))
        return PreparedVersion(
            blob=blob,
            warm_start=beside,
            digest=digest,
            classes=fitted.classes.tolist(),
            columns=None if columns is None else list(columns),
            n_features=fitted.n_features,
            calibration=None if fitted.calibration is None else fitted.calibration.name,
        )

    def load(self, version: ModelVersion) -> FittedPipeline:
        """The fitted model. Raises Corrupt, and sets the version aside, if its file is damaged."""
        _check_sound(version)
        try:
            content = self._blobs.read(version.artifact_key, version.artifact_sha256)
            return artifacts.load(content, version.artifact_sha256)
        except (Corrupt, BlobDamaged):
            raise self._quarantine(version) from None

    def load_warm_start(self, version: ModelVersion) -> Arrays:
        """What was given to `prepare` beside the model. Raises Corrupt."""
        assert version.warm_start_key is not None
        assert version.warm_start_sha256 is not None
        try:
            return unpack(self._blobs.read(version.warm_start_key, version.warm_start_sha256))
        except BlobDamaged:
            detail = f"what a warm start from {version.model_name}/{version.version} needs is lost"
            raise Corrupt("model-corrupt", f"{detail}; the model itself is not affected") from None

    def open_artifact(self, version: ModelVersion) -> BinaryIO:
        """The model's file, known to be undamaged. Raises Corrupt as `load`."""
        _check_sound(version)
        try:
            return self._blobs.open(version.artifact_key, version.artifact_sha256)
        except BlobDamaged:
            raise self._quarantine(version) from None

    def delete(self, *keys: str | None) -> None:
        """Those of versions whose rows are gone; None is the key of no file."""
        for key in keys:
            if key is not None:
                self._blobs.delete(key)

    def _quarantine(self, version: ModelVersion) -> Corrupt | NotFound:
        with self._database.write() as connection:
            marked = connection.execute(
                model_versions.update().where(same(version)).values(quarantined_at=now())
            )
            note_change(connection, version.model_name)
        if marked.rowcount == 0:  # deleted meanwhile: then nothing is wrong
            return no_version(version.model_name, version.version)
        return _corrupt(version)


def same(version: ModelVersion) -> sa.ColumnElement[bool]:
    """That a row is the version's."""
    return model_versions.c.artifact_key == version.artifact_key


def _check_sound(version: ModelVersion) -> None:
    if version.quarantined_at is not None:
        raise _corrupt(version)


def _corrupt(version: ModelVersion) -> Corrupt:
    return Corrupt(
        "model-corrupt",
        f"the file of {version.model_name} version {version.version} is damaged; "
        "it was set aside, other versions keep serving",
    )
