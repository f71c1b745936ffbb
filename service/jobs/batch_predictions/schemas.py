"""What callers send and get: batch predictions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from annotated_types import MinLen
from pydantic import BaseModel

from service.common.names import ModelReference
from service.common.schemas import ReadModel
from service.jobs.collection.schemas import JobModelRead, KindCreate, KindRead, UnknownCellsRead
from service.jobs.core.job import Job
from service.models.outputs import SHARE_OF, USUAL, Share
from service.rows.spec import CSV, NDJSON, NPY, PARQUET

Format = Literal["csv", "ndjson", "npy", "parquet"]

MEDIA_TYPES: dict[str, str] = {
    "csv": CSV,
    "ndjson": NDJSON,
    "npy": NPY,
    "parquet": PARQUET,
}


class BatchPredictionCreate(KindCreate):
    """A dataset to predict, labeled or not, and a model."""

    model: ModelReference
    """The model, one of its versions, or one of its aliases, resolved when the job is created."""
    outputs: (
        Annotated[
            list[Literal["label", "decision", "probability", "label_or_none", "value", "interval"]],
            MinLen(1),
        ]
        | None
    ) = None
    """What to predict: `label`, `decision`, `probability`, `label_or_none` of a classifier, by
    default `label`; `value`, `interval` of a model of numbers, by default `value`."""
    coverage: Share = USUAL.coverage
    """Of intervals: the share of new rows whose target is inside, on average."""
    withheld: Share = USUAL.withheld
    """Of `label_or_none`: the share of rows of known classes without a label, on average."""
    format: Format = "csv"
    """Of the file of results. An NPY file holds one output."""


class ResultsRead(BaseModel):
    """The file of predictions: one record a row, in the order of the dataset."""

    url: str
    media_type: str
    size_bytes: int
    sha256: str


class BatchPredictionRead(KindRead):
    """A batch prediction as it is now."""

    model: JobModelRead
    outputs: list[str]
    coverage: float | None
    """With `interval`."""
    withheld: float | None
    """With `label_or_none`."""
    format: Format
    ignored_columns: list[str]
    """The first hundred columns of the dataset that the model does not use."""
    unknown_cells: UnknownCellsRead | None
    """Once it has succeeded; null for models of plain numbers."""
    results: ResultsRead | None
    """Once it has succeeded."""

    @classmethod
    def values(cls, job: Job) -> dict[str, Any]:
        return super().values(job) | {
            "model": JobModelRead(**job.spec["model"]),
            "outputs": job.spec["outputs"],
            **{
                share: job.spec[share] if output in job.spec["outputs"] else None
                for output, share in SHARE_OF.items()
            },
            "format": job.spec["format"],
            "ignored_columns": job.spec.get("ignored_columns", []),
            "results": _results(job),
        }


class BatchPredictionPage(ReadModel):
    """Batch predictions, newest first."""

    batch_predictions: list[BatchPredictionRead]
    next_page_token: str | None


def _results(job: Job) -> ResultsRead | None:
    if job.results_key is None or job.results_bytes is None or job.results_sha256 is None:
        return None
    return ResultsRead(
        url=f"/v1/batch-predictions/{job.id}/results",
        media_type=MEDIA_TYPES[job.spec["format"]],
        size_bytes=job.results_bytes,
        sha256=job.results_sha256,
    )
