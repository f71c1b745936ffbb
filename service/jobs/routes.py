"""`/v1/jobs`: jobs of all kinds; trainings are created by `training.routes`."""

from __future__ import annotations

import csv
import io
from typing import Annotated, Any

from fastapi import Query, Request, Response

from service.common.content_negotiation import choose
from service.common.names import JobId
from service.jobs.collection.routes import Collection, JobAccess
from service.jobs.collection.schemas import JOB_FORM, DeliveryList, DeliveryRead, TraceRead
from service.jobs.core.store import JobStore
from service.jobs.kinds import KindName
from service.web.access.scopes import Routes, requires_scope
from service.web.problems import responses

TRACE_COLUMNS = (
    *("epoch", "updates", "elapsed_s", "primal", "dual", "gap"),
    *("solver_objective", "train_error", "validation_error"),
)


def router(access: JobAccess) -> Routes:
    """`/v1/jobs` and all below it, except for what queues a training."""
    collection = Collection(access, JOB_FORM)
    routes = collection.add_rest(_kind).routes

    @routes.get(
        "/{id}/trace",
        operation_id="get_job_trace",
        summary="Get a job's learning curve",
        description="Cost (in the common form, and in the constants of the solver's objective), "
        "bound and errors at epochs 1, 2, 4, 8 … and at the end, and at every point that the job's "
        "`trace` asked for; while the job runs and after it. `Accept: text/csv` gives the same "
        "table as CSV.",
        response_model=TraceRead,
        responses={
            200: {"description": "The table.", "content": {"text/csv": {}}},
            **responses("invalid-parameter", "not-found", "not-acceptable"),
        },
    )
    @requires_scope("read", "train")
    def get_trace(request: Request, id: JobId) -> TraceRead | Response:
        media_type = choose(request, ("application/json", "text/csv"))
        trace = _trace(access.jobs, id)
        if media_type == "application/json":
            return trace
        text = io.StringIO()
        csv.writer(text).writerows([trace.columns, *trace.rows])
        return Response(text.getvalue(), media_type="text/csv; charset=utf-8")

    @routes.get(
        "/{id}/deliveries",
        operation_id="list_job_deliveries",
        summary="List the deliveries of a job's callback",
        description="One for the end of a job of any kind that has a `callback`: whether the "
        "receiver has it, how many attempts there were, and the last error.",
        responses=responses("invalid-parameter", "not-found"),
    )
    @requires_scope("read", "predict", "train")
    def list_deliveries(request: Request, id: JobId) -> DeliveryList:
        collection.get(request, id)
        listed = access.deliveries.of_job(id)
        return DeliveryList(deliveries=[DeliveryRead.model_validate(each) for each in listed])

    return routes


def _kind(
    kind: Annotated[KindName | None, Query(description="Only jobs of this kind.")] = None,
) -> str | None:
    return kind


def _trace(jobs: JobStore, job_id: str) -> TraceRead:
    table: list[list[Any]] = [
        # The model separates a class from all others, or from one.
        [*(row[name] for name in TRACE_COLUMNS), *([None, *row["classes"]][-2:])]
        for row in jobs.trace(job_id)
    ]
    return TraceRead(columns=[*TRACE_COLUMNS, "negative_class", "positive_class"], rows=table)
