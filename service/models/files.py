"""The files of model versions: the model, and the state for a warm start.

Small ones of trained models are in the database: then the commit of the version's row makes them
durable, too, and a short job waits for the disk once instead of five times.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, BinaryIO

import sqlalchemy as sa

from service.errors import Corrupt, NotFound
from service.models import artifacts
from service.models.versions import no_version
from service.storage.arrays import Arrays, pack, unpack
from service.storage.blobs import Blob, BlobDamaged, Blobs
from service.storage.database import Database, new_id, note_change, now
from service.storage.database.tables import (
    IN_ROWS,
    ModelVersion,
    StoredModel,
    model_files,
    model_versions,
)
from svm.encoding.encoder import PlainEncoder, describe
from svm.model.explanations import strongest_tokens
from svm.model.pipeline import FittedPipeline

SMALL_BYTES = 64 * 1024
"""The largest file in a row. SQLite is faster than files up to about this size."""
SHOWN_LEVELS = 20
"""Levels of a category that are listed; its `n_levels` counts all of them."""
SHOWN_NOTES = 200
SHOWN_CLASSES = 20
"""Classes whose strongest tokens are listed."""
SHOWN_TOKENS = 10


@dataclass(frozen=True, slots=True)
class PreparedVersion:
    """A stored model, before it has its row."""

    model: StoredModel
    facts: dict[str, Any]
    """What the record of the version also says: see `_facts_of`."""
    contents: dict[str, bytes] = field(default_factory=dict)
    """By key, what has no file and belongs into `model_files`."""


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
        *,
        small_in_rows: bool = False,
    ) -> PreparedVersion:
        """Write the model's file and the state for a warm start.

        The sweep deletes them later if no row follows.
        """
        number = new_id("artifact")
        contents: dict[str, bytes] = {}

        limit = SMALL_BYTES if small_in_rows else 0

        def store(key: str, content: bytes) -> Blob:
            if len(content) > limit:
                return self._blobs.write(key, content)
            contents[IN_ROWS + key] = content
            return Blob(IN_ROWS + key, hashlib.sha256(content).hexdigest(), len(content))

        key = f"models/{number}"
        if fitted.nbytes <= limit:
            digest = artifacts.dump(fitted, content := io.BytesIO())
            blob = store(key, content.getvalue())
        else:
            with self._blobs.temporary() as path:
                digest = artifacts.dump(fitted, path)
                blob = self._blobs.adopt(key, path)
        state = None
        if warm_start is not None:
            state = store(f"warm-starts/{number}", pack(warm_start))
        model = StoredModel(
            digest=digest,
            artifact_key=blob.key,
            artifact_sha256=blob.sha256,
            size_bytes=blob.size_bytes,
            warm_start_key=state.key if state else None,
            warm_start_sha256=state.sha256 if state else None,
            classes=fitted.classes.tolist(),
            columns=None if columns is None else list(columns),
            n_features=fitted.n_features,
            calibration=_calibration_of(fitted),
        )
        return PreparedVersion(model, _facts_of(fitted), contents)

    def load(self, version: ModelVersion) -> FittedPipeline:
        """The fitted model. If its file is damaged, quarantines the version and raises Corrupt."""
        _check_not_quarantined(version)
        try:
            content = self._read(version, version.artifact_key, version.artifact_sha256)
            return artifacts.load(content, version.artifact_sha256).named(version.columns)
        except (Corrupt, BlobDamaged):
            raise self._quarantine(version) from None

    def load_warm_start(self, version: ModelVersion) -> Arrays:
        """The state for a warm start, as given to `prepare`. Raises Corrupt."""
        assert version.warm_start_key is not None
        assert version.warm_start_sha256 is not None
        try:
            return unpack(self._read(version, version.warm_start_key, version.warm_start_sha256))
        except BlobDamaged:
            name = f"{version.model_name}/{version.version}"
            detail = f"the warm-start file of {name} is damaged; the model itself is not affected"
            raise Corrupt("model-corrupt", detail) from None

    def open_artifact(self, version: ModelVersion) -> BinaryIO:
        """The model's file, after a check of its digest. Raises Corrupt as `load`."""
        _check_not_quarantined(version)
        try:
            if not version.artifact_key.startswith(IN_ROWS):
                return self._blobs.open(version.artifact_key, version.artifact_sha256)
            content = self._read(version, version.artifact_key, version.artifact_sha256)
        except BlobDamaged:
            raise self._quarantine(version) from None
        file = tempfile.TemporaryFile()  # noqa: SIM115  (the caller closes it)
        file.write(content)
        file.seek(0)
        return file

    def delete(self, *keys: str | None) -> None:
        """Delete files of versions whose rows were deleted; None is skipped."""
        for key in keys:
            if key is not None and not key.startswith(IN_ROWS):
                self._blobs.delete(key)

    def _read(self, version: ModelVersion, key: str, sha256: str) -> bytes:
        """The content of a key of the version. Raises BlobDamaged."""
        if not key.startswith(IN_ROWS):
            return self._blobs.read(key, sha256)
        wanted = sa.and_(
            model_files.c.model_name == version.model_name,
            model_files.c.version == version.version,
            model_files.c.name == key,
        )
        with self._database.read() as connection:
            content = connection.scalar(sa.select(model_files.c.content).where(wanted))
        if content is None or hashlib.sha256(content).hexdigest() != sha256:
            raise BlobDamaged(key)
        return bytes(content)

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


def _calibration_of(fitted: FittedPipeline) -> str | None:
    if fitted.calibration is not None:
        return fitted.calibration.name
    return None if fitted.conformal is None else "conformal"


def _facts_of(fitted: FittedPipeline) -> dict[str, Any]:
    """The `table`, of a model of one, `rejection_rows`, of a model that can withhold labels, and
    whether compiled loops score its rows."""
    table, rejection = describe_table(fitted), fitted.rejection
    facts = {
        "table": table,
        "rejection_rows": None if rejection is None else len(rejection.decisions),
        "compiled": fitted.is_compiled or None,
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


def describe_table(fitted: FittedPipeline) -> dict[str, Any] | None:
    """`columns` and `notes`: what their encoding did. None for a model of plain numbers."""
    encoder = fitted.encoder
    if isinstance(encoder, PlainEncoder):
        return None
    columns = []
    strongest = strongest_tokens(fitted, SHOWN_TOKENS)
    of = fitted.classes.tolist() if fitted.target is None else ["lower", "higher"]
    for j, (column, missing) in enumerate(
        zip(encoder.columns, encoder.missing.tolist(), strict=True)
    ):
        entry: dict[str, Any] = {"name": column.name, "kind": column.kind, "missing": missing}
        if column.kind == "category":
            entry["levels"] = list(column.levels[:SHOWN_LEVELS])
            entry["n_levels"] = len(column.levels)
        if j in strongest:
            entry["strongest"] = {
                str(name): {one.token: one.weight for one in tokens}
                for name, tokens in islice(zip(of, strongest[j], strict=True), SHOWN_CLASSES)
            }
        columns.append(entry)
    sentences = describe(encoder)
    if (left_out := len(sentences) - SHOWN_NOTES) > 0:
        sentences = [*sentences[:SHOWN_NOTES], f"and {left_out:,} more columns"]
    return {"columns": columns, "notes": sentences}
