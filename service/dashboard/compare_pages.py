"""The page that compares trainings: cost against time, for one objective."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from service.common.names import DatasetId
from service.dashboard.charts import Curve, curves_of
from service.dashboard.page import PageContext, back, check, form_of, page, queue
from service.dashboard.schema_forms import number_in
from service.errors import InvalidRequest
from service.jobs.collection.schemas import JobRead
from service.jobs.comparisons.schemas import ComparisonCreate
from service.jobs.comparisons.submission import Comparisons
from service.jobs.core.store import JobFilter
from service.jobs.kinds import TRAINING
from service.storage.database.pages import PageRequest
from service.web.access.scopes import requires_scope
from svm.solvers import SOLVERS
from svm.transforms.scaling import ScalingName

MAX_JOBS = 8
OFFERED = PageRequest(size=50)
GAPS = (1e-1, 1e-2, 1e-3)
JOBS = re.compile(r"job_[0-9a-f]{32}(,job_[0-9a-f]{32})*")
Traced = Sequence[tuple[JobRead, list[Curve]]]


def add(routes: APIRouter, context: PageContext) -> None:
    """Add it to the dashboard's routes."""

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
            offered=[JobRead.of(job) for job in offered],
            names=context.datasets.names([job.dataset_id for job in offered]),
            dataset_id=dataset_id,
            datasets=[one for one in context.datasets.page(OFFERED).items if one.target_kind],
            solvers=list(SOLVERS),
            scalings=get_args(ScalingName),
        )

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


@dataclass(frozen=True, slots=True)
class Compared:
    """A job, with its curve of the binary problem on the page."""

    job: JobRead
    curve: Curve
    excess: list[float | None]
    """Relative excess of the cost over the best bound of all jobs, at each point."""
    reached: list[float | None]
    """Seconds until the excess was at most each of `GAPS`."""


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
