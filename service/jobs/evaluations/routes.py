"""`/v1/evaluations`: a model held against a labelled dataset."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Depends, Request, Response

from service.datasets.store import LATEST_DATASET
from service.jobs.collection import KindRoutes, asker
from service.jobs.core.job import Job
from service.jobs.core.store import JobStore
from service.jobs.evaluations.schemas import (
    EvaluationCreate,
    EvaluationMetricsRead,
    EvaluationPage,
    EvaluationRead,
    EvaluationSummary,
)
from service.jobs.evaluations.submission import KIND, Evaluations
from service.web.access.routing import Routes
from service.web.access.scopes import needs
from service.web.bodies import idempotency
from service.web.bodies.control_bodies import json_body, json_request
from service.web.bodies.idempotency import Once
from service.web.problems import responses

EXAMPLE = {"dataset_id": LATEST_DATASET, "model": "iris"}

Body = Annotated[EvaluationCreate, Depends(json_body(EvaluationCreate))]


def router(evaluations: Evaluations) -> Routes:
    """Create, list, read, delete; the rest is what jobs have."""
    kind = KindRoutes(evaluations.jobs, KIND, "evaluation", "train")
    read = partial(evaluation, evaluations.jobs)

    @kind.router.post(
        "",
        status_code=202,
        operation_id="create_evaluation",
        summary="Evaluate a model on a dataset",
        openapi_extra=json_request(EvaluationCreate, EXAMPLE),
        response_model=EvaluationRead,
        responses=responses(
            *("malformed-json", "body-too-large", "unsupported-format", "invalid-field"),
            *("not-found", "target-missing", "target-continuous", "unknown-class"),
            *("feature-mismatch", "plan-too-large", "queue-full", "storage-full"),
            *idempotency.PROBLEMS,
        ),
    )
    @needs("train")
    async def create(request: Request, once: Once, body: Body) -> Response:
        """Queues a job that scores every row: confusion matrix, precision and recall, ROC curves,
        margins, and, of a calibrated model, how good its probabilities are."""
        queue = partial(evaluations.queue, body, *asker(request))
        return await kind.created(once, read, queue)

    kind.add_list(EvaluationSummary, EvaluationPage)
    kind.add_get(
        EvaluationRead,
        read,
        "How far it is and, once it has succeeded, its metrics.",
        "results-corrupt",
    )
    kind.add_delete()
    return kind.router


def evaluation(jobs: JobStore, job: Job) -> EvaluationRead:
    """What is shown of an evaluation. Raises Corrupt."""
    metrics = None
    if file := jobs.open_results(job):
        with file:
            metrics = EvaluationMetricsRead.model_validate_json(file.read())
    return EvaluationRead(
        **EvaluationSummary.values(job), dataset_digest=job.dataset_digest, metrics=metrics
    )
