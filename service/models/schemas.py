"""Models, versions and aliases in the API."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated, Any, Self

from pydantic import Field

from service.common.schemas import Audit, ReadModel, Timestamp, WriteModel
from service.storage.database.tables import Label, ModelVersion
from svm.data.columns import Kind

MAX_VERSION = 2**31 - 1
"""The largest signed integer of 32 bits."""


class ModelRead(ReadModel):
    """A name under which versions are kept."""

    name: str
    created_at: Timestamp
    latest_version: int | None
    """The highest version, to which the alias `latest` points; null if there is none."""
    aliases: dict[str, int]
    """Aliases and the versions they point to."""


class ModelPage(ReadModel):
    """Models, newest first."""

    models: list[ModelRead]
    next_page_token: str | None


class TableColumnRead(ReadModel):
    """A column that rows to predict need."""

    name: str
    kind: Kind
    missing: int
    """Missing cells among the training rows."""
    levels: list[str] | None = None
    """Of a category: the first ones."""
    n_levels: int | None = None
    """How many there are."""
    strongest: dict[str, dict[str, float]] | None = None
    """Of a text, if the model is linear: the words and pairs that speak most for each of the first
    classes, or for a `lower` or `higher` number, with their weights: what one adds to a score of
    the class, on average, if it is all that a text has."""


class TableRead(ReadModel):
    """The columns of a model of a table."""

    columns: list[TableColumnRead]
    notes: list[str]
    """What their encoding did with the training rows."""


class ModelVersionRead(ReadModel):
    """A trained model and its origin."""

    name: str
    version: int
    created_at: Timestamp
    digest: str
    """sha-256 of the model's content: equal models have equal digests."""
    artifact_sha256: str
    """sha-256 of the model's file."""
    size_bytes: int
    classes: list[Label]
    """Sorted; the columns of decision values follow this order."""
    columns: list[str] | None
    """Feature names, null if the training data had none."""
    n_features: int
    table: TableRead | None
    """Of a model of a table with categories, dates or gaps; null if all features are numbers."""
    reading: dict[str, Any] | None
    """How the training file was written, as `reading` of the dataset: rows in CSV and TSV may be
    written so, or with decimal points and ISO dates in UTF-8. Null for binary formats."""
    n_support_vectors: int | None
    calibration: str | None
    """How scores become probabilities, `sigmoid` or `isotonic`, or numbers become intervals,
    `conformal`; null if they do not."""
    metrics: dict[str, Any]
    """By subset of the data: `train`, and `validation` if there is a validation set."""
    audit: Audit
    """What was found in the dataset and by the training, without what `mute` names."""
    certificate: dict[str, Any]
    """What is proven about the cost, as in the job."""
    search: dict[str, Any] | None
    """What `auto` compared, as in the job."""
    converged: bool | None
    stop_reason: str | None
    epochs: int | None
    updates: int | None
    """Parameter updates made."""
    spec: dict[str, Any]
    """The job's request with all defaults; empty for an imported model."""
    seed: int | None
    job_id: str | None
    """Null for an imported model, as `seed` and the dataset."""
    dataset_id: str | None
    dataset_digest: str | None
    """`matrix_digest` of the training data."""
    imported: dict[str, Any] | None
    """Of an imported model: the `format` of its file, and the `origin` that the file claims,
    with metrics and certificate. Nothing of that was checked."""
    quarantined_at: Timestamp | None
    """When damage of the file was detected; null if it is not damaged."""

    @classmethod
    def of(cls, version: ModelVersion) -> Self:
        """The record, with what its `result` has; entries that this lacks are null or empty."""
        lacking = dict.fromkeys(cls.model_fields) | {"metrics": {}, "certificate": {}}
        own = {field.name: getattr(version, field.name) for field in fields(version)}
        return cls.model_validate(lacking | version.result | own | {"name": version.model_name})


class ModelCardRead(ReadModel):
    """A version in plain sentences, generated from records."""

    summary: str
    """What it is."""
    data: list[str]
    """What it was trained on."""
    columns: list[str]
    """What became of columns that are not plain numbers; empty if there are none."""
    certificate: list[str]
    """How far from the optimum it is."""
    quality: list[str]
    """Its metrics."""
    intended_use: list[str]
    limits: list[str]
    """What to consider, and what is not known about it."""
    version: ModelVersionRead


class ModelVersionPage(ReadModel):
    """Versions of a model, newest first."""

    versions: list[ModelVersionRead]
    next_page_token: str | None


class AliasUpdate(WriteModel):
    """The version that an alias points to."""

    version: Annotated[int, Field(ge=1, le=MAX_VERSION)]
    """A version of the same model."""


class AliasRead(ReadModel):
    """A name that points to a version of a model."""

    alias: str
    version: int
    updated_at: Timestamp


class AliasPage(ReadModel):
    """All aliases of a model, by name, without `latest`, which always exists."""

    aliases: list[AliasRead]
