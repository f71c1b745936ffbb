"""`POST /v1/jobs:batch`: many trainings in one request, each accepted or refused by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import Depends, Request, Response

from service.common.callers import caller_of
from service.common.schemas import ReadModel, ShownAs
from service.errors import MAX_FAULTS, ServiceError
from service.jobs.collection.schemas import JobRead
from service.jobs.core.job import Job
from service.jobs.training import KIND
from service.jobs.training.schemas import MAX_JOBS, JobBatchCreate, JobCreate
from service.jobs.training.submission import Trainings
from service.web.access.scopes import Routes, requires_scope
from service.web.bodies import idempotency
from service.web.bodies.control_bodies import json_body, json_request, validated
from service.web.bodies.idempotency import Once, json_reply
from service.web.problems import ProblemRead, problem_of, responses

MOST_VALUES = 40 * MAX_JOBS
"""In all requests of a batch together."""


class JobAcceptedRead(ReadModel):
    """One of the requests was accepted."""

    job: JobRead


class JobRefusedRead(ReadModel):
    """One of the requests was refused."""

    error: Annotated[dict[str, Any], ShownAs(ProblemRead)]
    """The problem that `POST /v1/jobs` answers with; its pointers are into this request."""


class JobBatchRead(ReadModel):
    """What became of each request."""

    jobs: list[JobAcceptedRead | JobRefusedRead]
    """In the order of the requests."""


def add_batch(routes: Routes, trainings: Trainings, example: dict[str, Any]) -> None:
    """The route that queues many trainings."""

    @routes.post(
        ":batch",
        operation_id="create_jobs",
        summary="Train many models",
        description=f"Queues up to {MAX_JOBS:,} trainings in one transaction; they start in this "
        "order. Each is accepted or refused by itself, as by `POST /v1/jobs`: the reply has a "
        "`job` or an `error` for each; beyond 100 faults an `error` lists only its first. The "
        "whole request is refused only if its JSON is malformed, if `jobs` is not a list of this "
        "length, or if there is no space for jobs.",
        response_model=JobBatchRead,
        responses=responses(
            *("malformed-json", "body-too-large", "unsupported-format", "invalid-field"),
            *("storage-full", *idempotency.PROBLEMS),
        ),
        openapi_extra=json_request(JobBatchCreate, {"jobs": [example]}),
    )
    @requires_scope(KIND.scope)
    async def create_jobs(
        request: Request,
        once: Once,
        body: Annotated[
            JobBatchCreate, Depends(json_body(JobBatchCreate, most_values=MOST_VALUES))
        ],
    ) -> Response:
        def queue() -> Response:
            bodies = list(_validated(body.jobs))
            by = caller_of(request), request.state.request_id
            keep = once.record(partial(_reply, request))
            return _reply(request, trainings.queue_all(bodies, *by, keep))

        async def queued() -> Response:
            return await run_sync(queue)

        return await once.perform(queued)


def _validated(values: list[Any]) -> Iterator[JobCreate | ServiceError]:
    """Each request, or what is wrong with it: all faults of the first ones, one of later ones."""
    room = MAX_FAULTS
    for value in values:
        try:
            yield validated(JobCreate, json.dumps(value).encode(), most_faults=max(1, room))
        except ServiceError as error:
            room -= len(error.faults)
            yield error


def _reply(request: Request, results: Sequence[Job | ServiceError]) -> Response:
    entries = [
        JobAcceptedRead(job=JobRead.of(result))
        if isinstance(result, Job)
        else JobRefusedRead(error=problem_of(request, result))
        for result in results
    ]
    return json_reply(JobBatchRead(jobs=entries), 200)
