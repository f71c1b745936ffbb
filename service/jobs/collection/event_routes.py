"""`/v1/jobs/{id}/events`: what happens to a job, as a stream or in pages."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import APIRouter, Header, Request, Response

from service.common import event_stream
from service.common.content_negotiation import choose
from service.common.keys import Scope
from service.common.names import JobId
from service.errors import InvalidRequest, NotFound, Unavailable
from service.jobs.collection.schemas import EventPage, EventRead
from service.jobs.core.access import JobAccess
from service.jobs.core.events import Batch, Event
from service.jobs.core.job import Job
from service.jobs.core.watcher import Condition, Watcher
from service.storage.database.pages import Cursor, Page, PageRequest
from service.web.access.scopes import requires_scope
from service.web.http.headers import is_head
from service.web.http.pagination import PageParams, next_page_token
from service.web.problems import responses

HEARTBEAT_S = 15.0
BATCH = 500
"""Most events read at once for a stream."""
RETRY_AFTER_S = 1
MAX_NUMBER = 2**31 - 1

EXAMPLE = """\
id: 7
event: progress
data: {"at": "2026-01-31T12:00:00.250Z", "fraction": 0.5, "epoch": 10, "eta_s": 1.5}

id: 8
event: end
data: {"at": "2026-01-31T12:00:01.500Z", "state": "succeeded", "stop_reason": "gap-reached"}

"""

LastEventId = Annotated[
    int | None,
    Header(
        ge=0,
        le=MAX_NUMBER,
        description="Only events after this one; browsers send it when they reconnect.",
    ),
]


def add_events(
    routes: APIRouter,
    access: JobAccess,
    name: str,
    a_noun: str,
    readers: tuple[Scope, ...],
    get: Callable[[Request, str], Job],
) -> None:
    """`/{id}/events` of a collection. `name` is in the operation's id, `a_noun` in its summary;
    `get` raises NotFound and Forbidden. Streams end early once the watcher is closing."""
    log, watcher = access.log, access.watcher

    @routes.get(
        "/{id}/events",
        operation_id=f"get_{name}_events",
        summary=f"Follow {a_noun}",
        description="All events of the job, past and future, in order: `state` for "
        "every change of state and every request to cancel or pause, `progress` at most four times "
        "a second, `checkpoint`, `warning`, and `end`, after which the stream closes. "
        "`Accept: text/event-stream`, the default, gives server-sent events, which can be resumed "
        "with `Last-Event-ID`; `Accept: application/json` gives the events so far in pages, oldest "
        "first.",
        response_model=EventPage,
        responses={
            200: {
                "description": "The events.",
                "content": {event_stream.MEDIA_TYPE: {"example": EXAMPLE}},
            },
            204: {"description": "The job has ended, and there are no further events."},
            **responses(
                *("invalid-parameter", "not-found", "not-acceptable"),
                *("too-many-streams", "shutting-down"),
            ),
        },
    )
    @requires_scope(*readers)
    async def get_events(
        request: Request, id: JobId, page: PageParams, last_event_id: LastEventId = None
    ) -> EventPage | Response:
        await run_sync(get, request, id)
        media_type = choose(request, (event_stream.MEDIA_TYPE, "application/json"))
        after = last_event_id or 0
        if media_type == "application/json":
            if page.after is not None:
                after = _number(page.after)
            return _page(await run_sync(log.read, id, after, page.size + 1), page)
        batch = await watcher.read(id, after, BATCH)
        if batch.complete and not batch.events:
            return Response(status_code=204)
        if watcher.closing:
            raise Unavailable(
                "shutting-down", "the service is shutting down", retry_after_s=RETRY_AFTER_S
            )
        if is_head(request):  # only the headers; a stream would keep the connection
            return Response(media_type=event_stream.MEDIA_TYPE)
        return access.streams.reply(request, follow(watcher, id, after, batch))


async def follow(
    watcher: Watcher,
    job_id: str,
    after: int,
    batch: Batch,
    heartbeat_s: float = HEARTBEAT_S,
) -> AsyncGenerator[bytes]:
    """The events after number `after`, up to the end; `batch` has been read already."""
    yield event_stream.RECONNECT
    while True:
        if batch.events:
            yield b"".join(_message(event) for event in batch.events)
            after = batch.events[-1].number
        if batch.complete or watcher.closing:
            return
        if len(batch.events) < BATCH:
            while not await watcher.until(job_id, _beyond(batch.revision), heartbeat_s):
                yield event_stream.HEARTBEAT
        try:
            batch = await watcher.read(job_id, after, BATCH)
        except (NotFound, Unavailable):  # deleted, or no database: the next request reports it
            return


def _beyond(revision: int) -> Condition:
    return lambda job: job.revision > revision


def _message(event: Event) -> bytes:
    read = EventRead.of(event)
    return event_stream.message(read.id, read.event, read.data)


def _page(batch: Batch, page: PageRequest) -> EventPage:
    shown = batch.events[: page.size]
    more = len(batch.events) > page.size
    last = (shown[-1].number,) if more else None
    return EventPage(
        events=[EventRead.of(event) for event in shown],
        next_page_token=next_page_token(page, Page(shown, last)),
    )


def _number(cursor: Cursor) -> int:
    number = cursor[0]
    if not isinstance(number, int) or not 0 <= number <= MAX_NUMBER:
        raise InvalidRequest("invalid-parameter", "page_token is from another list")
    return number
