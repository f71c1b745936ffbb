"""Tags of a resource as rows, besides the JSON column: for filters of lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

import sqlalchemy as sa

COMMON = 1000
"""A tag of fewer resources is the fastest filter."""


class Owner(Protocol):
    """A resource with tags."""

    @property
    def id(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def tags(self) -> Mapping[str, str]: ...


def add_tags(connection: sa.Connection, table: sa.Table, owners: Iterable[Owner]) -> None:
    """Store the tags of new owners."""
    rows = [
        {"id": owner.id, "key": key, "value": value, "number": owner.number}
        for owner in owners
        for key, value in owner.tags.items()
    ]
    if rows:
        connection.execute(sa.insert(table), rows)


def replace_tags(connection: sa.Connection, table: sa.Table, owner: Owner) -> None:
    """Store the tags of an owner instead of those before."""
    connection.execute(sa.delete(table).where(table.c.id == owner.id))
    add_tags(connection, table, [owner])


def has_tag(table: sa.Table, tag: tuple[str, str]) -> sa.ColumnElement[bool]:
    """The condition that a row of `table` is of this tag."""
    key, value = tag
    return sa.and_(table.c.key == key, table.c.value == value)


def is_common(connection: sa.Connection, table: sa.Table, tag: tuple[str, str]) -> bool:
    """Whether at least `COMMON` resources have the tag."""
    last = sa.select(table.c.id).where(has_tag(table, tag)).offset(COMMON - 1).limit(1)
    return connection.scalar(last) is not None
