"""`/v1/jobs/{id}/events` and `/trace`: what happens to a job, and its learning curve."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncGenerator
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Header, Request, Response

from service.errors import InvalidRequest, NotFound, Unavailable
from service.jobs.collection import require_visible
from service.jobs.core.events import Batch, Event, EventLog
from service.jobs.core.store import JobStore
from service.jobs.core.watcher import Condition, Tail
from service.jobs.read_schemas import EventPage, EventRead, TraceRead
from service.storage.database.pages import Cursor, Page, PageRequest
from service.web.access.routing import Routes
from service.web.access.scopes import needs
from service.web.http import event_stream
from service.web.http.content_negotiation import choose
from service.web.http.event_stream import EventStreams
from service.web.http.head import is_head
from service.web.http.names import JobId
from service.web.http.pagination import PageParams, next_page_token
from service.web.problems import responses

HEARTBEAT_S = 15.0
BATCH = 500
"""Most events read at once for a stream."""
RETRY_AFTER_S = 1
MAX_NUMBER = 2**31 - 1

TRACE_COLUMNS = (
    *("epoch", "updates", "elapsed_s", "primal", "dual", "gap"),
    *("train_error", "validation_error"),
)

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
        description="Only what came after this event; browsers send it when they reconnect.",
    ),
]


def router(jobs: JobStore, log: EventLog, tail: Tail, max_streams: int) -> Routes:
    """Events and traces of jobs; streams end early once `tail` is closing."""
    routes = Routes("/v1/jobs", "jobs")
    _add_events(routes, jobs, log, tail, EventStreams(max_streams))
    _add_trace(routes, jobs)
    return routes


def _add_events(
    routes: APIRouter, jobs: JobStore, log: EventLog, tail: Tail, streams: EventStreams
) -> None:
    @routes.get(
        "/{id}/events",
        operation_id="get_job_events",
        summary="Follow a job",
        description="Everything that happened to the job and will happen, in order: `state` for "
        "every change of state or wish, `progress` at most four times a second, `checkpoint`, "
        "`warning`, and `end`, after which the stream closes. `Accept: text/event-stream`, the "
        "default, gives server-sent events, which can be resumed with `Last-Event-ID`; "
        "`Accept: application/json` gives what has happened so far in pages, oldest first.",
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
    @needs("read", "train", "predict")
    async def get_events(
        request: Request, id: JobId, page: PageParams, last_event_id: LastEventId = None
    ) -> EventPage | Response:
        require_visible(request, await run_sync(jobs.get, id))
        media_type = choose(request, (event_stream.MEDIA_TYPE, "application/json"))
        after = last_event_id or 0
        if media_type == "application/json":
            if page.after is not None:
                after = _number(page.after)
            return _page(await run_sync(log.read, id, after, page.size + 1), page)
        batch = await run_sync(log.read, id, after, BATCH)
        if batch.complete and not batch.events:
            return Response(status_code=204)
        if tail.closing:
            raise Unavailable(
                "shutting-down", "the service is shutting down", retry_after_s=RETRY_AFTER_S
            )
        if is_head(request):  # the headers alone; a stream would keep the connection
            return Response(media_type=event_stream.MEDIA_TYPE)
        return streams.reply(request, follow(log, tail, id, after, batch))


def _add_trace(routes: APIRouter, jobs: JobStore) -> None:
    @routes.get(
        "/{id}/trace",
        operation_id="get_job_trace",
        summary="Get a job's learning curve",
        description="Cost, bound and errors at epochs 1, 2, 4, 8 … and at the end, while the job "
        "runs and after it. `Accept: text/csv` gives the same table as CSV.",
        response_model=TraceRead,
        responses={
            200: {"description": "The table.", "content": {"text/csv": {}}},
            **responses("invalid-parameter", "not-found", "not-acceptable"),
        },
    )
    @needs("read", "train")
    def get_trace(request: Request, id: JobId) -> TraceRead | Response:
        media_type = choose(request, ("application/json", "text/csv"))
        trace = _trace(jobs, id)
        if media_type == "application/json":
            return trace
        text = io.StringIO()
        csv.writer(text).writerows([trace.columns, *trace.rows])
        return Response(text.getvalue(), media_type="text/csv; charset=utf-8")


async def follow(
    log: EventLog,
    tail: Tail,
    job_id: str,
    after: int,
    batch: Batch,
    heartbeat_s: float = HEARTBEAT_S,
) -> AsyncGenerator[bytes]:
    """The events after number `after`, of which `batch` has been read, until there are no more."""
    yield event_stream.RECONNECT
    while True:
        if batch.events:
            yield b"".join(_message(event) for event in batch.events)
            after = batch.events[-1].number
        if batch.complete or tail.closing:
            return
        if len(batch.events) < BATCH:
            while not await tail.until(job_id, _beyond(batch.revision), heartbeat_s):
                yield event_stream.HEARTBEAT
        try:
            batch = await run_sync(log.read, job_id, after, BATCH)
        except (NotFound, Unavailable):  # deleted, or no database: who comes again is told
            return


def _beyond(revision: int) -> Condition:
    return lambda job: job.revision > revision


def _message(event: Event) -> bytes:
    read = EventRead.of(event)
    return event_stream.message(read.id, read.event, read.data)


def _page(batch: Batch, asked: PageRequest) -> EventPage:
    shown = batch.events[: asked.size]
    more = len(batch.events) > asked.size
    last = Cursor(shown[-1].created_at, shown[-1].number) if more else None
    return EventPage(
        events=[EventRead.of(event) for event in shown],
        next_page_token=next_page_token(asked, Page(shown, last)),
    )


def _number(cursor: Cursor) -> int:
    if not isinstance(cursor.id, int) or not 0 <= cursor.id <= MAX_NUMBER:
        raise InvalidRequest("invalid-parameter", "page_token is of another list than this one")
    return cursor.id


def _trace(jobs: JobStore, job_id: str) -> TraceRead:
    rows = jobs.trace(job_id)
    table: list[list[Any]] = [
        # One class stands against all others, or against one.
        [*(row[name] for name in TRACE_COLUMNS), *([None, *row["classes"]][-2:])]
        for row in rows
    ]
    return TraceRead(columns=[*TRACE_COLUMNS, "negative_class", "positive_class"], rows=table)
