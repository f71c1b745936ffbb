"""The form for a training, made from the schemas of `/v1/jobs` and `/v1/solvers`."""

from __future__ import annotations

import re
from functools import cache
from pathlib import PurePosixPath
from typing import Annotated, Any

from anyio.to_thread import run_sync
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from service.dashboard.context import PageContext
from service.dashboard.forms.filled import Entries, body_of, entries_of
from service.dashboard.forms.schema import Field, fields_of
from service.dashboard.page import checked, last_entries, page, queue
from service.datasets.dataset import Dataset
from service.datasets.store import LATEST_DATASET
from service.errors import NotFound, ServiceError
from service.jobs.training.schemas import JobCreate, JobPlanRead
from service.jobs.training.solver_routes import describe
from service.storage.database.pages import PageRequest
from service.web.access.scopes import requires_scope
from service.web.http.names import NAME, JobId
from service.web.problems import status_of
from svm.data.splitting import held_out_rows
from svm.solvers import CHOICES

FIRST = ("model_name", "solver", "scaling", "features", "validation")
"""Fields that are always visible; the others are below "More settings"."""
VERSION = rf"^{NAME.pattern}/[1-9][0-9]{{0,8}}$"
OFFERED = PageRequest(size=200)
"""Datasets to choose from."""
VALIDATION_FRACTION = 0.25
KERNEL_ROWS = 5_000
"""With at most this many rows a kernel solver is suggested: it takes seconds."""
KERNEL_FEATURES = 100
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
        dataset: Annotated[str, Query(pattern=r"^(ds_[0-9a-f]{32}|latest)$")] = LATEST_DATASET,
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
            return _form(request, context, entries_of(job_fields(), {**spec, "seed": None}))
        if dataset == LATEST_DATASET and not context.datasets.page(PageRequest(size=1)).items:
            return _form(request, context, {})
        suggested = suggestion(context.datasets.find(dataset))
        return _form(request, context, entries_of(job_fields(), suggested))

    @routes.post("/train")
    @requires_scope("train")
    async def start(request: Request) -> Response:
        entries = await last_entries(request)
        try:
            body = checked(JobCreate, body_of(job_fields(), entries))
            return await queue(request, context.trainings, body)
        except ServiceError as error:
            return await run_sync(_form, request, context, entries, error)

    @routes.post("/train/check")
    @requires_scope("train")
    async def check(request: Request) -> Response:
        entries = await last_entries(request)
        try:
            body = checked(JobCreate, body_of(job_fields(), entries))
            plan = await run_sync(context.trainings.plan, body)
        except ServiceError as error:
            return await run_sync(_form, request, context, entries, error)
        return await run_sync(_form, request, context, entries, None, plan)


def suggestion(dataset: Dataset) -> dict[str, Any]:
    """Suggested settings for the data."""
    small = dataset.n_samples <= KERNEL_ROWS and dataset.n_features <= KERNEL_FEATURES
    solver = "smo" if small and not dataset.sparse else "dual-coordinate-descent"
    counts = dataset.class_counts or ()
    fits = all(0 < held_out_rows(count, VALIDATION_FRACTION) < count for count in counts)
    return {
        "dataset_id": dataset.id,
        "model_name": _name_for(dataset),
        "solver": {"name": solver},
        "scaling": "max-abs" if dataset.sparse else "standardize",
        "validation": {"fraction": VALIDATION_FRACTION} if fits and counts else None,
    }


def _name_for(dataset: Dataset) -> str:
    stem = PurePosixPath(dataset.name or "").stem.lower()
    name = re.sub(r"[^a-z0-9]+", "-", stem).strip("-").lstrip("0123456789-")[:63].rstrip("-")
    return name if NAME.fullmatch(name) else "model"


@cache
def job_fields() -> tuple[Field, ...]:
    """The fields of the form. The first call takes 0.1 s."""
    return fields_of(JobCreate.model_json_schema(), FIRST)


def _form(
    request: Request,
    context: PageContext,
    entries: Entries,
    error: ServiceError | None = None,
    plan: JobPlanRead | None = None,
) -> Response:
    chosen = entries.get("dataset_id", LATEST_DATASET)
    offered = list(context.datasets.page(OFFERED).items)
    try:
        dataset: Dataset | None = context.datasets.find(chosen)
    except NotFound:
        dataset = None
    if dataset is not None and dataset.id not in {one.id for one in offered}:
        offered.insert(0, dataset)
    faults = {fault.pointer: fault for fault in error.faults if fault.pointer} if error else {}
    fields = [field for field in job_fields() if field.name != "dataset_id"]
    others = [field for field in fields if field.name not in FIRST]
    response = page(
        request,
        "train.html",
        200 if error is None else status_of(error),
        dataset=dataset,
        datasets=offered,
        first=[field for field in fields if field.name in FIRST],
        others=others,
        opened=any(pointer.startswith(field.pointer) for pointer in faults for field in others),
        entries=entries,
        error=error,
        plan=plan,
        faults=faults,
        solvers={name: describe(name) for name in CHOICES},
    )
    if error is not None:  # a script replaces the whole form, to show errors at its fields
        response.headers.update(_WHOLE_FORM)
    return response
