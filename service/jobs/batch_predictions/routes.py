"""`/v1/batch-predictions`: a dataset in, a file of predictions out."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Depends, Request, Response

from service.datasets.store import LATEST_DATASET, DatasetStore
from service.errors import Conflict, Fault, InvalidContent
from service.jobs.batch_predictions.results import MEDIA_TYPES
from service.jobs.batch_predictions.schemas import (
    BatchPredictionCreate,
    BatchPredictionPage,
    BatchPredictionRead,
)
from service.jobs.collection import PREDICT, KindRoutes, asker
from service.jobs.core.job import Job
from service.jobs.core.scoring import positions
from service.jobs.core.store import Also, JobStore
from service.jobs.training.admission import refused
from service.models.registry import ModelRegistry
from service.models.versions import ModelVersion
from service.web.access.routing import Routes
from service.web.access.scopes import needs
from service.web.bodies import idempotency
from service.web.bodies.control_bodies import json_body, json_request
from service.web.bodies.idempotency import Once
from service.web.http.downloads import RANGE_PARAMETERS, download, downloads
from service.web.http.names import JobId
from service.web.problems import responses

EXAMPLE = {"dataset_id": LATEST_DATASET, "model": "iris", "outputs": ["label", "decision"]}

Body = Annotated[BatchPredictionCreate, Depends(json_body(BatchPredictionCreate))]


def router(jobs: JobStore, datasets: DatasetStore, models: ModelRegistry) -> Routes:
    """Create, list, read, download, delete; the rest is what jobs have."""
    kind = KindRoutes(jobs, PREDICT, "batch prediction", "predict")
    routes = kind.router

    @routes.post(
        "",
        status_code=202,
        operation_id="create_batch_prediction",
        summary="Predict all rows of a dataset",
        openapi_extra=json_request(BatchPredictionCreate, EXAMPLE),
        responses=responses(
            *("malformed-json", "body-too-large", "unsupported-format", "invalid-field"),
            *("not-found", "feature-mismatch", "not-calibrated", "queue-full"),
            *idempotency.PROBLEMS,
        ),
        response_model=BatchPredictionRead,
    )
    @needs("predict")
    async def create(request: Request, once: Once, body: Body) -> Response:
        """Queues a job; its rows are predicted to the same bits as by `predict`."""
        queue = partial(_create, jobs, datasets, models, body, *asker(request))
        return await kind.created(once, BatchPredictionRead.of, queue)

    kind.add_list(BatchPredictionRead, BatchPredictionPage)
    kind.add_get(
        BatchPredictionRead, BatchPredictionRead.of, "How far it is, and where its results are."
    )

    @routes.get(
        "/{id}/results",
        operation_id="download_batch_prediction",
        summary="Download the predictions",
        description="One record a row, in the order of the dataset; whole or a range. "
        "`Repr-Digest` holds the sha-256 (RFC 9530).",
        response_class=Response,
        responses={
            **downloads(*MEDIA_TYPES.values()),
            **responses(
                *("invalid-parameter", "not-found", "invalid-state", "precondition-failed"),
                *("range-not-satisfiable", "results-corrupt"),
            ),
        },
        openapi_extra=RANGE_PARAMETERS,
    )
    @needs("read", "predict")
    def results(request: Request, id: JobId) -> Response:
        job = kind.get(id)
        file = jobs.open_results(job)
        if file is None or job.results_sha256 is None or job.results_bytes is None:
            raise Conflict("invalid-state", f"there are no results: the job is {job.state}")
        form = job.spec["format"]
        return download(
            request,
            file,
            size_bytes=job.results_bytes,
            sha256=job.results_sha256,
            media_type=MEDIA_TYPES[form],
            filename=f"predictions-{id}.{form}",
        )

    kind.add_delete()
    return routes


def _create(
    jobs: JobStore,
    datasets: DatasetStore,
    models: ModelRegistry,
    body: BatchPredictionCreate,
    caller: str,
    request_id: str | None,
    also: Also | None,
) -> Job:
    dataset, version = datasets.find(body.dataset_id), models.find(body.model)
    _check_outputs(body, version)
    with refused("/dataset_id"):
        positions(dataset, version)
    return jobs.create(
        kind=PREDICT,
        spec={
            **body.model_dump(mode="json"),
            "outputs": list(dict.fromkeys(body.outputs)),
            "dataset_id": dataset.id,
            "model": {"name": version.model_name, "version": version.version},
        },
        begins_at=(version.model_name, version.version),
        dataset_id=dataset.id,
        dataset_digest=dataset.matrix_digest,
        model_name=version.model_name,
        priority=body.priority,
        labels=body.labels,
        caller=caller,
        request_id=request_id,
        also=also,
    )


def _check_outputs(body: BatchPredictionCreate, version: ModelVersion) -> None:
    if "probability" in body.outputs and version.calibration is None:
        message = "the model has no probabilities; train it with `calibration`"
        fault = Fault(code="not-calibrated", message=message, pointer="/outputs")
        raise InvalidContent("not-calibrated", message, (fault,))
    if body.format == "npy" and len(set(body.outputs)) > 1:
        message = "an NPY file holds one output; choose another format, or one output"
        fault = Fault(code="invalid-field", message=message, pointer="/outputs")
        raise InvalidContent("invalid-field", f"/outputs: {message}", (fault,))
