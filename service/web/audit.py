"""`/v1/audit`: who changed what, when, from where, and with which result."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Query
from pydantic import AwareDatetime, Field

from service.common.schemas import ReadModel, Timestamp
from service.storage.database.audit import AuditLog, ChangeFilter
from service.storage.database.tables import Action
from service.web.access.scopes import Routes, requires_scope
from service.web.http.pagination import PageParams, next_page_token
from service.web.problems import responses

SUBJECT = r"^[a-z-]+/[A-Za-z0-9_.-]{1,255}(/[A-Za-z0-9_.-]{1,255})*$"


class ChangeRead(ReadModel):
    """A change."""

    id: str
    at: Annotated[Timestamp, Field(validation_alias="created_at")]
    actor: str
    """Name of the key; without keys the caller's address; `local` for a command on the machine
    itself. What a job does is done by its caller."""
    key_id: str | None
    address: str | None
    """Null for commands, and for what workers do."""
    request_id: str | None
    """Of the request, for the logs; of a job, the request that queued it."""
    action: Action
    """What was done to which kind of resource."""
    resource: str
    """Its path below `/v1/`."""
    result: dict[str, Any]
    """What the change resulted in, by action: such as the state of the job, or the version that an
    alias points to (`version`) and the one it pointed to (`before`)."""


class ChangePage(ReadModel):
    """Changes, newest first."""

    changes: list[ChangeRead]
    next_page_token: str | None


def _filter(
    key: Annotated[
        str | None,
        Query(max_length=255, description="Only changes by this key (id or name), or other actor."),
    ] = None,
    action: Annotated[Action | None, Query(description="Only changes of this kind.")] = None,
    resource: Annotated[
        str | None,
        Query(
            pattern=SUBJECT,
            description="Only changes of this resource and of what belongs to it, such as "
            "`models/iris`.",
        ),
    ] = None,
    since: Annotated[
        AwareDatetime | None, Query(description="Only changes at this time (RFC 3339) or later.")
    ] = None,
    until: Annotated[
        AwareDatetime | None, Query(description="Only changes before this time (RFC 3339).")
    ] = None,
) -> ChangeFilter:
    return ChangeFilter(
        key=key, action=action, resource=resource, since=_seconds(since), until=_seconds(until)
    )


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def router(log: AuditLog) -> Routes:
    routes = Routes(tag="operations")

    @routes.get(
        "/v1/audit",
        operation_id="list_changes",
        summary="Audit trail: who changed what",
        description="Every change that callers, jobs and commands made to datasets, jobs, models, "
        "aliases and keys, newest first; `audit_s` of `/v1/info` says how long they are kept. "
        "Requests that were refused changed nothing; the logs have them.",
        responses=responses("invalid-parameter"),
    )
    @requires_scope("admin")
    def list_changes(
        page: PageParams, which: Annotated[ChangeFilter, Depends(_filter)]
    ) -> ChangePage:
        changes = log.page(which, page)
        return ChangePage(
            changes=[ChangeRead.model_validate(change) for change in changes.items],
            next_page_token=next_page_token(page, changes),
        )

    return routes
