"""What callers get: jobs, their progress, events and traces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from annotated_types import Ge, Le
from pydantic import AfterValidator, BaseModel, Field

from service.common.names import DatasetReference
from service.common.schemas import Audit, ReadModel, Tags, Timestamp, WriteModel
from service.jobs.core.events import Event, EventKind
from service.jobs.core.job import Job, State
from service.jobs.core.phase_times import shown


def _check_url(url: str) -> str:
    if urlsplit(url).port == 0:  # which raises for one above 65535
        raise ValueError("port 0 cannot be called")
    return url


Callback = Annotated[
    str,
    AfterValidator(_check_url),
    Field(
        max_length=2048,
        pattern=r"^https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?([/?][!\"$-~]*)?$",
        examples=["https://hooks.example.com/svm"],
    ),
]


class KindCreate(WriteModel):
    """What every request for a job on a dataset has."""

    dataset_id: DatasetReference
    """The dataset; `latest` is the last upload."""
    priority: Annotated[int, Ge(-100), Le(100)] = 0
    """Jobs with a higher priority start first."""
    tags: Tags = Field(default_factory=dict)
    """Your own keys and values, to find the job by."""
    callback: Annotated[Callback | None, Field(exclude=True)] = None
    """A URL that gets a signed POST request when the job has ended, at least once. The operator
    must allow its host; `/v1/jobs/{id}/deliveries` shows what became of it."""


class JobCancel(WriteModel):
    """How to cancel a job."""

    keep_model: bool = False
    """Register the model so far as a model version."""


class PhaseRead(ReadModel):
    """A phase of a job."""

    name: str
    started_at: Timestamp
    """The last time."""
    elapsed_s: float
    """As last reported, all times together."""


class ProgressRead(ReadModel):
    """Progress of a job."""

    fraction: float = 0.0
    """Estimated share of the work that is done, from 0 to 1."""
    epoch: int = 0
    entry: int | None = None
    """Of a comparison: the entry that is being trained."""
    fold: int | None = None
    """The fold, or group of classes left out, whose training runs, from 1; null while the model
    itself is trained."""
    updates: int = 0
    """Parameter updates made."""
    primal: float | None = None
    """Primal value, dual bound and relative gap of the pair of classes with the largest gap."""
    dual: float | None = None
    relative_gap: float | None = None
    status: str | None = None
    """Of a training that has ended: `status` of its certificate."""
    eta_s: float | None = None
    """Estimated time to the end."""
    parts: int = 0
    """Parts of a long job that are left to other workers, while no job waits for them."""
    phase: str | None = None
    """What the job does now; null if it is paused or has ended. `queued`, `reading`, `compiling`
    (loops for this machine, before the first trainings of a kind), `first-model` (the usual linear
    one), `comparing` (`auto` compares settings), `training`, `folds`, `scoring`, `measuring` or
    `saving`."""
    phases: list[PhaseRead] = Field(default_factory=list)
    """Those that have begun, in order."""


class JobModelRead(BaseModel):
    """The model version that a job made."""

    name: str
    version: int

    @classmethod
    def of(cls, job: Job) -> Self | None:
        if job.model_name is None or job.model_version is None:
            return None
        return cls(name=job.model_name, version=job.model_version)


class UnknownCellsRead(BaseModel):
    """Cells like which the training rows of the model had none, by column: the hundred columns with
    the most of them. Such a cell adds nothing to the score, or the share of rare levels."""

    unseen: dict[str, int]
    """Levels of categories that no training row had."""
    missing: dict[str, int]
    """Missing cells in columns that had none in training."""
    words: int = 0
    """Words in columns of texts that no training text had, with repetition."""


class JobErrorRead(BaseModel):
    """Why a job failed."""

    code: str
    detail: str
    hint: str | None = None


class AnyJobRead(ReadModel):
    """What is shown of a job of any kind, in any collection."""

    id: str
    state: State
    dataset_id: str
    priority: int
    tags: dict[str, str]
    callback: str | None
    attempt: int
    """How often a worker has begun or resumed it."""
    created_at: Timestamp
    started_at: Timestamp | None
    finished_at: Timestamp | None
    elapsed_s: float
    """Time spent on it in all attempts."""
    error: JobErrorRead | None

    @classmethod
    def of(cls, job: Job) -> Self:
        return cls.model_validate(cls.values(job))

    @classmethod
    def values(cls, job: Job) -> dict[str, Any]:
        """The fields, each from the job or its result; subclasses add what they compute."""
        result = job.result or {}
        return {name: getattr(job, name, result.get(name)) for name in cls.model_fields}


class KindRead(AnyJobRead):
    """A job in the collection of its kind; `/v1/jobs/{id}` shows it too."""

    fraction: float
    """Share of the work that is done, from 0 to 1."""

    @classmethod
    def values(cls, job: Job) -> dict[str, Any]:
        return super().values(job) | {"fraction": job.progress.get("fraction", 0.0)}


class JobSummary(AnyJobRead):
    """A job as it is now, without its metrics and certificate."""

    kind: str
    stop_reason: str | None
    """`converged`, `gap-reached`, `patience`, `max-epochs`, `max-updates`, `stalled`,
    `time-budget`, `canceled` or `error`."""
    converged: bool | None
    cancel_requested: bool
    pause_requested: bool
    """A worker is about to save the job and to pause it."""
    progress: ProgressRead
    spec: dict[str, Any]
    """The request with all defaults; it can be sent again."""
    dataset_digest: str
    model: JobModelRead | None
    epochs: int | None
    updates: int | None
    """Parameter updates made."""
    warnings: list[str]
    notes: list[str]
    """What was chosen on the way, such as the solver."""

    @classmethod
    def values(cls, job: Job) -> dict[str, Any]:
        values = super().values(job)
        made = {"model": JobModelRead.of(job), "notes": values["notes"] or []}
        return {**values, **made, "progress": shown(job)}


class JobRead(JobSummary):
    """A job as it is now."""

    metrics: dict[str, Any] | None
    """By part of the data (`train`, and `validation` if there is a validation set): accuracy,
    confusion matrix (rows are the true classes), precision, recall and F1 of each class. Of models
    of numbers `mae`, `rmse`, `r2`, `median_absolute_error` and `share_inside_epsilon`, their
    `intervals` with 95 % confidence, the same of a `baseline` that always predicts the training
    median or mean, and in `validation` what prediction intervals are worth (`conformal`). With
    folds, `validation` is of all rows, each predicted by the training that did not see it, and has
    `folds`, and mean and standard deviation (divisor k - 1) of the single folds: `accuracy_mean`
    and `accuracy_std`, of numbers `mae_mean` and `mae_std`. `trained_rows`: validation rows that
    are equal to training rows. If rows belong together, `n_groups`, or `n_distinct` of copies, and
    of classes `n_effective`: as many independent rows would say as much about the accuracy
    (`group_sums` has sums over the groups)."""
    audit: Audit
    """What was found in the dataset and by the training, without what `mute` names."""
    certificate: dict[str, Any] | None
    """What is proven about the model's cost, in the pair of classes with the largest gap: `primal`,
    `dual` (a lower bound of the lowest possible cost), `gap`, `relative_gap` (gap / primal),
    `excess` (gap / dual, null without a bound), `status` (`certified`: the gap that was asked for
    is proven, `rough`: at most 10 % above, `open`), `kernel` (`approximated` if features stand for
    a kernel), `exact` (the values of the model with the kernel itself, if they are known),
    `summary` (a sentence), and `pairs`."""
    search: dict[str, Any] | None
    """What `auto` compared, or has compared so far, null if nothing: `summary` (a sentence),
    `score` (accuracy, of numbers `mae`; null until the end) that is expected on new rows, and the
    settings `tried` with their scores. Metrics of `folds` are of the setting that was chosen on
    these rows, and too good: take `score`."""

    @classmethod
    def values(cls, job: Job) -> dict[str, Any]:
        values = super().values(job)
        return {**values, "search": values["search"] or job.progress.get("search")}


class JobPage(ReadModel):
    """Jobs, newest first, without their metrics and certificates."""

    jobs: list[JobSummary]
    next_page_token: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """How a collection shows its jobs."""

    model: type[BaseModel]
    """The reply for one job."""
    read: Callable[[Job], BaseModel]
    """Makes it."""
    item: type[AnyJobRead]
    """A job in the list."""
    page: type[BaseModel]
    """Has a list of items under the collection's name."""
    description: str
    problems: tuple[str, ...] = ()
    """That `read` raises."""


JOB_FORM = Form(
    model=JobRead,
    read=JobRead.of,
    item=JobSummary,
    page=JobPage,
    description="State, progress and, once it has ended, metrics, certificate and model.",
)


class TraceRead(ReadModel):
    """A training's curve as a table: cost and errors against epochs and time."""

    columns: list[str]
    rows: list[list[Any]]
    """In the order of `columns`: by pair of classes, then by time."""


class EventRead(ReadModel):
    """An event of a job; the same three fields as in the stream."""

    id: int
    """Increases from event to event of a job, not always by one."""
    event: EventKind
    """`state`, `progress`, `checkpoint`, `warning` or `end`."""
    data: dict[str, Any]
    """`at`, the time, and by kind of event: the state and the requests to cancel or pause, the
    progress, the warning's `message`, or how the job ended."""

    @classmethod
    def of(cls, event: Event) -> Self:
        return cls(id=event.number, event=event.kind, data=event.dated)


class EventPage(ReadModel):
    """Events in the order they happened."""

    events: list[EventRead]
    next_page_token: str | None
    """Null on the last page; later events come after `Last-Event-ID` with the last `id`."""


class DeliveryRead(ReadModel):
    """What became of a callback."""

    id: str
    """The same in every attempt, as `webhook-id`."""
    event: str
    """`job.succeeded`, `job.failed` or `job.canceled`."""
    url: str
    state: Literal["waiting", "delivered", "failed"]
    """`failed` after a day, or after the reply 410."""
    attempts: int
    created_at: Timestamp
    next_attempt_at: Annotated[Timestamp | None, Field(validation_alias="next_at")]
    """At the latest, while it waits."""
    delivered_at: Timestamp | None
    last_error: str | None
    """Why the last attempt did not succeed."""


class DeliveryList(ReadModel):
    """The deliveries of a job, the newest first."""

    deliveries: list[DeliveryRead]
