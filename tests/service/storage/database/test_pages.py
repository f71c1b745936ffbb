"""Pages show every item once, newest first, also with inserts meanwhile."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from service.storage.database import Database
from service.storage.database.pages import Page, PageRequest, in_order
from service.storage.database.tables import models
from tests.backends import ON_ALL_BACKENDS

pytestmark = ON_ALL_BACKENDS


def _insert(database: Database, *rows: tuple[str, int]) -> None:
    with database.write() as connection:
        for name, number in rows:
            row = {"name": name, "number": number, "created_at": 0, "last_version": 0}
            connection.execute(models.insert().values(row))


def _name(row: sa.Row[Any]) -> str:
    name: str = row.name
    return name


def _page(database: Database, request: PageRequest) -> Page[str]:
    statement = sa.select(models.c.name, models.c.number)
    with database.read() as connection:
        key = models.c.number, models.c.name
        return in_order(connection, statement, key, request, _name)


def test_pages_continue_after_the_last_item(database: Database) -> None:
    """Items of equal numbers are ordered by id; a new item moves no others to another page."""
    _insert(database, ("a", 1), ("b", 2), ("c", 2), ("d", 3))
    first = _page(database, PageRequest(size=2))
    assert first.items == ("d", "c")
    _insert(database, ("e", 4))
    second = _page(database, PageRequest(size=2, after=first.next))
    assert second.items == ("b", "a")
    assert second.next is None


def test_exactly_full_page_is_the_last(database: Database) -> None:
    """No token leads to an empty page."""
    _insert(database, ("a", 1), ("b", 2))
    assert _page(database, PageRequest(size=2)).next is None


def test_empty_list_gives_an_empty_page(database: Database) -> None:
    """Without a token."""
    assert _page(database, PageRequest()) == Page((), None)
