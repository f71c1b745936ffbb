"""The page of a job with its live learning curve."""

from __future__ import annotations

import time
from functools import partial
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from service.charts.views import Against
from service.common.names import JobId
from service.common.phases import COMPARING, expected
from service.dashboard.charts import chart_of, curves_of
from service.dashboard.job_progress import forecast_of, fraction_of, steps_of
from service.dashboard.page import PageContext, back, form_of, page
from service.dashboard.row_pages import FAR, STEP, predicted_view
from service.jobs.collection.schemas import JobRead
from service.jobs.comparisons.routes import comparison, tested_rows
from service.jobs.core.job import FINAL
from service.jobs.evaluations.routes import evaluation
from service.jobs.kinds import COMPARISON, EVALUATION, TRAINING
from service.web.access.scopes import requires_scope


def add(routes: APIRouter, context: PageContext) -> None:
    """Add them to the dashboard's routes."""
    _add_read(routes, context)
    _add_controls(routes, context)


def _add_read(routes: APIRouter, context: PageContext) -> None:
    @routes.get("/jobs/{id}")
    def job(
        request: Request,
        id: JobId,
        against: Against = "time",
        predicted: str = "",
        offset: Annotated[int, Query(ge=0, le=FAR)] = 0,
    ) -> Response:
        row = context.jobs.get(id)
        trained, ended = row.kind == TRAINING.name, row.state in FINAL
        curves = curves_of(context.jobs.trace(id), ended=ended) if trained else []
        return page(
            request,
            "job.html",
            job=JobRead.of(row),
            final=ended,
            steps=steps_of(row),
            forecast=forecast_of(row, context.jobs, has_workers=context.has_workers),
            fraction=fraction_of(row),
            compares=COMPARING in expected(row.kind, row.spec) and row.state not in FINAL,
            now=time.time(),
            name=context.datasets.names([row.dataset_id]).get(row.dataset_id),
            curves=curves,
            chart=chart_of(curves, JobRead.of(row), against),
            against=against,
            comparison=comparison(context.jobs, row) if row.kind == COMPARISON.name else None,
            tested=tested_rows(row, context.datasets) if row.kind == COMPARISON.name else None,
            evaluation=evaluation(context.jobs, row) if row.kind == EVALUATION.name else None,
            predicted=predicted_view(context, row, predicted, offset),
            step=STEP,
        )


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
