"""Who changed what: a row for each change, written in the transaction of the change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, get_args

import sqlalchemy as sa

from service.storage.database.database import Database, new_id, now
from service.storage.database.pages import Page, PageRequest, in_order
from service.storage.database.tables import Action, Change, audit

ACTIONS: tuple[Action, ...] = get_args(Action)


@dataclass(frozen=True, slots=True)
class Actor:
    """Who makes the changes of a request, a command or a job."""

    name: str
    """Of the key, or the caller's address if no key is required; `local` for a command on the
    machine itself."""
    key_id: str | None = None
    address: str | None = None
    request_id: str | None = None
    """Of a job: the request that queued it."""


LOCAL = Actor("local")
ACTOR: ContextVar[Actor] = ContextVar("actor", default=LOCAL)
"""Of the present request or job. Threads of a request have a copy of its context."""


@contextmanager
def acting(actor: Actor) -> Iterator[None]:
    """Changes inside the block are the actor's."""
    token = ACTOR.set(actor)
    try:
        yield
    finally:
        ACTOR.reset(token)


def record(connection: sa.Connection, action: Action, resource: str, **result: Any) -> None:
    """Write that the present actor made this change, with what it resulted in."""
    record_all(connection, action, {resource: result})


def record_all(
    connection: sa.Connection, action: Action, results: Mapping[str, Mapping[str, Any]]
) -> None:
    """The same for several resources, with the result of each."""
    by = ACTOR.get()
    rows = [
        {
            "id": new_id("change"),
            "actor": by.name,
            "key_id": by.key_id,
            "address": by.address,
            "request_id": by.request_id,
            "action": action,
            "resource": resource,
            "subject": subject_of(resource),
            "result": result,
        }
        for resource, result in results.items()
    ]
    connection.execute(_INSERT, rows)


_INSERT = sa.insert(audit).values(created_at=now())


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFilter:
    """Which changes a list shows; None: all."""

    key: str | None = None
    """Id or name of a key, or another actor."""
    action: Action | None = None
    resource: str | None = None
    """Also what belongs to it: aliases and versions to their model."""
    since: float | None = None
    until: float | None = None

    @property
    def conditions(self) -> Sequence[sa.ColumnElement[bool]]:
        conditions: list[sa.ColumnElement[bool]] = []
        if self.key is not None:
            column = audit.c.key_id if self.key.startswith("key_") else audit.c.actor
            conditions.append(column == self.key)
        if self.action is not None:
            conditions.append(audit.c.action == self.action)
        if self.resource is not None:
            conditions.append(audit.c.subject == subject_of(self.resource))
            if self.resource != subject_of(self.resource):
                within = audit.c.resource.startswith(f"{self.resource}/", autoescape=True)
                conditions.append(sa.or_(audit.c.resource == self.resource, within))
        if self.since is not None:
            conditions.append(audit.c.created_at >= self.since)
        if self.until is not None:
            conditions.append(audit.c.created_at < self.until)
        return conditions


class AuditLog:
    """Reads the table. Safe to share between threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(self, filter: ChangeFilter, page: PageRequest) -> Page[Change]:
        """Changes newest first; by their times, if these are filtered."""
        statement = sa.select(audit).where(*filter.conditions)
        by_time = filter.since is not None or filter.until is not None
        key = audit.c.created_at if by_time else audit.c.number, audit.c.id
        with self._database.read() as connection:
            return in_order(connection, statement, key, page, lambda row: Change(**row._mapping))

    def prune(self, kept_s: float) -> None:
        """Delete changes older than this."""
        with self._database.write() as connection:
            connection.execute(sa.delete(audit).where(audit.c.created_at < now() - kept_s))


def subject_of(resource: str) -> str:
    return "/".join(resource.split("/")[:2])
