"""Aliases: names such as `default` or `candidate` that point to a version of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from service.storage.database import now
from service.storage.database.audit import record
from service.storage.database.tables import model_aliases

DEFAULT = "default"
"""Used if a request names neither version nor alias, and this alias is set."""
LATEST = "latest"
"""Always the highest version; it cannot be set."""


@dataclass(frozen=True, slots=True)
class Alias:
    """`revision` grows with every move."""

    model_name: str
    alias: str
    version: int
    revision: int
    updated_at: float

    @property
    def etag(self) -> str:
        """Unique for each state, also if an alias is removed and set again."""
        return f"{self.revision}-{self.updated_at:.4f}"


def find(connection: sa.Connection, model_name: str, alias: str) -> Alias | None:
    row = connection.execute(
        sa.select(model_aliases).where(
            model_aliases.c.model_name == model_name, model_aliases.c.alias == alias
        )
    ).one_or_none()
    return None if row is None else Alias(**row._mapping)


def of_models(connection: sa.Connection, model_names: Sequence[str]) -> list[Alias]:
    """All aliases of these models, by name."""
    statement = (
        sa.select(model_aliases)
        .where(model_aliases.c.model_name.in_(model_names))
        .order_by(model_aliases.c.model_name, model_aliases.c.alias)
    )
    return [Alias(**row._mapping) for row in connection.execute(statement)]


def to_version(connection: sa.Connection, model_name: str, version: int) -> list[str]:
    """The aliases that point to a version."""
    aliases = of_models(connection, [model_name])
    return [alias.alias for alias in aliases if alias.version == version]


def point(connection: sa.Connection, model_name: str, alias: str, version: int) -> Alias:
    """Create the alias, or move it to the version."""
    present = find(connection, model_name, alias)
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
    record(connection, "alias.set", _path(model_name, alias), version=version, before=before)
    return Alias(**row._mapping)


def remove(connection: sa.Connection, model_name: str, alias: str | None = None) -> None:
    """Remove one alias of the model, or all of them."""
    statement = model_aliases.delete().where(model_aliases.c.model_name == model_name)
    if alias is not None:
        statement = statement.where(model_aliases.c.alias == alias)
    removed = statement.returning(model_aliases.c.alias, model_aliases.c.version)
    for row in connection.execute(removed).all():
        record(connection, "alias.delete", _path(model_name, row.alias), before=row.version)


def _path(model_name: str, alias: str) -> str:
    return f"models/{model_name}/aliases/{alias}"
