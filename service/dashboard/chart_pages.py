"""The charts of a job: as files, and the curve that is replaced while the job runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.requests import Request
from starlette.responses import Response

from service import charts
from service.charts.chart import MEDIA_TYPES, Chart, ChartFormat
from service.charts.views import Against
from service.common.names import JobId
from service.dashboard.charts import (
    Curve,
    chart_of,
    curves_of,
    evaluation_charts,
    objective_chart,
)
from service.dashboard.page import PageContext, page
from service.errors import NotFound
from service.jobs.collection.schemas import JobRead
from service.jobs.comparisons.routes import comparison
from service.jobs.core.job import FINAL, Job
from service.jobs.evaluations.routes import evaluation
from service.jobs.kinds import COMPARISON, EVALUATION, TRAINING


def add(routes: APIRouter, context: PageContext) -> None:
    """Add them to the dashboard's routes."""

    @routes.get("/jobs/{id}/curve")
    def curve(request: Request, id: JobId, against: Against = "time") -> Response:
        job = JobRead.of(context.jobs.get(id))
        curves, chart = _curve(context, id, against)
        return page(
            request, "_live_curve.html", job=job, curves=curves, chart=chart, against=against
        )

    @routes.get("/jobs/{id}/charts/{name}.{format}")
    def chart(
        id: JobId,
        name: Annotated[str, Path(pattern="^([a-z-]{1,30}|objective-[0-9]{1,6})$")],
        format: ChartFormat,
        against: Against = "time",
    ) -> Response:
        job = context.jobs.get(id)
        shown = _curve(context, id, against)[1] if name == "curve" else _of(context, job, name)
        return file_of(shown, format)


def file_of(chart: Chart, format: ChartFormat) -> Response:
    """A chart as a file, which runs and loads nothing."""
    policy = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
    return Response(charts.write(chart, format), headers=policy, media_type=MEDIA_TYPES[format])


def _curve(context: PageContext, id: str, against: Against) -> tuple[list[Curve], Chart]:
    """Raises NotFound."""
    job = context.jobs.get(id)
    curves = curves_of(context.jobs.trace(id), ended=job.state in FINAL)
    chart = chart_of(curves, JobRead.of(job), against) if job.kind == TRAINING.name else None
    if chart is None:
        raise NotFound("not-found", f"{id} has no learning curve")
    return curves, chart


def _of(context: PageContext, job: Job, name: str) -> Chart:
    """Raises NotFound."""
    objective = name.removeprefix("objective-")
    if job.kind == COMPARISON.name and objective.isdecimal():
        return objective_chart(comparison(context.jobs, job), int(objective))
    metrics = evaluation(context.jobs, job).metrics if job.kind == EVALUATION.name else None
    drawn = evaluation_charts(metrics) if metrics else {}
    if name not in drawn:
        raise NotFound("not-found", f"{job.id} has no chart `{name}`")
    return drawn[name]
