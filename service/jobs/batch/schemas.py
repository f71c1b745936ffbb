"""What callers send and get: batch predictions."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from annotated_types import Ge, Le, MinLen
from pydantic import BaseModel, ConfigDict, Field

from service.jobs.batch.results import MEDIA_TYPES, Format
from service.jobs.job import Job
from service.jobs.lifecycle import State
from service.jobs.schemas import JobErrorRead, JobModelRead
from service.web.labels import Labels
from service.web.names import NAME
from service.web.times import rfc3339

MODEL = rf"^{NAME.pattern}(/([1-9][0-9]{{0,8}}|{NAME.pattern}))?$"


class BatchPredictionCreate(BaseModel):
    """A dataset to put through a model."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, strict=True
    )

    dataset_id: Annotated[str, Field(pattern=r"^(ds_[0-9a-f]{32}|latest)$")]
    """The rows to predict, labelled or not; `latest` is the dataset uploaded last."""
    model: Annotated[str, Field(pattern=MODEL, examples=["iris", "iris/3", "iris/candidate"])]
    """The model, one of its versions, or one of its aliases: what it means now counts."""
    outputs: Annotated[list[Literal["label", "decision", "probability"]], MinLen(1)] = ["label"]
    """What to predict."""
    format: Format = "csv"
    """Of the file of results. An NPY file holds one output."""
    priority: Annotated[int, Ge(-100), Le(100)] = 0
    """Jobs with a higher one are taken first."""
    labels: Labels = Field(default_factory=dict)
    """Your own remarks, to find the job by."""


class ResultsRead(BaseModel):
    """The file of predictions: one record a row, in the order of the dataset."""

    url: str
    media_type: str
    size_bytes: int
    sha256: str


class BatchPredictionRead(BaseModel):
    """A batch prediction as it is now: a job like any other."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    id: str
    """Of the job too: events, pause, resume and cancel are below `/v1/jobs/{id}`."""
    state: State
    fraction: float
    """Share of the rows that are predicted."""
    dataset_id: str
    model: JobModelRead
    outputs: list[str]
    format: Format
    priority: int
    labels: dict[str, str]
    attempt: int
    created_at: str
    started_at: str | None
    finished_at: str | None
    elapsed_s: float
    error: JobErrorRead | None
    results: ResultsRead | None
    """Once it has succeeded."""

    @classmethod
    def of(cls, job: Job) -> Self:
        return cls(
            id=job.id,
            state=job.state,
            fraction=job.progress.get("fraction", 0.0),
            dataset_id=job.dataset_id,
            model=JobModelRead(**job.spec["model"]),
            outputs=job.spec["outputs"],
            format=job.spec["format"],
            priority=job.priority,
            labels=job.labels,
            attempt=job.attempt,
            created_at=rfc3339(job.created_at),
            started_at=rfc3339(job.started_at),
            finished_at=rfc3339(job.finished_at),
            elapsed_s=job.elapsed_s,
            error=None if job.error is None else JobErrorRead(**job.error),
            results=_results(job),
        )


def _results(job: Job) -> ResultsRead | None:
    if job.results_key is None or job.results_bytes is None or job.results_sha256 is None:
        return None
    return ResultsRead(
        url=f"/v1/batch-predictions/{job.id}/results",
        media_type=MEDIA_TYPES[job.spec["format"]],
        size_bytes=job.results_bytes,
        sha256=job.results_sha256,
    )


def spec_of(
    body: BatchPredictionCreate, dataset_id: str, name: str, version: int
) -> dict[str, Any]:
    """The request with what it means now."""
    return {
        **body.model_dump(mode="json"),
        "outputs": list(dict.fromkeys(body.outputs)),
        "dataset_id": dataset_id,
        "model": {"name": name, "version": version},
    }
