"""`POST /v1/jobs` queues a training; the other routes there are those of all jobs."""

from __future__ import annotations

from service.datasets.store import LATEST_DATASET
from service.jobs.collection.routes import Collection
from service.jobs.collection.schemas import JOB_FORM
from service.jobs.core.access import JobAccess
from service.jobs.core.submission import Stores
from service.jobs.training.batch_routes import add_batch
from service.jobs.training.schemas import JobCreate
from service.jobs.training.submission import JobPlanRead, Trainings
from service.web.access.scopes import Routes

EXAMPLE = {
    "dataset_id": LATEST_DATASET,
    "model_name": "iris",
    "solver": {"name": "dual-coordinate-descent", "C": 1.0},
    "scaling": "max-abs",
    "validation": {"fraction": 0.25},
    "seed": 1,
}


def router(stores: Stores, access: JobAccess) -> Routes:
    collection = Collection(access, JOB_FORM)
    trainings = Trainings(stores)
    collection.add_create(
        trainings,
        JobCreate,
        EXAMPLE,
        *("invalid-name", "target-missing", "target-continuous", "single-class"),
        *("too-many-classes", "class-too-small", "scaling-unsupported", "features-unsupported"),
        *("plan-too-large", "unknown-class", "warm-start-unsupported"),
        summary="Train a model",
        description="Queues a training and answers at once; the next free worker trains. Errors "
        "that can be known in advance are reported here. Follow the job with "
        "`GET /v1/jobs/{id}/events`.",
        plan=trainings.plan,
        plan_model=JobPlanRead,
    )
    add_batch(collection.routes, trainings, EXAMPLE)
    return collection.routes
