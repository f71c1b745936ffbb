"""`/v1/evaluations`: a model measured on a labeled dataset."""

from __future__ import annotations

from functools import partial

from service.datasets.store import LATEST_DATASET
from service.jobs.collection.routes import Collection, JobAccess
from service.jobs.collection.schemas import Form
from service.jobs.core.job import Job
from service.jobs.core.store import JobStore
from service.jobs.core.submission import Stores
from service.jobs.evaluations import KIND, schemas
from service.jobs.evaluations.submission import Evaluations
from service.web.access.scopes import Routes

EXAMPLE = {"dataset_id": LATEST_DATASET, "model": "iris"}


def router(stores: Stores, access: JobAccess) -> Routes:
    form = Form(
        model=schemas.EvaluationRead,
        read=partial(evaluation, stores.jobs),
        item=schemas.EvaluationSummary,
        page=schemas.EvaluationPage,
        description="Its progress and, once it has succeeded, its metrics.",
        problems=("results-corrupt",),
    )
    collection = Collection(access, form, KIND)
    collection.add_create(
        Evaluations(stores),
        schemas.EvaluationCreate,
        EXAMPLE,
        *("target-missing", "target-continuous", "unknown-class", "feature-mismatch"),
        "plan-too-large",
        summary="Evaluate a model on a dataset",
        description="Queues a job that scores every row: confusion matrix, precision and recall, "
        "ROC curves, margins, and the quality of a calibrated model's probabilities.",
    )
    return collection.add_rest().routes


def evaluation(jobs: JobStore, job: Job) -> schemas.EvaluationRead:
    """The reply for an evaluation. Raises Corrupt."""
    metrics = None
    if file := jobs.open_results(job):
        with file:
            metrics = schemas.EvaluationMetricsRead.model_validate_json(file.read())
    return schemas.EvaluationRead(
        **schemas.EvaluationSummary.values(job), dataset_digest=job.dataset_digest, metrics=metrics
    )
