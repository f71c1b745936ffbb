"""`/v1/evaluations`: a model measured on a labeled dataset."""

from __future__ import annotations

from functools import partial

from service.datasets.store import LATEST_DATASET
from service.jobs.collection.routes import Collection, JobAccess
from service.jobs.collection.schemas import Form
from service.jobs.core.job import Job
from service.jobs.core.store import JobStore
from service.jobs.core.submission import Stores
from service.jobs.evaluations import KIND
from service.jobs.evaluations.schemas import (
    EvaluationCreate,
    EvaluationMetricsRead,
    EvaluationPage,
    EvaluationRead,
    EvaluationSummary,
)
from service.jobs.evaluations.submission import Evaluations
from service.web.access.routing import Routes

EXAMPLE = {"dataset_id": LATEST_DATASET, "model": "iris"}


def router(stores: Stores, access: JobAccess) -> Routes:
    form = Form(
        model=EvaluationRead,
        read=partial(evaluation, stores.jobs),
        item=EvaluationSummary,
        page=EvaluationPage,
        description="Its progress and, once it has succeeded, its metrics.",
        problems=("results-corrupt",),
    )
    collection = Collection(access, form, KIND)
    collection.add_create(
        Evaluations(stores),
        EvaluationCreate,
        EXAMPLE,
        *("target-missing", "target-continuous", "unknown-class", "feature-mismatch"),
        "plan-too-large",
        summary="Evaluate a model on a dataset",
        description="Queues a job that scores every row: confusion matrix, precision and recall, "
        "ROC curves, margins, and the quality of a calibrated model's probabilities.",
    )
    return collection.add_rest().routes


def evaluation(jobs: JobStore, job: Job) -> EvaluationRead:
    """The reply for an evaluation. Raises Corrupt."""
    metrics = None
    if file := jobs.open_results(job):
        with file:
            metrics = EvaluationMetricsRead.model_validate_json(file.read())
    return EvaluationRead(
        **EvaluationSummary.values(job), dataset_digest=job.dataset_digest, metrics=metrics
    )
