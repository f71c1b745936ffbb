"""The form for a training, made from the schemas of `/v1/jobs` and `/v1/solvers`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from service.common.names import NAME, DatasetReference, JobId
from service.dashboard.forms import questions
from service.dashboard.forms.schema import Entries
from service.dashboard.page import PageContext, check, last_entries, page, queue
from service.datasets.dataset import Dataset
from service.datasets.store import LATEST_DATASET
from service.errors import InvalidContent, NotFound, ServiceError
from service.jobs.comparisons.schemas import ComparisonCreate
from service.jobs.training.routes import describe
from service.jobs.training.schemas import JobCreate
from service.jobs.training.submission import JobPlanRead
from service.storage.database.pages import PageRequest
from service.web.access.scopes import requires_scope
from svm.solvers import CHOICES
from svm.solvers.protocol import ChoosesSolver

VERSION = rf"^{NAME.pattern}/[1-9][0-9]{{0,8}}$"
OFFERED = PageRequest(size=200)
"""Datasets to choose from."""
_WHOLE_FORM = {
    "HX-Retarget": "#train",
    "HX-Reselect": "#train",
    "HX-Reswap": "outerHTML show:#plan:top",
}


def add(routes: APIRouter, context: PageContext) -> None:
    """Add it to the dashboard's routes."""

    @routes.get("/train")
    def train(
        request: Request,
        dataset_id: Annotated[DatasetReference, Query()] = LATEST_DATASET,
        like: Annotated[str | None, Query(pattern=VERSION)] = None,
        like_job: JobId | None = None,
    ) -> Response:
        spec: dict[str, Any] | None = None
        if like is not None:
            name, _, version = like.partition("/")
            spec = context.models.get_version(name, int(version)).spec
        elif like_job is not None:
            spec = context.jobs.get(like_job).spec
        if spec is not None:
            return _form(request, context, questions.entries_like(spec))
        if dataset_id == LATEST_DATASET and not context.datasets.page(PageRequest(size=1)).items:
            return _form(request, context, {})
        return _form(request, context, questions.suggestion(context.datasets.find(dataset_id)))

    @routes.post("/train")
    @requires_scope("train")
    async def start(request: Request) -> Response:
        entries = await last_entries(request)
        try:
            training, comparison = await run_sync(_requests, context, entries)
            if comparison is not None:
                return await queue(request, context.comparisons, comparison)
            return await queue(request, context.trainings, training)
        except ServiceError as error:
            return await run_sync(_form, request, context, entries, error)

    @routes.post("/train/check")
    @requires_scope("train")
    async def check(request: Request) -> Response:
        """Shows the cost; to scripts, which send every change, it does not mark the fields."""
        return await run_sync(_form, request, context, await last_entries(request))


def _requests(context: PageContext, entries: Entries) -> tuple[JobCreate, ComparisonCreate | None]:
    """The training, and the comparison if several values of C are to be tried. Raises
    InvalidRequest, InvalidContent."""
    body = questions.body_from(entries, _dataset(context, entries))
    try:
        training = check(JobCreate, body)
    except InvalidContent as error:
        raise questions.in_words(error) from None
    if not questions.is_sweep(entries):
        return training, None
    return training, check(ComparisonCreate, questions.sweep_of(body))


@dataclass(frozen=True, slots=True)
class Cost:
    """What would be queued, and what it would cost."""

    plan: JobPlanRead
    trainings: int
    seconds: float | None


def _cost(context: PageContext, entries: Entries) -> Cost:
    """Raises as the submission does."""
    training, comparison = _requests(context, entries)
    plan = context.trainings.plan(training)
    trainings = plan.trainings
    if comparison is not None:
        trainings = context.comparisons.plan(comparison).trainings
    each = _about_seconds(training, plan, context.datasets.find(training.dataset_id))
    return Cost(plan, trainings, None if each is None else trainings * each)


def _about_seconds(body: JobCreate, plan: JobPlanRead, dataset: Dataset) -> float | None:
    """The order of magnitude for one training by `auto`; None for other solvers.

    The constants fit 100 to 100,000 rows with up to 300 columns on one core. With a kernel, C
    matters: it decides how many rows become support vectors.
    """
    if not isinstance(body.solver, ChoosesSolver):
        return None
    share = 1.0
    if body.multiclass == "one-vs-one":
        share = 2 / len(body.classes or dataset.classes or (0, 0))
    if body.solver.kernel is None:
        each = 5e-8 * share * dataset.size_bytes / 8
    else:
        each = 2e-8 * (share * plan.n_samples) ** 2 * max(1.0, body.solver.C or 1.0) ** 0.5
    return plan.binary_problems * (0.01 + each)


def _dataset(context: PageContext, entries: Entries) -> Dataset | None:
    try:
        return context.datasets.find(entries.get("dataset_id", LATEST_DATASET))
    except NotFound:
        return None


def _form(
    request: Request, context: PageContext, entries: Entries, error: ServiceError | None = None
) -> Response:
    offered = list(context.datasets.page(OFFERED).items)
    dataset = _dataset(context, entries)
    if dataset is not None and dataset.id not in {one.id for one in offered}:
        offered.insert(0, dataset)
    cost: Cost | None = None
    refusal: ServiceError | None = None
    if error is None and dataset is not None:
        try:
            cost = _cost(context, entries)
        except ServiceError as why:
            refusal = why
    if "hx-request" not in request.headers and request.method == "POST":
        error = error or refusal  # without scripts, errors are shown at the fields
    faults = {fault.pointer: fault for fault in error.faults if fault.pointer} if error else {}
    expert = [field for field in questions.job_fields() if field.name not in questions.APART]
    marked = [
        pointer for pointer in faults for field in expert if pointer.startswith(field.pointer)
    ]
    response = page(
        request,
        "train.html",
        error,
        dataset=dataset,
        datasets=offered,
        name=next(field for field in questions.job_fields() if field.name == "model_name"),
        questions=() if dataset is None else questions.questions(dataset),
        expert=expert,
        opened=bool(marked) or questions.is_expert(entries),
        entries=entries,
        cost=cost,
        refusal=refusal,
        faults=faults,
        solvers={name: describe(name) for name in CHOICES},
    )
    if error is not None:  # a script replaces the whole form, to show errors at its fields
        response.headers.update(_WHOLE_FORM)
    return response
