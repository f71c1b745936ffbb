"""`POST /v1/jobs` and `…:batch` queue trainings; `/v1/solvers` describes the solvers."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import Depends, Path, Request, Response
from pydantic import BaseModel, TypeAdapter

from service.common.callers import caller_of
from service.common.schemas import ReadModel, ShownAs
from service.datasets.store import LATEST_DATASET
from service.errors import MAX_FAULTS, NotFound, ServiceError
from service.jobs.collection.routes import Collection, JobAccess
from service.jobs.collection.schemas import JOB_FORM, JobRead
from service.jobs.collection.submission import Stores
from service.jobs.core.job import Job
from service.jobs.kinds import TRAINING
from service.jobs.training.schemas import MAX_JOBS, JobBatchCreate, JobCreate
from service.jobs.training.submission import JobPlanRead, Trainings
from service.web.access.scopes import Routes, requires_scope
from service.web.bodies import idempotency
from service.web.bodies.control_bodies import json_body, json_request, validated
from service.web.bodies.idempotency import Once, json_reply
from service.web.problems import ProblemRead, problem_of, responses
from svm.solvers import CHOICES, sources_of
from svm.solvers.protocol import HasDualCoefficients

EXAMPLE = {
    "dataset_id": LATEST_DATASET,
    "model_name": "iris",
    "solver": {"name": "dual-coordinate-descent", "C": 1.0},
    "scaling": "max-abs",
    "validation": {"fraction": 0.25},
    "seed": 1,
}


PROBLEMS = (
    *("invalid-name", "target-missing", "target-continuous", "label-mismatch", "single-class"),
    *("too-many-classes", "class-too-small", "not-separable", "scaling-unsupported"),
    *("features-unsupported", "plan-too-large", "unknown-class"),
)
"""Those of requests for trainings, one or many."""


def router(stores: Stores, access: JobAccess) -> Routes:
    collection = Collection(access, JOB_FORM)
    trainings = Trainings(stores)
    collection.add_create(
        trainings,
        JobCreate,
        EXAMPLE,
        *(*PROBLEMS, "warm-start-unsupported"),
        summary="Train a model",
        description="Queues a training and answers at once; the next free worker trains. Errors "
        "that can be known in advance are reported here. Follow the job with "
        "`GET /v1/jobs/{id}/events`.",
        plan=trainings.plan,
        plan_model=JobPlanRead,
    )
    add_batch(collection.routes, trainings, EXAMPLE)
    return collection.routes


SolverName = Annotated[str, Path(description="Name of a solver.", examples=["pegasos"])]


class WarmStartRead(ReadModel):
    """What a job with `warm_start_from` inherits."""

    continues_from: list[str]
    """Solvers with whose models it can begin."""
    takes: str
    """What it inherits."""
    needs_rows: bool
    """Whether the dataset must be the model's, or made from it by `append`."""


class SolverRead(ReadModel):
    """What a solver minimizes, and its parameters."""

    name: str
    description: str
    objective: str
    """In the solver's own constants; a job's certificate gives it as `solver_objective`."""
    cost_per_epoch: str
    """With n rows and d features."""
    reference: str
    warm_start: WarmStartRead
    parameters: dict[str, Any]
    """JSON Schema of the job's field `solver`: types, ranges, defaults and their meaning."""


class SolverList(BaseModel):
    solvers: list[SolverRead]


def solver_router() -> Routes:
    """`/v1/solvers`."""
    routes = Routes("/v1/solvers", "solvers")

    @routes.get(
        "",
        operation_id="list_solvers",
        summary="List the solvers",
        description="Each with its objective and the JSON Schema of its parameters.",
    )
    def list_solvers() -> SolverList:
        return SolverList(solvers=[describe(name) for name in CHOICES])

    @routes.get(
        "/{name}",
        operation_id="get_solver",
        summary="Get a solver",
        description="Its objective and the JSON Schema of its parameters.",
        responses=responses("not-found"),
    )
    def get_solver(name: SolverName) -> SolverRead:
        if name not in CHOICES:
            raise NotFound(
                "not-found", f"there is no such solver; the solvers are {', '.join(CHOICES)}"
            )
        return describe(name)

    return routes


def warm_up() -> None:
    """Describe all solvers now, so that the first request does not wait."""
    for name in CHOICES:
        describe(name)


@cache
def describe(name: str) -> SolverRead:
    """The reply for a solver that exists."""
    solver = CHOICES[name]
    return SolverRead(
        name=name,
        description=inspect.getdoc(solver) or "",
        objective=solver.objective,
        cost_per_epoch=solver.cost_per_epoch,
        reference=solver.reference,
        warm_start=WarmStartRead(
            continues_from=list(sources_of(solver)),
            takes=solver.inherits,
            needs_rows=issubclass(solver, HasDualCoefficients),
        ),
        parameters=TypeAdapter(solver).json_schema(),
    )


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
    @requires_scope(TRAINING.scope)
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
