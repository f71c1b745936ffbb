"""Jobs: the list, and a job with its curve, which is drawn while it runs."""

from __future__ import annotations

from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from service.dashboard.context import Parts
from service.dashboard.curves import curves_of
from service.dashboard.page import back, form_of, go, page
from service.jobs.comparisons import KIND as COMPARISON
from service.jobs.comparisons.reading import comparison
from service.jobs.core.lifecycle import FINAL, State
from service.jobs.core.store import JobFilter
from service.jobs.evaluations import KIND as EVALUATION
from service.jobs.evaluations.routes import evaluation
from service.jobs.read_schemas import JobRead, JobSummary
from service.web.access.scopes import needs
from service.web.http.names import JobId, ModelName
from service.web.http.pagination import PageParams, next_page_token


def add(routes: APIRouter, parts: Parts) -> None:
    """Add them to the dashboard's routes."""
    _add_read(routes, parts)
    _add_steering(routes, parts)


def _add_read(routes: APIRouter, parts: Parts) -> None:
    @routes.get("/jobs")
    def jobs(
        request: Request,
        page_: PageParams,
        state: Annotated[State | None, Query()] = None,
        model_name: Annotated[ModelName | None, Query()] = None,
    ) -> Response:
        found = parts.jobs.page(JobFilter(state=state, model_name=model_name), page_)
        return page(
            request,
            "jobs.html",
            jobs=[JobSummary.of(job) for job in found.items],
            names=parts.datasets.names([job.dataset_id for job in found.items]),
            more=next_page_token(page_, found),
            state=state,
            states=list(State),
            counts=parts.jobs.counts(),
            model_name=model_name,
        )

    @routes.get("/jobs/{id}")
    def job(request: Request, id: JobId) -> Response:
        found = parts.jobs.get(id)
        read = JobRead.of(found)
        return page(
            request,
            "job.html",
            job=read,
            final=found.state in FINAL,
            name=parts.datasets.names([found.dataset_id]).get(found.dataset_id),
            curves=curves_of(parts.jobs.trace(id)),
            comparison=comparison(parts.jobs, found) if found.kind == COMPARISON.name else None,
            evaluation=evaluation(parts.jobs, found) if found.kind == EVALUATION.name else None,
        )


def _add_steering(routes: APIRouter, parts: Parts) -> None:
    @routes.post("/jobs/{id}/cancel")
    @needs("train")
    async def cancel(request: Request, id: JobId) -> Response:
        form = await form_of(request)

        def cancel() -> None:
            parts.jobs.cancel(id, keep_model="keep_model" in form)

        await run_sync(cancel)
        return back(f"/jobs/{id}")

    @routes.post("/jobs/{id}/pause")
    @needs("train")
    async def pause(id: JobId) -> Response:
        await run_sync(parts.jobs.pause, id)
        return back(f"/jobs/{id}")

    @routes.post("/jobs/{id}/resume")
    @needs("train")
    async def resume(id: JobId) -> Response:
        await run_sync(parts.jobs.resume, id)
        return back(f"/jobs/{id}")

    @routes.post("/jobs/{id}/delete")
    @needs("train")
    async def delete(request: Request, id: JobId) -> Response:
        await run_sync(parts.jobs.delete, id)
        return go(request, "/jobs")
