"""`/v1/jobs`: create, read, steer and delete jobs."""

from __future__ import annotations

from typing import Annotated, Literal

from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Query, Request, Response

from service.datasets.store import LATEST_DATASET
from service.jobs.collection import require_visible
from service.jobs.core.job import Job
from service.jobs.core.lifecycle import Effect, State
from service.jobs.core.store import JobFilter, JobStore
from service.jobs.core.watcher import Tail
from service.jobs.read_schemas import JobPage, JobPlanRead, JobRead, JobSummary
from service.jobs.training.schemas import JobCancel, JobCreate
from service.jobs.training.submission import Trainings
from service.web.access.routing import Routes
from service.web.access.scopes import needs
from service.web.bodies import idempotency
from service.web.bodies.control_bodies import json_body, json_request
from service.web.bodies.idempotency import Once
from service.web.http import etags
from service.web.http.callers import caller_of
from service.web.http.etags import check_if_match, etag, not_modified
from service.web.http.json_reply import shown
from service.web.http.names import DatasetId, JobId, ModelName
from service.web.http.pagination import PageParams, next_page_token
from service.web.http.tag_filter import LabelFilter
from service.web.problems import responses

RETRY_AFTER_S = 1
MAX_WAIT_S = 60

EXAMPLE = {
    "dataset_id": LATEST_DATASET,
    "model_name": "iris",
    "solver": {"name": "dual-coordinate-descent", "C": 1.0},
    "scaling": "max-abs",
    "validation": {"fraction": 0.25},
    "seed": 1,
}

WaitS = Annotated[
    float,
    Query(
        ge=0,
        le=MAX_WAIT_S,
        allow_inf_nan=False,
        description="Answer as soon as the job has ended, or after so many seconds.",
        examples=[10],
    ),
]
ValidateOnly = Annotated[
    bool, Query(description="Answer with what the training would cost; nothing is queued.")
]
JobCreateBody = Annotated[JobCreate, Depends(json_body(JobCreate))]
JobCancelBody = Annotated[JobCancel, Depends(json_body(JobCancel))]

_BODY = ("malformed-json", "body-too-large", "unsupported-format", "invalid-field")
_UNTRAINABLE = (
    *("target-missing", "target-continuous", "single-class", "too-many-classes"),
    *("class-too-small", "scaling-unsupported", "features-unsupported", "plan-too-large"),
    *("unknown-class", "warm-start-unsupported"),
)


def router(jobs: JobStore, trainings: Trainings, tail: Tail) -> Routes:
    """`/v1/jobs` and all below it but histories; long polls wait for `tail`."""
    routes = Routes("/v1/jobs", "jobs")
    _add_create(routes, jobs, trainings, tail)
    _add_read(routes, jobs, tail)
    _add_steering(routes, jobs)
    return routes


def _add_create(routes: APIRouter, jobs: JobStore, trainings: Trainings, tail: Tail) -> None:
    @routes.post(
        "",
        status_code=202,
        operation_id="create_job",
        summary="Train a model",
        description="Queues a training and answers at once; a free worker takes it. What can be "
        "known to be wrong is refused here. Follow the job with `GET /v1/jobs/{id}/events`.",
        response_model=JobRead,
        responses={
            200: {"model": JobPlanRead, "description": "With `validate_only`: the plan."},
            **responses(
                *(*_BODY, "invalid-name", "not-found", *_UNTRAINABLE, "queue-full"),
                *("storage-full", *idempotency.PROBLEMS),
            ),
        },
        openapi_extra=json_request(JobCreate, EXAMPLE),
    )
    @needs("train")
    async def create_job(
        request: Request,
        once: Once,
        body: JobCreateBody,
        wait_s: WaitS = 0,
        validate_only: ValidateOnly = False,
    ) -> Response:
        if validate_only:
            return shown(await run_sync(trainings.plan, body), 200)

        async def create() -> Response:
            also = once.record(_accepted)
            caller, request_id = caller_of(request), request.state.request_id
            job = await run_sync(trainings.queue, body, caller, request_id, also)
            return _accepted(await _ended(jobs, tail, job, wait_s))

        return await once.perform(create)


def _add_read(routes: APIRouter, jobs: JobStore, tail: Tail) -> None:
    @routes.get(
        "",
        operation_id="list_jobs",
        summary="List jobs",
        description="Newest first, without metrics and certificates; filters can be combined.",
        responses=responses("invalid-parameter", "invalid-name"),
    )
    @needs("read", "train")
    def list_jobs(
        page: PageParams,
        label: LabelFilter,
        kind: Annotated[
            Literal["train", "predict", "evaluate", "compare"] | None,
            Query(description="Only jobs of this kind."),
        ] = None,
        state: Annotated[State | None, Query(description="Only jobs in this state.")] = None,
        model_name: Annotated[
            ModelName | None, Query(description="Only jobs that train this model.")
        ] = None,
        dataset_id: Annotated[
            DatasetId | None, Query(description="Only jobs on this dataset.")
        ] = None,
    ) -> JobPage:
        which = JobFilter(
            kind=kind, state=state, model_name=model_name, dataset_id=dataset_id, label=label
        )
        found = jobs.page(which, page)
        return JobPage(
            jobs=[JobSummary.of(job) for job in found.items],
            next_page_token=next_page_token(page, found),
        )

    @routes.get(
        "/{id}",
        operation_id="get_job",
        summary="Get a job",
        description="State, progress and, once it has ended, metrics, certificate and model. With "
        "`wait_s` the reply waits for the end of the job.",
        response_model=JobRead,
        responses=responses("invalid-parameter", "not-found", *etags.PROBLEMS),
    )
    @needs("read", "train", "predict")
    async def get_job(
        request: Request, response: Response, id: JobId, wait_s: WaitS = 0
    ) -> JobRead | Response:
        job = await run_sync(jobs.get, id)
        require_visible(request, job)
        job = await _ended(jobs, tail, job, wait_s)
        tag = etag(str(job.revision))
        response.headers["ETag"] = tag
        return not_modified(request, tag) or JobRead.of(job)


def _add_steering(routes: APIRouter, jobs: JobStore) -> None:
    @routes.post(
        "/{id}/cancel",
        status_code=202,
        operation_id="cancel_job",
        summary="Cancel a job",
        description="A waiting job is canceled at once, a running one within about a second. With "
        "`keep_model` what was learnt so far becomes a model version. Canceling again is no error.",
        response_model=JobRead,
        responses={
            200: {"model": JobRead, "description": "The job is canceled already."},
            **responses(*_BODY, "invalid-parameter", "not-found", "invalid-state"),
        },
        openapi_extra=json_request(JobCancel, {"keep_model": False}, required=False),
    )
    @needs("train")
    def cancel_job(id: JobId, body: JobCancelBody) -> Response:
        return _steered(*jobs.cancel(id, keep_model=body.keep_model))

    @routes.post(
        "/{id}/pause",
        status_code=202,
        operation_id="pause_job",
        summary="Pause a job",
        description="A queued job is paused at once; a running one saves a checkpoint and frees "
        "its worker within about a second. Pausing again is no error.",
        response_model=JobRead,
        responses={
            200: {"model": JobRead, "description": "The job is paused already."},
            **responses("invalid-parameter", "not-found", "invalid-state"),
        },
    )
    @needs("train")
    def pause_job(id: JobId) -> Response:
        return _steered(*jobs.pause(id))

    @routes.post(
        "/{id}/resume",
        status_code=202,
        operation_id="resume_job",
        summary="Resume a paused job",
        description="The job is queued again and goes on from its checkpoint, to the same model "
        "as without the pause. A pause that has not happened yet is withdrawn.",
        response_model=JobRead,
        responses={
            200: {"model": JobRead, "description": "The job is queued or running already."},
            **responses("invalid-parameter", "not-found", "invalid-state"),
        },
    )
    @needs("train")
    def resume_job(id: JobId) -> Response:
        return _steered(*jobs.resume(id))

    @routes.delete(
        "/{id}",
        status_code=204,
        operation_id="delete_job",
        summary="Delete a job",
        description="Removes a job that has ended, its events and its trace. Its model stays.",
        responses=responses("invalid-parameter", "not-found", "invalid-state", *etags.PROBLEMS),
    )
    @needs("train")
    def delete_job(request: Request, id: JobId) -> None:
        jobs.delete(id, lambda job: check_if_match(request, etag(str(job.revision))))


async def _ended(jobs: JobStore, tail: Tail, job: Job, wait_s: float) -> Job:
    """The job once it has ended, or as it is after `wait_s` seconds. Raises NotFound."""
    if job.is_final or not wait_s:
        return job
    await tail.until(job.id, lambda seen: seen.is_final, wait_s)
    return await run_sync(jobs.get, job.id)


def _accepted(job: Job) -> Response:
    headers = {"Location": f"/v1/jobs/{job.id}", "ETag": etag(str(job.revision))}
    if not job.is_final:
        headers["Retry-After"] = str(RETRY_AFTER_S)
    return shown(JobRead.of(job), 202, headers)


def _steered(job: Job, effect: Effect) -> Response:
    return shown(JobRead.of(job), 200) if effect is Effect.ALREADY else _accepted(job)
