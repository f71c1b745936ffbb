"""Lists in pages by a key, newest first, so that inserts do not change other pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import sqlalchemy as sa

from service.errors import InvalidRequest

Item = TypeVar("Item")


class Cursor(NamedTuple):
    """The last item of a page: the next page begins after it."""

    created_at: float
    id: str | int


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Size of a page, and the item before it."""

    size: int = 50
    after: Cursor | None = None
    seal: bytes = b""
    """Identifies the list in the token of the next page."""


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Items newest first; `next` is None on the last page."""

    items: tuple[Item, ...]
    next: Cursor | None


def newest_first(
    connection: sa.Connection,
    statement: sa.Select[Any],
    created_at: sa.Column[float],
    id: sa.Column[Any],
    page: PageRequest,
    make: Callable[[sa.Row[Any]], Item],
) -> Page[Item]:
    """One page of `statement` ordered by (`created_at`, `id`), both descending.

    Columns of these names must be among the selected ones. `make` turns a row into an item.
    Raises InvalidRequest for a cursor of another list.
    """
    if page.after is not None:
        if type(page.after.id) is not id.type.python_type:
            raise InvalidRequest("invalid-parameter", "page_token is of another list")
        key = sa.tuple_(created_at, id)
        last = sa.tuple_(sa.literal(page.after.created_at), sa.literal(page.after.id))
        statement = statement.where(key < last)
    statement = statement.order_by(sa.desc(created_at), sa.desc(id)).limit(page.size + 1)
    rows = connection.execute(statement).all()
    shown = rows[: page.size]
    more = len(rows) > page.size
    last_row = shown[-1]._mapping if more else None
    return Page(
        tuple(make(row) for row in shown),
        Cursor(last_row[created_at.name], last_row[id.name]) if last_row is not None else None,
    )
