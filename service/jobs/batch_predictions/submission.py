"""From a request for a batch prediction to a job that can be queued."""

from __future__ import annotations

from service.errors import Fault, InvalidContent
from service.jobs.batch_predictions import KIND
from service.jobs.batch_predictions.schemas import BatchPredictionCreate
from service.jobs.core.model_columns import check_columns, unused_columns
from service.jobs.core.submission import Draft, Submission
from service.jobs.training.admission import refuse_at
from service.storage.database.tables import ModelVersion


class BatchPredictions(Submission[BatchPredictionCreate]):
    kind = KIND

    def draft(self, body: BatchPredictionCreate) -> Draft:
        stores = self.stores
        dataset, version = stores.datasets.find(body.dataset_id), stores.models.find(body.model)
        _check_outputs(body, version)
        with refuse_at("/dataset_id"):
            check_columns(dataset, version)
        spec = {
            **body.model_dump(mode="json"),
            "outputs": list(dict.fromkeys(body.outputs)),
            "dataset_id": dataset.id,
            "model": {"name": version.model_name, "version": version.version},
            "ignored_columns": unused_columns(dataset, version),
        }
        return Draft(spec, dataset, version.model_name, needs=version)


def _check_outputs(body: BatchPredictionCreate, version: ModelVersion) -> None:
    if "probability" in body.outputs and version.calibration is None:
        message = "the model has no probabilities; train it with `calibration`"
        raise InvalidContent.at("/outputs", "not-calibrated", message)
    if body.format == "npy" and len(set(body.outputs)) > 1:
        message = "an NPY file holds one output; choose another format, or one output"
        fault = Fault(code="invalid-field", message=message, pointer="/outputs")
        raise InvalidContent("invalid-field", f"/outputs: {message}", (fault,))
