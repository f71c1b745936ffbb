"""`/v1/comparisons`: several trainings on one dataset, ranked."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import Depends, Query, Request, Response

from service.datasets.store import LATEST_DATASET
from service.jobs.collection import KindRoutes, asker
from service.jobs.comparisons.reading import comparison
from service.jobs.comparisons.schemas import (
    ComparisonCreate,
    ComparisonPage,
    ComparisonPlanRead,
    ComparisonRead,
    ComparisonSummary,
)
from service.jobs.comparisons.submission import KIND, Comparisons
from service.web.access.routing import Routes
from service.web.access.scopes import needs
from service.web.bodies import idempotency
from service.web.bodies.control_bodies import json_body, json_request
from service.web.bodies.idempotency import Once
from service.web.http.json_reply import shown
from service.web.problems import responses

EXAMPLE = {
    "dataset_id": LATEST_DATASET,
    "grid": {
        "solver": [{"name": "dual-coordinate-descent"}, {"name": "smo"}],
        "C": [0.1, 1.0, 10.0],
        "gamma": [0.1, "median"],
    },
    "scaling": "max-abs",
    "validation": {"fraction": 0.25},
    "seed": 1,
    "model_name": "iris",
}

Body = Annotated[ComparisonCreate, Depends(json_body(ComparisonCreate))]
ValidateOnly = Annotated[
    bool, Query(description="Answer with the entries and what each needs; nothing is queued.")
]


def router(comparisons: Comparisons) -> Routes:
    """Create, list, read, delete; the rest is what jobs have."""
    kind = KindRoutes(comparisons.jobs, KIND, "comparison", "train")
    read = partial(comparison, comparisons.jobs)

    @kind.router.post(
        "",
        status_code=202,
        operation_id="create_comparison",
        summary="Compare trainings, or search hyperparameters",
        openapi_extra=json_request(ComparisonCreate, EXAMPLE),
        response_model=ComparisonRead,
        responses={
            200: {"model": ComparisonPlanRead, "description": "With `validate_only`: the plan."},
            **responses(
                *("malformed-json", "body-too-large", "unsupported-format", "invalid-field"),
                *("invalid-name", "not-found", "target-missing", "target-continuous"),
                *("single-class", "too-many-classes", "class-too-small", "scaling-unsupported"),
                *("features-unsupported", "plan-too-large", "unknown-class"),
                *("queue-full", "storage-full"),
                *idempotency.PROBLEMS,
            ),
        },
    )
    @needs("train")
    async def create(
        request: Request, once: Once, body: Body, validate_only: ValidateOnly = False
    ) -> Response:
        """Queues one job that trains every entry on the same rows, ranks them by how they do on
        the others, and keeps the best as a version of `model_name`, if that is given. An entry that
        cannot be trained is listed with its problem; the others go on."""
        if validate_only:
            return shown(await run_sync(comparisons.plan, body), 200)
        queue = partial(comparisons.queue, body, *asker(request))
        return await kind.created(once, read, queue)

    kind.add_list(ComparisonSummary, ComparisonPage)
    kind.add_get(
        ComparisonRead,
        read,
        "Its entries, the best first: scores, certificates and curves of cost against time. While "
        "it runs, what it has found so far, at most some seconds old.",
        "results-corrupt",
    )
    kind.add_delete()
    return kind.router
