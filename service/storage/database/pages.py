"""Lists in pages, usually newest first, so that inserts do not change other pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import sqlalchemy as sa

from service.errors import InvalidRequest

Item = TypeVar("Item")


Cursor: TypeAlias = "tuple[float | str, ...]"
"""The key of the last item of a page: the next page begins after it."""
COMMON = 1000
"""A tag of fewer resources is the fastest filter."""
SEARCHED = 10_000
"""How many of the newest rows are searched for a text: no search reads all of them."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Size of a page, and the item before it."""

    size: int = 50
    after: Cursor | None = None
    seal: bytes = b""
    """Identifies the list in the token of the next page."""
    ascending: bool = False
    """The list begins with the lowest key, such as that of the oldest item."""
    by: str = ""
    """Another key than the age, if the list has one of this name."""


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Items in order; `next` is None on the last page."""

    items: tuple[Item, ...]
    next: Cursor | None


def numbered(table: str) -> sa.Column[int]:
    """A column by which rows of the table are in the order of their insertion. The clock can be set
    back."""
    return sa.Column("number", sa.BigInteger, nullable=False, default=next_number(table))


def next_number(table: str, column: str = "number") -> sa.ScalarSelect[int]:
    """One more than the highest of the column. Two rows that PostgreSQL inserts at the same time
    can have the same."""
    numbers = sa.column(column, sa.BigInteger)
    highest = sa.func.coalesce(sa.func.max(numbers), 0)
    return sa.select(highest + 1).select_from(sa.table(table, numbers)).scalar_subquery()


def in_order(
    connection: sa.Connection,
    statement: sa.Select[Any],
    key: tuple[sa.Column[Any], ...],
    page: PageRequest,
    make: Callable[[sa.Row[Any]], Item],
    *,
    indexed: bool = True,
) -> Page[Item]:
    """One page of `statement` in descending order of `key`, or ascending as the page says.

    Columns of its names must be among the selected ones; a text that can be NULL is in any case.
    `make` turns a row into an item. Keys without an index are sorted apart from the other columns.
    Raises InvalidRequest for a cursor of another list.
    """

    def compared(column: sa.Column[Any], value: Any) -> Any:
        return sa.func.lower(sa.func.coalesce(value, "")) if column.nullable else value

    by = [compared(one, one) for one in key]
    if page.after is not None:
        if [type(value) for value in page.after] != [one.type.python_type for one in key]:
            raise InvalidRequest("invalid-parameter", "page_token is of another list")
        after = map(compared, key, map(sa.literal, page.after))
        here, last = sa.tuple_(*by), sa.tuple_(*after)
        statement = statement.where(here > last if page.ascending else here < last)
    order = sa.asc if page.ascending else sa.desc
    statement = statement.order_by(*map(order, by)).limit(page.size + 1)
    if not indexed:
        statement = statement.where(key[-1].in_(statement.with_only_columns(key[-1])))
    rows = connection.execute(statement).all()
    shown = rows[: page.size]
    more = len(rows) > page.size
    last_row = shown[-1]._mapping if more else None
    return Page(
        tuple(make(row) for row in shown),
        None if last_row is None else tuple(_filled(last_row[one.name]) for one in key),
    )


def _filled(value: Any) -> Any:
    return "" if value is None else value


def is_new(number: sa.Column[int]) -> sa.ColumnElement[bool]:
    """The condition that a row is one of the newest `SEARCHED`."""
    return number > sa.select(sa.func.max(number)).scalar_subquery() - SEARCHED


def named_like(name: sa.Column[Any], number: sa.Column[int], text: str) -> sa.ColumnElement[bool]:
    """The condition that a name contains the text, in any case, and that the row is new."""
    return sa.and_(is_new(number), name.icontains(text, autoescape=True))


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
