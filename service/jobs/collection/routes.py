"""The routes that jobs of every kind have: create, list, read, steer, delete, and follow events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self

from anyio.to_thread import run_sync
from fastapi import Depends, Header, Query, Request, Response
from pydantic import BaseModel

from service.common import event_stream
from service.common.callers import STATE, caller_of
from service.common.content_negotiation import choose
from service.common.event_stream import EventStreams
from service.common.keys import Scope
from service.common.names import DatasetId, JobId, ModelName
from service.errors import InvalidRequest, NotFound, Unavailable
from service.jobs.callbacks import Deliveries
from service.jobs.collection.schemas import EventPage, EventRead, Form, JobCancel
from service.jobs.collection.submission import Submission
from service.jobs.core.events import Batch, Condition, EventLog, Watcher
from service.jobs.core.job import Effect, Job, State
from service.jobs.core.store import JobFilter, JobStore
from service.jobs.kinds import KINDS, Kind
from service.storage.database.pages import Cursor, Page, PageRequest
from service.web.access.scopes import Routes, require, requires_scope
from service.web.bodies import idempotency
from service.web.bodies.control_bodies import json_body, json_request
from service.web.bodies.idempotency import Once, json_reply
from service.web.http import headers as etags
from service.web.http.headers import check_if_match, etag, is_head, not_modified
from service.web.http.pagination import PageParams, TagFilter, next_page_token
from service.web.problems import responses


@dataclass(frozen=True, slots=True)
class JobAccess:
    """Shared by the collections of all kinds."""

    jobs: JobStore
    log: EventLog
    watcher: Watcher
    """Long polls and event streams wait for it, and end early once it is closing."""
    streams: EventStreams
    deliveries: Deliveries


RETRY_AFTER_S = 1
MAX_WAIT_S = 60

WaitS = Annotated[
    float,
    Query(
        ge=0,
        le=MAX_WAIT_S,
        allow_inf_nan=False,
        description="Seconds to wait for the end of the job before the reply is sent.",
        examples=[10],
    ),
]
CancelBody = Annotated[JobCancel, Depends(json_body(JobCancel))]

BODY = ("malformed-json", "body-too-large", "unsupported-format", "invalid-field")
_STEERED = ("invalid-parameter", "not-found", "invalid-state")


HEARTBEAT_S = 15.0
BATCH = 500
"""Most events read at once for a stream."""
MAX_NUMBER = 2**31 - 1

EVENTS_EXAMPLE = """\
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


def _filter(
    tag: TagFilter,
    state: Annotated[State | None, Query(description="Only jobs in this state.")] = None,
    model_name: Annotated[ModelName | None, Query(description="Only jobs of this model.")] = None,
    dataset_id: Annotated[DatasetId | None, Query(description="Only jobs on this dataset.")] = None,
) -> JobFilter:
    return JobFilter(state=state, model_name=model_name, dataset_id=dataset_id, tag=tag)


def _no_plan() -> bool:
    return False


def _plan(
    validate_only: Annotated[
        bool, Query(description="Answer with what the job would do and cost; queue nothing.")
    ] = False,
) -> bool:
    return validate_only


class Collection:
    """Jobs under one path: those of a kind, or of all kinds under `/v1/jobs`."""

    def __init__(self, access: JobAccess, form: Form, kind: Kind | None = None) -> None:
        noun = "job" if kind is None else kind.noun
        self.routes = Routes(*(("/v1/jobs", "jobs") if kind is None else (kind.path, kind.section)))
        self._access = access
        self._form = form
        self._kind = kind
        self._noun = noun
        self._a_noun = f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
        self._id = noun.replace(" ", "_")
        self._steerer: Scope = "train" if kind is None else kind.scope
        scopes = {each.scope for each in KINDS.values()} if kind is None else {kind.scope}
        self._readers: tuple[Scope, ...] = ("read", *sorted(scopes, reverse=True))

    def get(self, request: Request, id: str) -> Job:
        """The job. Raises NotFound, for jobs of other kinds too, and Forbidden if the caller's key
        is for other kinds."""
        job = self._access.jobs.get(id)
        if self._kind is None:
            require(getattr(request.state, STATE), "read", KINDS[job.kind].scope)
        elif job.kind != self._kind.name:
            raise NotFound("not-found", f"there is no {self._noun} {id}")
        return job

    def add_create(
        self,
        submission: Submission[Any],
        body_model: type[BaseModel],
        example: dict[str, Any],
        *problems: str,
        summary: str,
        description: str,
        plan: Callable[[Any], BaseModel] | None = None,
        plan_model: type[BaseModel] | None = None,
    ) -> None:
        """The route that queues a job, or with `validate_only` answers with a plan, if there are
        plans. `problems` are those of the submission."""
        planned = {"model": plan_model, "description": "With `validate_only`: the plan."}

        @self.routes.post(
            "",
            status_code=202,
            operation_id=f"create_{self._id}",
            summary=summary,
            description=description,
            response_model=self._form.model,
            responses={
                **({} if plan is None else {200: planned}),
                **responses(
                    *(*BODY, "not-found", *problems, "queue-full", "storage-full"),
                    *idempotency.PROBLEMS,
                ),
            },
            openapi_extra=json_request(body_model, example),
        )
        @requires_scope(self._steerer)
        async def create(
            request: Request,
            once: Once,
            body: Any = Depends(json_body(body_model)),  # noqa: B008
            wait_s: WaitS = 0,
            validate_only: Any = Depends(_no_plan if plan is None else _plan),  # noqa: B008
        ) -> Response:
            if plan is not None and validate_only:
                return json_reply(await run_sync(plan, body), 200)
            by = caller_of(request), request.state.request_id

            async def queued() -> Response:
                also = once.record(self._accepted)
                job = await run_sync(submission.queue, body, *by, also)
                return await run_sync(self._accepted, await self._ended(job, wait_s))

            return await once.perform(queued)

    def add_rest(self, kind_filter: Callable[..., str | None] | None = None) -> Self:
        """All other routes. `kind_filter` is a dependency that gives the kind of jobs to list, None
        for all; without it the kind is the collection's."""
        name = None if self._kind is None else self._kind.name
        self._add_list(kind_filter or (lambda: name))
        self._add_get()
        self._add_steering()
        self._add_delete()
        self._add_events()
        return self

    def _add_list(self, kind_filter: Callable[..., str | None]) -> None:
        form = self._form

        @self.routes.get(
            "",
            operation_id=f"list_{self._id}s",
            summary=f"List {self._noun}s",
            description="Newest first, in short form; filters can be combined.",
            response_model=form.page,
            responses=responses("invalid-parameter", "invalid-name"),
        )
        # A list of all kinds shows what a key for predictions must not see.
        @requires_scope("read", self._steerer)
        def list_jobs(
            page: PageParams,
            which: Annotated[JobFilter, Depends(_filter)],
            kind: Any = Depends(kind_filter),  # noqa: B008
        ) -> Any:
            jobs = self._access.jobs.page(replace(which, kind=kind), page)
            items = [form.item.of(job) for job in jobs.items]
            token = next_page_token(page, jobs)
            return form.page.model_validate({f"{self._id}s": items, "next_page_token": token})

    def _add_get(self) -> None:
        form = self._form

        @self.routes.get(
            "/{id}",
            operation_id=f"get_{self._id}",
            summary=f"Get {self._a_noun}",
            description=f"{form.description} With `wait_s` the reply waits for the end.",
            response_model=form.model,
            responses=responses("invalid-parameter", "not-found", *etags.PROBLEMS, *form.problems),
        )
        @requires_scope(*self._readers)
        async def get_job(
            request: Request, response: Response, id: JobId, wait_s: WaitS = 0
        ) -> Any:
            job = await self._ended(await run_sync(self.get, request, id), wait_s)
            current = etag(str(job.revision))
            response.headers["ETag"] = current
            return not_modified(request, current) or await run_sync(form.read, job)

    def _add_steering(self) -> None:
        def steering(
            verb: Literal["cancel", "pause", "resume"],
            done: str,
            description: str,
            *problems: str,
            **options: Any,
        ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
            route = self.routes.post(
                f"/{{id}}/{verb}",
                status_code=202,
                operation_id=f"{verb}_{self._id}",
                summary=f"{verb.capitalize()} {self._a_noun}",
                description=description,
                response_model=self._form.model,
                responses={
                    200: {"model": self._form.model, "description": f"The job is {done} already."},
                    **responses(*problems, *_STEERED, *self._form.problems),
                },
                **options,
            )
            return lambda function: route(requires_scope(self._steerer)(function))

        @steering(
            "cancel",
            "canceled",
            "A waiting job is canceled at once, a running one within about a second. With "
            "`keep_model` a training or comparison keeps its model so far as a version. Canceling "
            "again is not an error.",
            *BODY,
            openapi_extra=json_request(JobCancel, {"keep_model": False}, required=False),
        )
        def cancel_job(request: Request, id: JobId, body: CancelBody) -> Response:
            self.get(request, id)
            return self._steered(*self._access.jobs.cancel(id, keep_model=body.keep_model))

        @steering(
            "pause",
            "paused",
            "A queued job is paused at once; a running one saves a checkpoint within about a "
            "second. Pausing again is not an error.",
        )
        def pause_job(request: Request, id: JobId) -> Response:
            self.get(request, id)
            return self._steered(*self._access.jobs.pause(id))

        @steering(
            "resume",
            "queued or running",
            "The job continues from its checkpoint, with the same result as without the pause. A "
            "pause that has not happened yet is withdrawn.",
        )
        def resume_job(request: Request, id: JobId) -> Response:
            self.get(request, id)
            return self._steered(*self._access.jobs.resume(id))

    def _add_delete(self) -> None:
        @self.routes.delete(
            "/{id}",
            status_code=204,
            operation_id=f"delete_{self._id}",
            summary=f"Delete {self._a_noun}",
            description="Removes a job that has ended, its events and results. Its model stays.",
            responses=responses(*_STEERED, *etags.PROBLEMS),
        )
        @requires_scope(self._steerer)
        def delete_job(request: Request, id: JobId) -> None:
            self.get(request, id)
            delete = self._access.jobs.delete
            delete(id, lambda job: check_if_match(request, etag(str(job.revision))))

    def _add_events(self) -> None:
        log, watcher = self._access.log, self._access.watcher

        @self.routes.get(
            "/{id}/events",
            operation_id=f"get_{self._id}_events",
            summary=f"Follow {self._a_noun}",
            description="Events in order: `state`, also for requests to cancel or pause, "
            "`progress` at most four times a second, `checkpoint`, `warning`, `end`. "
            "`text/event-stream`, the default, then closes; `Last-Event-ID` resumes it. "
            "`application/json` has pages of those so far.",
            response_model=EventPage,
            responses={
                200: {
                    "description": "The events.",
                    "content": {event_stream.MEDIA_TYPE: {"example": EVENTS_EXAMPLE}},
                },
                204: {"description": "The job has ended, and there are no further events."},
                **responses(
                    *("invalid-parameter", "not-found", "not-acceptable"),
                    *("too-many-streams", "shutting-down"),
                ),
            },
        )
        @requires_scope(*self._readers)
        async def get_events(
            request: Request, id: JobId, page: PageParams, last_event_id: LastEventId = None
        ) -> EventPage | Response:
            await run_sync(self.get, request, id)
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
                raise event_stream.shutting_down()
            if is_head(request):  # only the headers; a stream would keep the connection
                return Response(media_type=event_stream.MEDIA_TYPE)
            return self._access.streams.reply(request, follow(watcher, id, after, batch))

    async def _ended(self, job: Job, wait_s: float) -> Job:
        """The job once it has ended, or as it is after `wait_s` seconds. Raises NotFound."""
        if job.is_final or not wait_s:
            return job
        await self._access.watcher.until(job.id, lambda seen: seen.is_final, wait_s)
        return await run_sync(self._access.jobs.get, job.id)

    def _accepted(self, job: Job) -> Response:
        headers = {"Location": f"{self.routes.prefix}/{job.id}", "ETag": etag(str(job.revision))}
        if not job.is_final:
            headers["Retry-After"] = str(RETRY_AFTER_S)
        return json_reply(self._form.read(job), 202, headers)

    def _steered(self, job: Job, effect: Effect) -> Response:
        return (
            json_reply(self._form.read(job), 200)
            if effect is Effect.ALREADY
            else self._accepted(job)
        )


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
            yield batch.messages
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
