"""What callers get: jobs, their progress, events and traces."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from service.jobs.core.events import Event, Kind
from service.jobs.core.job import Job
from service.jobs.core.lifecycle import State
from service.web.http.times import rfc3339

READ = ConfigDict(frozen=True, use_attribute_docstrings=True)


class JobPlanRead(BaseModel):
    """What a training would cost; nothing is queued."""

    model_config = READ

    dataset_id: str
    n_samples: int
    n_features: int
    trainings: int
    """Of the model, and one for each fold."""
    binary_problems: int
    """In each training."""
    cost_per_epoch: str
    """Of each binary problem, with n rows and d features."""
    memory_bytes: int
    """What a worker needs at most."""
    rows_in_files: bool
    """Whether the rows stay in files and are read a few at a time."""


class ProgressRead(BaseModel):
    """How far a training is."""

    model_config = READ

    fraction: float = 0.0
    """Estimated share of the work that is done, from 0 to 1."""
    epoch: int = 0
    entry: int | None = None
    """Of a comparison, the entry that is trained."""
    fold: int | None = None
    """The fold whose training runs, from 1; null while the model itself is trained."""
    updates: int = 0
    """Parameter updates made."""
    primal: float | None = None
    """Primal value, dual bound and relative gap of the pair of classes with the largest gap."""
    dual: float | None = None
    relative_gap: float | None = None
    eta_s: float | None = None
    """Estimated time to the end."""


class JobModelRead(BaseModel):
    """The model version that a job made."""

    name: str
    version: int


class JobErrorRead(BaseModel):
    """Why a job failed."""

    code: str
    detail: str
    hint: str | None = None


class JobSummary(BaseModel):
    """A job as it is now, without its metrics and certificate."""

    model_config = READ

    id: str
    kind: str
    state: State
    stop_reason: str | None
    """`converged`, `gap-reached`, `max-epochs`, `time-budget`, `canceled` or `error`."""
    converged: bool | None
    cancel_requested: bool
    pause_requested: bool
    """The worker is about to save the job and to let it go."""
    progress: ProgressRead
    spec: dict[str, Any]
    """The request with all defaults written out; it can be sent again as it is."""
    dataset_id: str
    dataset_digest: str
    priority: int
    labels: dict[str, str]
    attempt: int
    """How many times a worker has begun or taken up the job."""
    created_at: str
    started_at: str | None
    finished_at: str | None
    elapsed_s: float
    """Time spent on the job, all attempts together."""
    model: JobModelRead | None
    epochs: int | None
    updates: int | None
    """Parameter updates made."""
    warnings: list[str]
    error: JobErrorRead | None

    @classmethod
    def of(cls, job: Job) -> Self:
        return cls(**cls._values(job))

    @classmethod
    def _values(cls, job: Job) -> dict[str, Any]:
        result = job.result or {}
        model = None
        if job.model_name is not None and job.model_version is not None:
            model = JobModelRead(name=job.model_name, version=job.model_version)
        return {
            "id": job.id,
            "kind": job.kind,
            "state": job.state,
            "stop_reason": job.stop_reason,
            "converged": job.converged,
            "cancel_requested": job.cancel_requested,
            "pause_requested": job.pause_requested,
            "progress": ProgressRead(**job.progress),
            "spec": job.spec,
            "dataset_id": job.dataset_id,
            "dataset_digest": job.dataset_digest,
            "priority": job.priority,
            "labels": job.labels,
            "attempt": job.attempt,
            "created_at": rfc3339(job.created_at),
            "started_at": rfc3339(job.started_at),
            "finished_at": rfc3339(job.finished_at),
            "elapsed_s": job.elapsed_s,
            "model": model,
            "epochs": result.get("epochs"),
            "updates": result.get("updates"),
            "warnings": job.warnings,
            "error": None if job.error is None else JobErrorRead(**job.error),
        }


class JobRead(JobSummary):
    """A job as it is now."""

    metrics: dict[str, Any] | None
    """By part of the data (`train`, and `validation` where rows were held back): accuracy,
    confusion matrix (rows are the true classes), precision, recall and F1 of each class. With
    folds, `validation` is of all rows, each predicted by the training that did not see it, and has
    `folds`, `accuracy_mean` and `accuracy_std` (divisor k - 1) of the single folds."""
    certificate: dict[str, Any] | None
    """How far from the optimum the model is at most: primal value, dual bound and their gap."""

    @classmethod
    def _values(cls, job: Job) -> dict[str, Any]:
        result = job.result or {}
        return super()._values(job) | {
            "metrics": result.get("metrics"),
            "certificate": result.get("certificate"),
        }


class JobPage(BaseModel):
    """Jobs, newest first, without their metrics and certificates."""

    model_config = READ

    jobs: list[JobSummary]
    next_page_token: str | None


class TraceRead(BaseModel):
    """A training's curve as a table: cost and errors against epochs and time."""

    model_config = READ

    columns: list[str]
    rows: list[list[Any]]
    """In the order of `columns`: by pair of classes, then by time."""


class EventRead(BaseModel):
    """Something that happened to a job; the same three fields as in the stream."""

    model_config = READ

    id: int
    """Grows from event to event of a job, not always by one."""
    event: Kind
    """`state`, `progress`, `checkpoint`, `warning` or `end`."""
    data: dict[str, Any]
    """`at`, the time, and what the kind of event has to say: the state and what is wished of it,
    the progress, the warning's `message`, or how the job ended."""

    @classmethod
    def of(cls, event: Event) -> Self:
        data = {"at": rfc3339(event.created_at), **event.data}
        return cls(id=event.number, event=event.kind, data=data)


class EventPage(BaseModel):
    """Events in the order they happened."""

    model_config = READ

    events: list[EventRead]
    next_page_token: str | None
    """Null on the last page; later events come after `Last-Event-ID` with the last `id`."""
