"""The page that compares trainings, by cost against time for one objective, and models, by what
changed between two versions."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, get_args
from urllib.parse import urlencode

import numpy as np
from anyio.to_thread import run_sync
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from service.charts.chart import Chart, ChartFormat
from service.charts.views import relative_costs
from service.common.callers import caller_of
from service.common.names import NAME, DatasetId, JobId
from service.dashboard.chart_pages import file_of
from service.dashboard.charts import Curve, curves_of
from service.dashboard.formatting import short
from service.dashboard.model_pages import fitting
from service.dashboard.page import PageContext, back, check, form_of, page, queue
from service.dashboard.schema_forms import number_in
from service.dashboard.training_pages import name_for
from service.errors import InvalidRequest, NotFound, ServiceError
from service.jobs.collection.schemas import JobRead
from service.jobs.comparisons.routes import comparison
from service.jobs.comparisons.schemas import ComparisonCreate
from service.jobs.comparisons.submission import Comparisons
from service.jobs.core.store import JobFilter
from service.jobs.evaluations.shared import both_of, evaluated
from service.jobs.kinds import COMPARISON, TRAINING
from service.jobs.training.schemas import JobCreate
from service.jobs.training.submission import Trainings
from service.models.card import training_data
from service.models.differences import Side, parts_of, same_training, verdict
from service.models.paired import paired_difference, same_rows
from service.models.versions import DEFAULT
from service.storage.database.pages import PageRequest
from service.storage.database.tables import ModelVersion
from service.web.access.scopes import requires_scope
from svm.solvers import SOLVERS
from svm.transforms.scaling import ScalingName

REFERENCE = rf"{NAME.pattern}(?:/(?:[1-9][0-9]{{0,8}}|{NAME.pattern}))?"
MAX_JOBS = 8
OFFERED = PageRequest(size=50)
GAPS = (1e-1, 1e-2, 1e-3)
MODELS = re.compile(f"{REFERENCE},{REFERENCE}")
JOBS = re.compile(r"job_[0-9a-f]{32}(,job_[0-9a-f]{32})*")
Traced = Sequence[tuple[JobRead, list[Curve]]]


def add(routes: APIRouter, context: PageContext) -> None:
    """Add it to the dashboard's routes."""

    @routes.get("/compare")
    async def compare(
        request: Request,
        jobs: Annotated[str | None, Query()] = None,
        dataset_id: DatasetId | None = None,
        pair: Annotated[str | None, Query()] = None,
        models: Annotated[str | None, Query()] = None,
    ) -> Response:
        ids = _ids(jobs)
        if models or (models := await run_sync(both_of, context.jobs, ids)):
            return await _show_difference(request, context, models)
        return await run_sync(_show_curves, request, context, ids, dataset_id, pair)

    @routes.get("/compare/costs.{format}")
    def costs(format: ChartFormat, jobs: str, pair: str | None = None) -> Response:
        traced, _, title = _traced(context, _ids(jobs), pair)
        if title is None:
            raise NotFound("not-found", "these jobs have no curves to compare")
        return file_of(_chart(_compare(traced, title)), format)

    @routes.post("/compare")
    @requires_scope("read")
    async def choose(request: Request) -> Response:
        """The curves of selected trainings, or the difference between two models."""
        chosen = ",".join(dict.fromkeys(filter(None, (await form_of(request)).get("id", []))))
        of = "models" if chosen and not chosen.startswith("job_") else "jobs"
        return back(f"/compare?{urlencode({of: chosen})}" if chosen else "/compare")

    @routes.post("/comparisons")
    @requires_scope("train")
    async def start(request: Request) -> Response:
        body = check(ComparisonCreate, _body(await form_of(request)))
        return await queue(request, Comparisons(context), body)

    _add_entries(routes, context)


@dataclass(frozen=True, slots=True)
class Compared:
    """A job, with its curve of the binary problem on the page."""

    job: JobRead
    curve: Curve
    excess: list[float | None]
    """Relative excess of the cost over the best bound of all jobs, at each point."""
    reached: list[float | None]
    """Seconds until the excess was at most each of `GAPS`."""


def _add_entries(routes: APIRouter, context: PageContext) -> None:
    """What can be done with the entries of a comparison."""

    @routes.post("/comparisons/{id}/train")
    @requires_scope("train")
    async def train(request: Request, id: JobId) -> Response:
        form = await form_of(request)
        chosen = form.get("only") or form.get("id", [])
        specs = await run_sync(_specs, context, id, chosen)
        bodies = [check(JobCreate, spec) for spec in specs]
        if len(bodies) == 1:
            return await queue(request, Trainings(context), bodies[0])
        caller, request_id = caller_of(request), request.state.request_id
        queued = await run_sync(Trainings(context).queue_all, bodies, caller, request_id)
        ids = []
        for job in queued:
            if isinstance(job, ServiceError):
                raise job
            ids.append(job.id)
        return back(f"/compare?jobs={','.join(ids)}")

    @routes.post("/comparisons/{id}/promote")
    @requires_scope("train")
    async def promote(request: Request, id: JobId) -> Response:
        """A model that exists becomes the default at once, another one once it is trained."""
        chosen = (await form_of(request)).get("only", [])[:1]
        [spec] = await run_sync(_specs, context, id, chosen, True)
        name, version = spec["model_name"], await run_sync(_made_before, context, id, spec)
        if version is None:
            body = check(JobCreate, spec | {"set_alias": DEFAULT})
            return await queue(request, Trainings(context), body)
        await run_sync(context.models.set_alias, name, DEFAULT, version)
        return back(f"/models/{name}/versions/{version}")


def _specs(
    context: PageContext, id: str, chosen: Sequence[str], promoted: bool = False
) -> list[dict[str, Any]]:
    """Requests for trainings of these entries of a comparison, by number. If it names no model, one
    that is not promoted is of a model that no one asks yet. Raises InvalidRequest, NotFound."""
    job = context.jobs.get(id)
    if job.kind != COMPARISON.name:
        raise NotFound("not-found", f"{id} is not a comparison")
    entries = {str(entry.number): entry for entry in comparison(context.jobs, job).entries}
    if not chosen or len(chosen) > MAX_JOBS or not entries.keys() >= set(chosen):
        detail = f"select entries of the comparison, {MAX_JOBS} at most"
        raise InvalidRequest("invalid-parameter", detail)
    specs = [entries[number].spec for number in dict.fromkeys(chosen)]
    if all("model_name" in spec for spec in specs):
        return specs
    name = name_for(context.datasets.get(job.dataset_id))
    ends = ["" if promoted else f"-{spec['solver']['name'].replace('_', '-')}" for spec in specs]
    return [
        {"model_name": name[: 63 - len(end)].rstrip("-") + end} | spec
        for end, spec in zip(ends, specs, strict=True)
    ]


def _made_before(context: PageContext, id: str, spec: Mapping[str, Any]) -> int | None:
    """The version that the entry became, or one that is equal, among the latest ones."""
    digest = context.jobs.get(id).dataset_digest
    with suppress(NotFound):
        for version in context.models.versions(spec["model_name"], OFFERED).items:
            if same_training(version, digest, spec):
                return version.version
    return None


def _show_curves(
    request: Request,
    context: PageContext,
    chosen: list[str],
    dataset_id: str | None,
    pair: str | None,
) -> Response:
    traced, titles, title = _traced(context, chosen, pair)
    compared = _compare(traced, title) if title is not None else []
    job_filter = JobFilter(kind=TRAINING.name, dataset_id=dataset_id)
    offered = context.jobs.page(job_filter, OFFERED).items
    return page(
        request,
        "compare.html",
        compared=compared,
        chart=_chart(compared),
        missing=[job for job, curves in traced if title not in {c.title for c in curves}],
        differences=_differences([job for job, _ in traced]),
        titles=titles,
        title=title,
        gaps=GAPS,
        chosen=chosen,
        offered=[JobRead.of(job) for job in offered],
        names=context.datasets.names([job.dataset_id for job in offered]),
        dataset_id=dataset_id,
        datasets=[one for one in context.datasets.page(OFFERED).items if one.target_kind],
        models=context.models.page(OFFERED).items,
        solvers=list(SOLVERS),
        scalings=get_args(ScalingName),
    )


async def _show_difference(request: Request, context: PageContext, models: str) -> Response:
    """Raises InvalidRequest, NotFound."""
    if MODELS.fullmatch(models) is None:
        detail = "select two models or versions, such as iris/1,iris/2"
        raise InvalidRequest("invalid-parameter", detail)
    versions = await run_sync(lambda: [context.models.find(one) for one in models.split(",")])
    one, other = versions
    loaded = []
    if same_rows(one, other):
        with suppress(ServiceError):  # such as a damaged file: the records are still there
            loaded = [
                await context.loaded_models.get(each.model_name, each.version) for each in versions
            ]

    def show() -> Response:
        sides = [_side(context, version) for version in versions]
        paired = None
        if loaded:
            fitted, work = [each.fitted for each in loaded], [each.work_per_row for each in loaded]
            with suppress(ServiceError):
                paired = paired_difference(context.datasets, one, fitted[0], fitted[1], max(work))
        both, waiting = evaluated(context, one, other)
        return page(
            request,
            "difference.html",
            sides=sides,
            verdict=verdict(sides[0], sides[1], paired, both),
            parts=parts_of(sides[0], sides[1], both),
            waiting=waiting,
            models=[context.models.get(version.model_name) for version in versions],
            datasets=fitting(context, *versions),
        )

    return await run_sync(show)


def _side(context: PageContext, version: ModelVersion) -> Side:
    elapsed_s = None
    with suppress(NotFound):
        elapsed_s = context.jobs.get(version.job_id).elapsed_s if version.job_id else None
    return Side(version, training_data(context.datasets, version), elapsed_s)


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
        detail = "select trainings only, or evaluations of two different versions"
        raise InvalidRequest("invalid-parameter", detail)
    return JobRead.of(job)


def _common(traced: Traced) -> list[str]:
    """Binary problems that most of the jobs have."""
    counts = Counter(curve.title for _, curves in traced for curve in curves)
    most = max(counts.values(), default=0)
    return [title for title, count in counts.items() if count == most]


def _traced(
    context: PageContext, ids: Sequence[str], pair: str | None
) -> tuple[Traced, list[str], str | None]:
    """(the jobs with their curves, the titles of binary problems, the one to show)."""
    traced = [(_training(context, id), curves_of(context.jobs.trace(id))) for id in ids]
    titles = _common(traced)
    return traced, titles, pair if pair in titles else next(iter(titles), None)


def _chart(compared: Sequence[Compared]) -> Chart:
    lines = [
        (
            f"{one.job.spec['solver']['name']} {short(one.job.id)}",
            np.asarray(one.curve.points["elapsed_s"], dtype=float),
            np.asarray(one.excess, dtype=float),
        )
        for one in compared
    ]
    return relative_costs("Cost against time", lines)


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
