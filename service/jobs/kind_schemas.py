"""What all jobs with a collection of their own show there."""

from __future__ import annotations

from typing import Annotated, Any, Self

from annotated_types import Ge, Le
from pydantic import BaseModel, Field

from service.jobs.core.job import Job
from service.jobs.core.lifecycle import State
from service.jobs.read_schemas import READ, JobErrorRead
from service.jobs.training.schemas import WRITE
from service.web.http.names import DatasetReference
from service.web.http.tags import Labels
from service.web.http.times import rfc3339


class KindCreate(BaseModel):
    """What every request for a job on a dataset has."""

    model_config = WRITE

    dataset_id: DatasetReference
    """The dataset; `latest` is the one uploaded last."""
    priority: Annotated[int, Ge(-100), Le(100)] = 0
    """Jobs with a higher one are taken first."""
    labels: Labels = Field(default_factory=dict)
    """Your own remarks, to find the job by."""


class KindRead(BaseModel):
    """A job as its own collection shows it."""

    model_config = READ

    id: str
    """Of the job too: events, pause, resume and cancel are below `/v1/jobs/{id}`."""
    state: State
    fraction: float
    """Share of the work that is done, from 0 to 1."""
    dataset_id: str
    priority: int
    labels: dict[str, str]
    attempt: int
    """How many times a worker has begun or taken up the job."""
    created_at: str
    started_at: str | None
    finished_at: str | None
    elapsed_s: float
    """Time spent on the job, all attempts together."""
    error: JobErrorRead | None

    @classmethod
    def of(cls, job: Job) -> Self:
        return cls(**cls.values(job))

    @classmethod
    def values(cls, job: Job) -> dict[str, Any]:
        """The fields; subclasses add theirs."""
        return {
            "id": job.id,
            "state": job.state,
            "fraction": job.progress.get("fraction", 0.0),
            "dataset_id": job.dataset_id,
            "priority": job.priority,
            "labels": job.labels,
            "attempt": job.attempt,
            "created_at": rfc3339(job.created_at),
            "started_at": rfc3339(job.started_at),
            "finished_at": rfc3339(job.finished_at),
            "elapsed_s": job.elapsed_s,
            "error": None if job.error is None else JobErrorRead(**job.error),
        }
