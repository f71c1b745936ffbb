"""Models, versions and aliases as rows, and how to find them by reference.

Aliases are names such as `default` or `candidate` that point to a version of a model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from service.errors import NotFound
from service.storage.database import now, transaction_lock
from service.storage.database.audit import record
from service.storage.database.pages import next_number
from service.storage.database.tables import (
    Alias,
    ModelVersion,
    model_aliases,
    model_versions,
    models,
)

DEFAULT = "default"
"""Used if a request names neither version nor alias, and this alias is set."""
LATEST = "latest"
"""Always the highest version; it cannot be set."""


@dataclass(frozen=True, slots=True)
class Model:
    """A name under which versions are kept."""

    name: str
    number: int
    """Its place in lists."""
    created_at: float
    latest_version: int | None
    """The highest version; None if all were deleted."""
    aliases: Mapping[str, int]


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
    for alias in aliases_of(connection, list(by_model)):
        by_model[alias.model_name][alias.alias] = alias.version
    return [Model(**row, aliases=by_model[row["name"]]) for row in rows]


def find_version(connection: sa.Connection, name: str, reference: int | str | None) -> ModelVersion:
    """By number, by alias, or (None) the alias `default`, else the latest. Raises NotFound."""
    if isinstance(reference, str) and reference != LATEST:
        alias = find_alias(connection, name, reference)
        if alias is None:
            raise no_alias(name, reference)
        number: int | None = alias.version
    elif reference is None:
        alias = find_alias(connection, name, DEFAULT)
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


def find_alias(connection: sa.Connection, model_name: str, alias: str) -> Alias | None:
    row = connection.execute(
        sa.select(model_aliases).where(
            model_aliases.c.model_name == model_name, model_aliases.c.alias == alias
        )
    ).one_or_none()
    return None if row is None else Alias(**row._mapping)


def aliases_of(connection: sa.Connection, model_names: Sequence[str]) -> list[Alias]:
    """All aliases of these models, by name."""
    statement = (
        sa.select(model_aliases)
        .where(model_aliases.c.model_name.in_(model_names))
        .order_by(model_aliases.c.model_name, model_aliases.c.alias)
    )
    return [Alias(**row._mapping) for row in connection.execute(statement)]


def point_alias(connection: sa.Connection, model_name: str, alias: str, version: int) -> Alias:
    """Create the alias, or move it to the version."""
    present = find_alias(connection, model_name, alias)
    if present is None:
        statement: sa.Insert | sa.Update = model_aliases.insert().values(
            model_name=model_name, alias=alias, version=version, revision=1, updated_at=now()
        )
    else:
        statement = (
            model_aliases.update()
            .where(model_aliases.c.model_name == model_name, model_aliases.c.alias == alias)
            .values(version=version, revision=present.revision + 1, updated_at=now())
        )
    row = connection.execute(statement.returning(*model_aliases.c)).one()
    before = None if present is None else present.version
    record(connection, "alias.set", _alias_path(model_name, alias), version=version, before=before)
    return Alias(**row._mapping)


def remove_aliases(connection: sa.Connection, model_name: str, alias: str | None = None) -> None:
    """Remove one alias of the model, or all of them."""
    statement = model_aliases.delete().where(model_aliases.c.model_name == model_name)
    if alias is not None:
        statement = statement.where(model_aliases.c.alias == alias)
    removed = statement.returning(model_aliases.c.alias, model_aliases.c.version)
    for row in connection.execute(removed).all():
        record(connection, "alias.delete", _alias_path(model_name, row.alias), before=row.version)


def _alias_path(model_name: str, alias: str) -> str:
    return f"models/{model_name}/aliases/{alias}"
