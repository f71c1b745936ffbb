"""`/v1/evaluations`: a model measured on a labeled dataset."""

from __future__ import annotations

from functools import partial

from service.datasets.store import LATEST_DATASET
from service.jobs.collection.routes import Collection, JobAccess
from service.jobs.collection.schemas import Form
from service.jobs.collection.submission import Draft, Stores, Submission, scoring_draft
from service.jobs.core.job import Job
from service.jobs.core.model_columns import check_columns, labeled_for
from service.jobs.core.store import JobStore
from service.jobs.evaluations import schemas
from service.jobs.evaluations.run import MAX_COLUMNS, NO_VALIDATION, outputs_of
from service.jobs.evaluations.schemas import EvaluationCreate
from service.jobs.kinds import EVALUATION
from service.jobs.training.admission import check_scores, refuse_at
from service.rows.faults import invalid_field
from service.storage.database.tables import ModelVersion
from service.web.access.scopes import Routes


class Evaluations(Submission[EvaluationCreate]):
    kind = EVALUATION

    def draft(self, body: EvaluationCreate) -> Draft:
        stores = self.stores
        dataset, version = stores.datasets.find(body.dataset_id), stores.models.find(body.model)
        with refuse_at("/dataset_id"):
            labeled_for(dataset, version.classes, some=body.validation_only)
            check_columns(dataset, version)
        if body.validation_only and not (holds_out(version) and dataset.id == version.dataset_id):
            raise invalid_field("/validation_only", NO_VALIDATION)
        if body.importance and version.n_features > MAX_COLUMNS:
            message = (
                f"the model has {version.n_features:,} columns; the importance of at most "
                f"{MAX_COLUMNS} is measured"
            )
            raise invalid_field("/importance", message)
        outputs = outputs_of(version)
        check_scores(dataset, version, len(outputs), stores.limits.worker_memory_bytes)
        unlabeled = ((dataset.reading or {}).get("unlabeled") or {}).get("count", 0)
        return scoring_draft(body, dataset, version, unlabeled_rows=unlabeled, outputs=outputs)


def holds_out(version: ModelVersion) -> bool:
    """Whether the training held out some rows of its dataset to measure the version on."""
    return "fraction" in (version.spec.get("validation") or {})


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
    collection = Collection(access, form, EVALUATION)
    collection.add_create(
        Evaluations(stores),
        schemas.EvaluationCreate,
        EXAMPLE,
        *("target-missing", "target-continuous", "label-mismatch", "unknown-class"),
        *("feature-mismatch", "plan-too-large"),
        summary="Evaluate a model on a dataset",
        description="Queues a job that scores every row: confusion matrix, precision and recall, "
        "ROC curves, margins, and the quality of a calibrated model's probabilities. Of a model of "
        "numbers: mean and median errors with intervals, beside those of a baseline.",
    )
    return collection.add_rest().routes


def evaluation(jobs: JobStore, job: Job) -> schemas.EvaluationRead:
    """The reply for an evaluation. Raises Corrupt."""
    metrics = None
    if file := jobs.open_results(job):
        with file:
            metrics = schemas.METRICS.validate_json(file.read())
    return schemas.EvaluationRead(
        **schemas.EvaluationSummary.values(job), dataset_digest=job.dataset_digest, metrics=metrics
    )
