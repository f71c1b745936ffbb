"""`/v1/batch-predictions`: predictions of all rows of a dataset, as a file."""

from __future__ import annotations

from fastapi import Request, Response

from service.common.names import JobId
from service.datasets.store import LATEST_DATASET
from service.errors import Conflict, Fault, InvalidContent
from service.jobs.batch_predictions import schemas
from service.jobs.batch_predictions.schemas import BatchPredictionCreate
from service.jobs.collection.routes import Collection, JobAccess
from service.jobs.collection.schemas import Form
from service.jobs.collection.submission import Draft, Stores, Submission, scoring_draft
from service.jobs.core.model_columns import check_columns
from service.jobs.kinds import BATCH_PREDICTION
from service.jobs.training.admission import refuse_at
from service.models.outputs import (
    SHARE_OF,
    Shares,
    arrays_of,
    check_offered,
    check_shares,
    offer_of_version,
)
from service.storage.database.tables import ModelVersion
from service.web.access.scopes import Routes, requires_scope
from service.web.http.downloads import RANGE_PARAMETERS, download, downloads
from service.web.problems import responses


class BatchPredictions(Submission[BatchPredictionCreate]):
    kind = BATCH_PREDICTION

    def draft(self, body: BatchPredictionCreate) -> Draft:
        stores = self.stores
        dataset, version = stores.datasets.find(body.dataset_id), stores.models.find(body.model)
        outputs = _outputs_of(body, version)
        if not SHARE_OF.keys().isdisjoint(outputs):
            shares = Shares(body.coverage, body.withheld)
            check_shares(stores.models.files.load(version), outputs, shares)
        with refuse_at("/dataset_id"):
            check_columns(dataset, version)
        return scoring_draft(body, dataset, version, outputs=outputs)


def _outputs_of(body: BatchPredictionCreate, version: ModelVersion) -> list[str]:
    """Raises InvalidContent for outputs that the model, or the format, does not have."""
    offer = offer_of_version(version)
    outputs = list(dict.fromkeys(body.outputs or arrays_of(offer)[:1]))
    check_offered(outputs, offer)
    if body.format == "npy" and len(outputs) > 1:
        message = "an NPY file holds one output; choose another format, or one output"
        fault = Fault(code="invalid-field", message=message, pointer="/outputs")
        raise InvalidContent("invalid-field", f"/outputs: {message}", (fault,))
    return outputs


EXAMPLE = {"dataset_id": LATEST_DATASET, "model": "iris", "outputs": ["label", "decision"]}
FORM = Form(
    model=schemas.BatchPredictionRead,
    read=schemas.BatchPredictionRead.of,
    item=schemas.BatchPredictionRead,
    page=schemas.BatchPredictionPage,
    description="Its progress and, once it has succeeded, the URL of its results.",
)


def router(stores: Stores, access: JobAccess) -> Routes:
    collection = Collection(access, FORM, BATCH_PREDICTION)
    collection.add_create(
        BatchPredictions(stores),
        schemas.BatchPredictionCreate,
        EXAMPLE,
        *("feature-mismatch", "not-calibrated"),
        summary="Predict all rows of a dataset",
        description="Queues a job; it predicts the same bits for a row as `predict`.",
    )
    routes = collection.add_rest().routes

    @routes.get(
        "/{id}/results",
        operation_id="download_batch_prediction",
        summary="Download the predictions",
        description="One record a row, in the order of the dataset; whole or a range. "
        "`Repr-Digest` holds the sha-256 (RFC 9530).",
        response_class=Response,
        responses={
            **downloads(*schemas.MEDIA_TYPES.values()),
            **responses(
                *("invalid-parameter", "not-found", "invalid-state", "precondition-failed"),
                *("range-not-satisfiable", "results-corrupt"),
            ),
        },
        openapi_extra=RANGE_PARAMETERS,
    )
    @requires_scope("read", "predict")
    def results(request: Request, id: JobId) -> Response:
        job = collection.get(request, id)
        file = stores.jobs.open_results(job)
        if file is None or job.results_sha256 is None or job.results_bytes is None:
            raise Conflict("invalid-state", f"there are no results: the job is {job.state}")
        form = job.spec["format"]
        return download(
            request,
            file,
            size_bytes=job.results_bytes,
            sha256=job.results_sha256,
            media_type=schemas.MEDIA_TYPES[form],
            filename=f"predictions-{id}.{form}",
        )

    return routes
