"""The list of jobs, the page of a job with its live learning curve, and the page that compares
trainings: cost against time, for one objective."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, get_args

from anyio.to_thread import run_sync
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from service.common.names import DatasetId, JobId, ModelName
from service.common.phases import COMPARING, expected
from service.dashboard.charts import Curve, curves_of
from service.dashboard.job_progress import forecast_of, fraction_of, steps_of
from service.dashboard.page import PageContext, back, check, form_of, go, page, queue
from service.dashboard.schema_forms import number_in
from service.errors import InvalidRequest, NotFound
from service.jobs.collection.schemas import JobRead
from service.jobs.comparisons.routes import comparison
from service.jobs.comparisons.schemas import ComparisonCreate
from service.jobs.comparisons.submission import Comparisons
from service.jobs.core.job import FINAL, Job, State
from service.jobs.core.store import JobFilter
from service.jobs.evaluations.routes import evaluation
from service.jobs.kinds import COMPARISON, EVALUATION, TRAINING
from service.storage.database.pages import PageRequest
from service.web.access.scopes import requires_scope
from service.web.http.pagination import PageParams, next_page_token
from svm.data.splitting import held_out_rows
from svm.solvers import SOLVERS
from svm.transforms.scaling import ScalingName

MAX_JOBS = 8
OFFERED = PageRequest(size=50)
GAPS = (1e-1, 1e-2, 1e-3)
JOBS = re.compile(r"job_[0-9a-f]{32}(,job_[0-9a-f]{32})*")
Traced = Sequence[tuple[JobRead, list[Curve]]]


def add(routes: APIRouter, context: PageContext) -> None:
    """Add them to the dashboard's routes."""
    _add_read(routes, context)
    _add_controls(routes, context)
    _add_compare(routes, context)


def _add_read(routes: APIRouter, context: PageContext) -> None:
    @routes.get("/jobs")
    def jobs(
        request: Request,
        page_: PageParams,
        state: Annotated[State | None, Query()] = None,
        model_name: Annotated[ModelName | None, Query()] = None,
    ) -> Response:
        jobs = context.jobs.page(JobFilter(state=state, model_name=model_name), page_)
        return page(
            request,
            "jobs.html",
            jobs=[JobRead.of(job) for job in jobs.items],
            names=context.datasets.names([job.dataset_id for job in jobs.items]),
            more=next_page_token(page_, jobs),
            state=state,
            states=list(State),
            counts=context.jobs.counts(),
            model_name=model_name,
        )

    @routes.get("/jobs/{id}")
    def job(request: Request, id: JobId) -> Response:
        row = context.jobs.get(id)
        return page(
            request,
            "job.html",
            job=JobRead.of(row),
            final=row.state in FINAL,
            steps=steps_of(row),
            forecast=forecast_of(row, context.jobs, has_workers=context.has_workers),
            fraction=fraction_of(row),
            compares=COMPARING in expected(row.kind, row.spec) and row.state not in FINAL,
            now=time.time(),
            name=context.datasets.names([row.dataset_id]).get(row.dataset_id),
            curves=curves_of(context.jobs.trace(id)),
            comparison=comparison(context.jobs, row) if row.kind == COMPARISON.name else None,
            tested=_tested_rows(context, row) if row.kind == COMPARISON.name else None,
            evaluation=evaluation(context.jobs, row) if row.kind == EVALUATION.name else None,
        )


def _tested_rows(context: PageContext, row: Job) -> int | None:
    """How many rows the accuracies of a comparison were measured on; None if its entries are ranked
    by another score, or its data were deleted."""
    validation = row.spec.get("validation", {})
    if row.spec.get("rank_by") != "accuracy" or not {"folds", "fraction"} & validation.keys():
        return None
    try:
        dataset = context.datasets.get(row.dataset_id).only(row.spec.get("classes"))
    except NotFound:
        return None
    if "folds" in validation:
        return sum(count for count in dataset.class_counts or () if count > 1)
    groups = dataset.class_counts if validation.get("stratify") else None
    fraction = validation["fraction"]
    return sum(held_out_rows(count, fraction) for count in groups or (dataset.n_samples,))


def _add_controls(routes: APIRouter, context: PageContext) -> None:
    @routes.post("/jobs/{id}/cancel")
    @requires_scope("train")
    async def cancel(request: Request, id: JobId) -> Response:
        keep_model = "keep_model" in await form_of(request)
        await run_sync(partial(context.jobs.cancel, id, keep_model=keep_model))
        return back(f"/jobs/{id}")

    @routes.post("/jobs/{id}/pause")
    @requires_scope("train")
    async def pause(id: JobId) -> Response:
        await run_sync(context.jobs.pause, id)
        return back(f"/jobs/{id}")

    @routes.post("/jobs/{id}/resume")
    @requires_scope("train")
    async def resume(id: JobId) -> Response:
        await run_sync(context.jobs.resume, id)
        return back(f"/jobs/{id}")

    @routes.post("/jobs/{id}/delete")
    @requires_scope("train")
    async def delete(request: Request, id: JobId) -> Response:
        await run_sync(context.jobs.delete, id)
        return go(request, "/jobs")


@dataclass(frozen=True, slots=True)
class Compared:
    """A job, with its curve of the binary problem on the page."""

    job: JobRead
    curve: Curve
    excess: list[float | None]
    """Relative excess of the cost over the best bound of all jobs, at each point."""
    reached: list[float | None]
    """Seconds until the excess was at most each of `GAPS`."""


def _add_compare(routes: APIRouter, context: PageContext) -> None:
    @routes.get("/compare")
    def compare(
        request: Request,
        jobs: Annotated[str | None, Query()] = None,
        dataset_id: DatasetId | None = None,
        pair: Annotated[str | None, Query()] = None,
    ) -> Response:
        chosen = _ids(jobs)
        traced = [(_training(context, id), curves_of(context.jobs.trace(id))) for id in chosen]
        titles = _common(traced)
        title = pair if pair in titles else next(iter(titles), None)
        job_filter = JobFilter(kind=TRAINING.name, dataset_id=dataset_id)
        offered = context.jobs.page(job_filter, OFFERED).items
        return page(
            request,
            "compare.html",
            compared=_compare(traced, title) if title is not None else [],
            missing=[job for job, curves in traced if title not in {c.title for c in curves}],
            differences=_differences([job for job, _ in traced]),
            titles=titles,
            title=title,
            gaps=GAPS,
            chosen=chosen,
            offered=offered,
            names=context.datasets.names([job.dataset_id for job in offered]),
            dataset_id=dataset_id,
            datasets=[one for one in context.datasets.page(OFFERED).items if one.target_kind],
            solvers=list(SOLVERS),
            scalings=get_args(ScalingName),
        )

    @routes.post("/compare")
    @requires_scope("read")
    async def choose(request: Request) -> Response:
        form = await form_of(request)
        return back(f"/compare?jobs={','.join(form.get('job', []))}")

    @routes.post("/comparisons")
    @requires_scope("train")
    async def start(request: Request) -> Response:
        body = check(ComparisonCreate, _body(await form_of(request)))
        return await queue(request, Comparisons(context), body)


def _body(form: dict[str, list[str]]) -> dict[str, Any]:
    """A grid of the chosen solvers; everything else has its default."""

    def one(name: str) -> str:
        return form.get(name, [""])[-1].strip()

    def numbers(name: str) -> list[Any]:
        return [number_in(part.strip()) for part in one(name).split(",")]

    grid: dict[str, Any] = {"solver": [{"name": name} for name in form.get("solver", [])]}
    if one("C"):
        grid["C"] = numbers("C")
    body = {
        "dataset_id": one("dataset_id"),
        "grid": grid,
        "scaling": one("scaling") or None,
        "validation": {"fraction": number_in(one("fraction"))},
        "warm_starts": False,  # every curve begins at zero
    }
    if one("rows"):
        body["sizes"] = {"rows": numbers("rows")}
    return body | ({"model_name": one("model_name")} if one("model_name") else {})


def _ids(jobs: str | None) -> list[str]:
    """Raises InvalidRequest."""
    if not jobs:
        return []
    ids = list(dict.fromkeys(jobs.split(",")))
    if JOBS.fullmatch(jobs) is None or len(ids) > MAX_JOBS:
        detail = f"give the ids of at most {MAX_JOBS} jobs, separated by commas"
        raise InvalidRequest("invalid-parameter", detail)
    return ids


def _training(context: PageContext, id: str) -> JobRead:
    """Raises InvalidRequest for a job that is not a training: it has no curve."""
    job = context.jobs.get(id)
    if job.kind != TRAINING.name:
        detail = f"{id} is not a training; only trainings can be compared"
        raise InvalidRequest("invalid-parameter", detail)
    return JobRead.of(job)


def _common(traced: Traced) -> list[str]:
    """Binary problems that most of the jobs have."""
    counts = Counter(curve.title for _, curves in traced for curve in curves)
    most = max(counts.values(), default=0)
    return [title for title, count in counts.items() if count == most]


def _compare(traced: Traced, title: str) -> list[Compared]:
    same = [(job, curve) for job, curves in traced for curve in curves if curve.title == title]
    bound = max(dual for _, curve in same for dual in curve.points["dual"])
    return [Compared(job, curve, *_excess(curve, bound)) for job, curve in same]


def _excess(curve: Curve, bound: float) -> tuple[list[float | None], list[float | None]]:
    if bound <= 0:
        return [None] * len(curve.points["primal"]), [None] * len(GAPS)
    excess = [max(0.0, primal / bound - 1) for primal in curve.points["primal"]]
    times = curve.points["elapsed_s"]
    reached = [
        next((time for time, value in zip(times, excess, strict=True) if value <= gap), None)
        for gap in GAPS
    ]
    return list(excess), reached


def _differences(jobs: Sequence[JobRead]) -> list[str]:
    """Settings in which the jobs differ, so that their costs cannot be compared."""
    return [
        name
        for name, of in _DECIDING.items()
        if len({json.dumps(of(job), sort_keys=True) for job in jobs}) > 1
    ]


def _regularization(job: JobRead) -> Any:
    solver = job.spec.get("solver", {})
    return ["lambda", solver["lambda"]] if solver.get("lambda") else ["C", solver.get("C") or 1.0]


def _validation_set(job: JobRead) -> Any:
    validation = job.spec.get("validation")
    if validation is None or "folds" in validation:
        return None
    return [validation, job.spec.get("seed") if "fraction" in validation else None]


_DECIDING: dict[str, Callable[[JobRead], Any]] = {
    "data": lambda job: job.dataset_digest,
    "validation set (by fraction and seed)": _validation_set,
    "scaling": lambda job: job.spec.get("scaling"),
    "features": lambda job: job.spec.get("features"),
    "multiclass": lambda job: job.spec.get("multiclass"),
    "loss": lambda job: job.spec.get("solver", {}).get("loss"),
    "scale of the target": lambda job: job.spec.get("target_scale"),
    "class weight": lambda job: job.spec.get("class_weight"),
    "regularization": _regularization,
    "intercept": lambda job: job.spec.get("solver", {}).get("intercept"),
    "kernel": lambda job: job.spec.get("solver", {}).get("kernel"),
}
"""Settings that determine the objective."""
