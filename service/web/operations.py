"""Routes for operators: `/livez`, `/readyz`, `/metrics`, `/v1/info`, and the trail `/v1/audit`; the
meaning of each problem at `/problems`, as JSON and as pages for browsers."""

from __future__ import annotations

import html
import platform
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from importlib.metadata import version
from typing import Annotated, Any, Literal, TypeAlias

from anyio import CapacityLimiter, move_on_after
from anyio.to_thread import run_sync
from fastapi import Depends, Path, Query
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from pydantic import AwareDatetime, BaseModel, BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from service import __version__
from service.common.content_negotiation import choose
from service.common.event_stream import Health, shutting_down
from service.common.schemas import ReadModel, Timestamp
from service.errors import NotFound, Unavailable
from service.settings import Limits, Settings
from service.storage.database import Database
from service.storage.database.audit import AuditLog, ChangeFilter
from service.storage.database.tables import Action
from service.storage.machine_code import is_compiling
from service.web.access.scopes import Routes, requires_scope
from service.web.http.pagination import PageParams, next_page_token
from service.web.problems import PROBLEMS, Frame, ProblemKindRead, responses

RETRY_AFTER_S = 1
CHECK_S = 0.8
"""Timeout of the database; that of probes is a second."""
SUBJECT = r"^[a-z-]+/[A-Za-z0-9_.-]{1,255}(/[A-Za-z0-9_.-]{1,255})*$"
JSON, HTML = "application/json", "text/html"
VARY = {"Vary": "Accept"}


class HealthRead(BaseModel):
    status: Literal["ok"] = "ok"


class ReadinessRead(HealthRead):
    compiling: bool
    """Whether loops are being compiled for this machine, once: until it is done, first trainings of
    a kind take longer."""


class LimitsRead(Limits):
    """Limits of requests, datasets, jobs and connections."""

    header_s: float
    """Timeout for receiving the header of a request, in seconds."""
    body_idle_s: float
    """Timeout for receiving a body, in seconds: at least 4 KiB must arrive in each period."""
    connections: int
    """Most connections open at once; further ones receive 503."""


class InfoRead(ReadModel):
    """Versions and limits."""

    name: str
    version: str
    python: str
    libraries: dict[str, str]
    """Versions of the libraries that the bits of a model depend on."""
    limits: LimitsRead


class MetricsResponse(Response):
    media_type = CONTENT_TYPE_LATEST


def router(
    health: Health, database: Database, registry: CollectorRegistry, settings: Settings
) -> Routes:
    """Routes for operators; readiness depends on `health` and `database`."""
    routes = Routes(tag="operations")
    checks = CapacityLimiter(1)  # a thread that other requests do not use
    libraries = {name: version(name) for name in ("numpy", "scipy", "numba")}

    @routes.get("/livez", operation_id="get_livez", summary="Liveness: is the process alive?")
    @requires_scope(None)
    async def livez() -> HealthRead:
        """Replies as long as the process is alive. Restart the process if it does not reply."""
        return HealthRead()

    @routes.get(
        "/readyz",
        operation_id="get_readyz",
        summary="Readiness: can it receive requests?",
        responses=responses("not-ready", "shutting-down"),
    )
    @requires_scope(None)
    async def readyz() -> ReadinessRead:
        """200 if the database responds and no shutdown has begun, else 503."""
        if health.draining:
            raise shutting_down()
        answered = False
        with suppress(Unavailable), move_on_after(CHECK_S):
            await run_sync(database.check, limiter=checks, abandon_on_cancel=True)
            answered = True
        if not answered:
            raise Unavailable(
                "not-ready", "the database does not respond", retry_after_s=RETRY_AFTER_S
            )
        return ReadinessRead(compiling=is_compiling())

    @routes.get(
        "/metrics",
        operation_id="get_metrics",
        summary="Metrics in Prometheus format",
        response_class=MetricsResponse,
    )
    def metrics() -> Response:
        """Counts and durations of requests, jobs by state, memory and processor time."""
        return MetricsResponse(generate_latest(registry))

    @routes.get("/v1/info", operation_id="get_info", summary="Version and limits")
    async def info() -> InfoRead:
        """The version of the service and its libraries, and its limits."""
        return InfoRead(
            name="svm-service",
            version=__version__,
            python=platform.python_version(),
            libraries=libraries,
            limits=LimitsRead(
                **settings.limits.model_dump(),
                header_s=settings.header_s,
                body_idle_s=settings.body_idle_s,
                connections=settings.connections,
            ),
        )

    return routes


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


def _written_out(value: Any) -> Any:
    """Pydantic would read a number as seconds, too. Raises ValueError."""
    if isinstance(value, str) and not re.match(r"\d{4}-\d\d-\d\d", value):
        raise ValueError("write the time as 2026-11-26T12:00:00Z (RFC 3339)")
    return value


Moment: TypeAlias = Annotated[AwareDatetime, BeforeValidator(_written_out)]


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
        Moment | None, Query(description="Only changes at this time (RFC 3339) or later.")
    ] = None,
    until: Annotated[
        Moment | None, Query(description="Only changes before this time (RFC 3339).")
    ] = None,
) -> ChangeFilter:
    return ChangeFilter(
        key=key, action=action, resource=resource, since=_seconds(since), until=_seconds(until)
    )


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()


def audit_router(log: AuditLog) -> Routes:
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


class ProblemKindPage(BaseModel):
    problems: list[ProblemKindRead]


def problem_router(frame: Frame) -> Routes:
    """Routes that require no key."""
    routes = Routes("/problems", "operations")
    page: dict[int | str, dict[str, Any]] = {200: {"content": {HTML: {}}}}

    @routes.get(
        "",
        operation_id="list_problems",
        summary="List all kinds of problems",
        response_model=ProblemKindPage,
        responses={**page, **responses("not-acceptable")},
    )
    @requires_scope(None)
    async def all_problems(request: Request, response: Response) -> ProblemKindPage | Response:
        """Every `code` that a reply of type `application/problem+json` can carry; a page for
        browsers."""
        kinds = [PROBLEMS[code] for code in sorted(PROBLEMS)]
        if choose(request, (JSON, HTML)) == HTML:
            return _problem_page(frame, request, "Problems", kinds)
        response.headers.update(VARY)
        return ProblemKindPage(problems=kinds)

    @routes.get(
        "/{code}",
        operation_id="get_problem",
        summary="Explain one kind of problem",
        response_model=ProblemKindRead,
        responses={**page, **responses("not-found", "not-acceptable")},
    )
    @requires_scope(None)
    async def one_problem(
        request: Request,
        response: Response,
        code: Annotated[str, Path(description="The problem's `code`.", examples=["not-found"])],
    ) -> ProblemKindRead | Response:
        """What a problem's `type` links to; a page for browsers."""
        if code not in PROBLEMS:
            raise NotFound("not-found", f"there is no problem '{code}'")
        if choose(request, (JSON, HTML)) == HTML:
            return _problem_page(frame, request, PROBLEMS[code].title, [PROBLEMS[code]])
        response.headers.update(VARY)
        return PROBLEMS[code]

    return routes


def _problem_page(
    frame: Frame, request: Request, title: str, kinds: Sequence[ProblemKindRead]
) -> HTMLResponse:
    sections = "".join(
        f"<section><h2>{_text(kind.title)}</h2>\n<p>{_text(kind.description)}</p>\n"
        f'<p class="soft"><a href="/problems/{kind.code}"><code>{kind.code}</code></a>, '
        f"status {kind.status}</p></section>\n"
        for kind in kinds
    )
    crumb = "" if len(kinds) > 1 else '<p class="crumb"><a href="/problems">All problems</a></p>'
    main = f"{crumb}\n<h1>Problems</h1>\n{sections}"
    return HTMLResponse(frame(request, title, main), headers=VARY)


def _text(words: str) -> str:
    """As HTML; text between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(words))
