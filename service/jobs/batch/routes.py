"""`/v1/batch-predictions`: a dataset in, a file of predictions out."""

from __future__ import annotations

from typing import Annotated

from anyio.to_thread import run_sync
from fastapi import APIRouter, Depends, Request, Response

from service.datasets.store import LATEST_DATASET, DatasetStore
from service.errors import Conflict, Corrupt, Fault, InvalidContent, NotFound
from service.jobs.batch.results import MEDIA_TYPES
from service.jobs.batch.schemas import BatchPredictionCreate, BatchPredictionRead, spec_of
from service.jobs.job import Job
from service.jobs.kinds.predict import positions
from service.jobs.store import Also, JobStore
from service.models.registry import ModelRegistry
from service.models.versions import ModelVersion
from service.storage.blobs import BlobDamaged, Blobs
from service.web import idempotency
from service.web.bodies import json_body, json_request
from service.web.callers import caller_of
from service.web.downloads import RANGE_PARAMETERS, download, downloads
from service.web.idempotency import Once
from service.web.names import JobId
from service.web.problems import responses
from service.web.replies import shown
from svm.errors import InvalidData

RETRY_AFTER_S = 1
KIND = "predict"
EXAMPLE = {"dataset_id": LATEST_DATASET, "model": "iris", "outputs": ["label", "decision"]}

Body = Annotated[BatchPredictionCreate, Depends(json_body(BatchPredictionCreate))]


def router(
    jobs: JobStore, datasets: DatasetStore, models: ModelRegistry, blobs: Blobs
) -> APIRouter:
    """Create, read, download, delete; the rest is what jobs have."""
    routes = APIRouter(prefix="/v1/batch-predictions", tags=["batch predictions"])

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
    async def create(request: Request, once: Once, body: Body) -> Response:
        """Queues a job; its rows are predicted to the same bits as by `predict`."""

        async def create() -> Response:
            also = once.record(_accepted)
            return _accepted(await run_sync(_create, jobs, datasets, models, body, request, also))

        return await once.perform(create)

    @routes.get(
        "/{id}",
        operation_id="get_batch_prediction",
        summary="Get a batch prediction",
        responses=responses("invalid-parameter", "not-found"),
    )
    def get(id: JobId) -> BatchPredictionRead:
        """How far it is, and where its results are."""
        return BatchPredictionRead.of(_get(jobs, id))

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
    def results(request: Request, id: JobId) -> Response:
        job = _get(jobs, id)
        if job.results_key is None or job.results_sha256 is None or job.results_bytes is None:
            raise Conflict("invalid-state", f"there are no results: the job is {job.state}")
        try:
            file = blobs.open(job.results_key, job.results_sha256)
        except BlobDamaged:
            raise Corrupt("results-corrupt", "the file of results is damaged") from None
        form = job.spec["format"]
        return download(
            request,
            file,
            size_bytes=job.results_bytes,
            sha256=job.results_sha256,
            media_type=MEDIA_TYPES[form],
            filename=f"predictions-{id}.{form}",
        )

    @routes.delete(
        "/{id}",
        status_code=204,
        operation_id="delete_batch_prediction",
        summary="Delete a batch prediction",
        responses=responses("invalid-parameter", "not-found", "invalid-state"),
    )
    def delete(id: JobId) -> None:
        """With its results, once it has ended."""
        _get(jobs, id)
        jobs.delete(id)

    return routes


def _get(jobs: JobStore, id: str) -> Job:
    job = jobs.get(id)
    if job.kind != KIND:
        raise NotFound("not-found", f"there is no batch prediction {id}")
    return job


def _create(
    jobs: JobStore,
    datasets: DatasetStore,
    models: ModelRegistry,
    body: BatchPredictionCreate,
    request: Request,
    also: Also | None,
) -> Job:
    dataset = datasets.find(body.dataset_id)
    name, _, reference = body.model.partition("/")
    number = int(reference) if reference.isdigit() else reference or None
    version = models.get_version(name, number)
    _check_outputs(body, version)
    try:
        positions(dataset, version)
    except InvalidData as error:
        raise InvalidContent(error.code, error.message) from None
    return jobs.create(
        kind=KIND,
        spec=spec_of(body, dataset.id, name, version.version),
        begins_at=(name, version.version),
        dataset_id=dataset.id,
        dataset_digest=dataset.matrix_digest,
        model_name=name,
        priority=body.priority,
        labels=body.labels,
        caller=caller_of(request),
        request_id=request.state.request_id,
        also=also,
    )


def _accepted(job: Job) -> Response:
    headers = {"Location": f"/v1/batch-predictions/{job.id}", "Retry-After": str(RETRY_AFTER_S)}
    return shown(BatchPredictionRead.of(job), 202, headers)


def _check_outputs(body: BatchPredictionCreate, version: ModelVersion) -> None:
    if "probability" in body.outputs and not version.spec.get("calibration"):
        message = "the model has no probabilities; train it with `calibration`"
        fault = Fault(code="not-calibrated", message=message, pointer="/outputs")
        raise InvalidContent("not-calibrated", message, (fault,))
    if body.format == "npy" and len(set(body.outputs)) > 1:
        message = "an NPY file holds one output; choose another format, or one output"
        fault = Fault(code="invalid-field", message=message, pointer="/outputs")
        raise InvalidContent("invalid-field", f"/outputs: {message}", (fault,))
