"""Models and versions as rows, and how to find them by reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from service.errors import NotFound
from service.models import aliases
from service.models.aliases import DEFAULT, LATEST
from service.storage.database import now, transaction_lock
from service.storage.database.pages import next_number
from service.storage.database.tables import model_versions, models

Label = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Model:
    """A name under which versions are kept."""

    name: str
    number: int
    """Of its place in lists."""
    created_at: float
    latest_version: int | None
    """The highest version; None if all were deleted."""
    aliases: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """A trained model and its origin; only `quarantined_at` can change."""

    model_name: str
    version: int
    created_at: float
    digest: str
    artifact_key: str
    artifact_sha256: str
    size_bytes: int
    classes: list[Label]
    columns: list[str] | None
    n_features: int
    n_support_vectors: int | None
    job_id: str | None
    """This and the next three are None for an imported model."""
    dataset_id: str | None
    dataset_digest: str | None
    seed: int | None
    spec: dict[str, Any]
    result: dict[str, Any]
    quarantined_at: float | None
    warm_start_key: str | None = None
    """None if there is no state for a warm start."""
    warm_start_sha256: str | None = None
    calibration: str | None = None
    """How scores become probabilities; None if they do not."""
    imported: dict[str, Any] | None = None
    """`format` and `origin`, which the file claims; None for a model that was trained here."""


_LATEST_VERSION = (
    sa.select(sa.func.max(model_versions.c.version))
    .where(model_versions.c.model_name == models.c.name)
    .correlate(models)
    .scalar_subquery()
)
MODELS = sa.select(
    models.c.name, models.c.number, models.c.created_at, _LATEST_VERSION.label("latest_version")
)


def find_model(connection: sa.Connection, name: str) -> Model:
    """Raises NotFound."""
    statement = MODELS.where(models.c.name == name, models.c.deleted_at.is_(None))
    row = connection.execute(statement).one_or_none()
    if row is None:
        raise NotFound("not-found", f"model {name} does not exist")
    return with_aliases(connection, [row._mapping])[0]


def with_aliases(connection: sa.Connection, rows: Sequence[sa.RowMapping]) -> list[Model]:
    """Models from rows of `MODELS`."""
    by_model: dict[str, dict[str, int]] = {row["name"]: {} for row in rows}
    for alias in aliases.of_models(connection, list(by_model)):
        by_model[alias.model_name][alias.alias] = alias.version
    return [Model(**row, aliases=by_model[row["name"]]) for row in rows]


def find_version(connection: sa.Connection, name: str, reference: int | str | None) -> ModelVersion:
    """By number, by alias, or (None) the alias `default`, else the latest. Raises NotFound."""
    if isinstance(reference, str) and reference != LATEST:
        alias = aliases.find(connection, name, reference)
        if alias is None:
            raise no_alias(name, reference)
        number: int | None = alias.version
    elif reference is None:
        alias = aliases.find(connection, name, DEFAULT)
        number = alias.version if alias else None
    else:
        number = reference if isinstance(reference, int) else None
    statement = sa.select(model_versions).where(model_versions.c.model_name == name)
    if number is None:
        statement = statement.order_by(model_versions.c.version.desc()).limit(1)
    else:
        statement = statement.where(model_versions.c.version == number)
    row = connection.execute(statement).one_or_none()
    if row is None:
        raise no_version(name, number)
    return ModelVersion(**row._mapping)


def find_versions(
    connection: sa.Connection, references: Iterable[tuple[str, int | str | None]]
) -> list[ModelVersion | NotFound]:
    """For each name and reference what `find_version` returns or raises."""
    results: list[ModelVersion | NotFound] = []
    for name, reference in references:
        try:
            results.append(find_version(connection, name, reference))
        except NotFound as error:
            results.append(error)
    return results


def lock_model(connection: sa.Connection, name: str) -> None:
    """Until the end of the transaction, others that change or delete the model wait."""
    transaction_lock(connection, f"model {name}")


def next_version(connection: sa.Connection, name: str) -> int:
    """Assign the model's next number; creates the model if there is none."""
    lock_model(connection, name)
    version: int | None = connection.scalar(_NEXT, {"model": name})
    if version is None:
        version = 1
        connection.execute(models.insert().values(name=name, created_at=now(), last_version=1))
    return version


_EXISTS = models.c.deleted_at.is_(None)
_NEXT = (
    models.update()
    .where(models.c.name == sa.bindparam("model"))
    .values(
        last_version=models.c.last_version + 1,
        deleted_at=None,
        # If it was deleted, this is a new model with the old name.
        created_at=sa.case((_EXISTS, models.c.created_at), else_=now()),
        number=sa.case((_EXISTS, models.c.number), else_=next_number("models")),
    )
    .returning(models.c.last_version)
)


def no_version(name: str, version: int | None) -> NotFound:
    what = f"model {name} with a version" if version is None else f"{name} version {version}"
    return NotFound("not-found", f"there is no {what}")


def no_alias(name: str, alias: str) -> NotFound:
    return NotFound("not-found", f"{name} has no alias {alias}")
