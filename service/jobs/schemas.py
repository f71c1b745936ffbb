"""What callers send and get: jobs, their progress and their traces."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from annotated_types import Ge, Gt, Le, Lt
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    Tag,
    TypeAdapter,
    ValidationInfo,
)
from pydantic_core import PydanticCustomError

from service.jobs.events import Event, Kind
from service.jobs.job import Job
from service.jobs.lifecycle import State
from service.models.aliases import LATEST
from service.web.labels import Labels
from service.web.names import INVALID_NAME, NAME, AliasName, ModelName
from service.web.times import rfc3339
from svm.calibration import CalibrationName
from svm.features import AnyFeatures, Identity
from svm.hyperparameters import Moderate
from svm.multiclass import MulticlassName
from svm.pipeline import Pipeline
from svm.scaling import ScalingName
from svm.solvers import AnyChoice
from svm.stopping import Stopping

VERSION = rf"^{NAME.pattern}/([1-9][0-9]{{0,8}}|{NAME.pattern})$"
MAX_SEED = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly."""

READ = ConfigDict(frozen=True, use_attribute_docstrings=True)
WRITE = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, strict=True)


def _not_latest(alias: str) -> str:
    if alias == LATEST:
        message = "`latest` is always the highest version; choose another name for an alias"
        raise PydanticCustomError(INVALID_NAME, message)
    return alias


class _MadeOnce:
    """The schema of a union whose members tell themselves apart by `name`, for all models that have
    one: Pydantic would make that of all solvers, which takes 0.1 s, for each anew."""

    def __init__(self, union: Any) -> None:
        self._schema = TypeAdapter(Annotated[union, Field(discriminator="name")]).core_schema

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        # Pydantic takes over the definitions in the schema of a type, but not of an annotation.
        return self._schema if source is self else handler.generate_schema(self)


SolverChoice = Annotated[AnyChoice, _MadeOnce(AnyChoice)]
FeaturesChoice = Annotated[AnyFeatures, _MadeOnce(AnyFeatures)]
NewAlias = Annotated[AliasName, AfterValidator(_not_latest)]
"""An alias that can be set."""
ClassWeight = Literal["balanced"] | dict[str, Moderate]


class HeldBack(BaseModel):
    """Rows held back from the training, to measure the model on."""

    model_config = WRITE

    fraction: Annotated[float, Gt(0), Lt(1)]
    """Share of the rows that is held back."""
    stratify: bool = True
    """Hold back the same share of every class."""


class Folds(BaseModel):
    """A model trained on all rows, measured by others: each trained on all folds but one."""

    model_config = WRITE

    folds: Annotated[int, Ge(2), Le(100)]
    """Parts of the rows, of one size and with the same share of every class. Beside the model's
    training there is one for each, from zero also where the model begins at another one; a time
    budget is shared among them."""


def _kind_of_validation(value: object) -> str:
    # Not the names of fields, which would be looked for in the body when an error is told.
    folds = "folds" in value if isinstance(value, dict) else isinstance(value, Folds)
    return "cross-validation" if folds else "hold-out"


Validation = Annotated[
    Annotated[HeldBack, Tag("hold-out")] | Annotated[Folds, Tag("cross-validation")],
    Discriminator(_kind_of_validation),
]


def _held_out(
    calibration: CalibrationName | None, fields: ValidationInfo
) -> CalibrationName | None:
    if calibration is not None and fields.data.get("validation") is None:
        raise ValueError("calibration needs rows held back: give `validation` a fraction or folds")
    return calibration


class JobCreate(BaseModel):
    """A training: which data, which solver, when to stop, and what becomes of the model."""

    model_config = WRITE

    dataset_id: Annotated[str, Field(pattern=r"^(ds_[0-9a-f]{32}|latest)$")]
    """The dataset to train on; `latest` is the one uploaded last."""
    model_name: ModelName
    """The model that gets a new version."""
    solver: SolverChoice
    """How to train; `GET /v1/solvers` explains each. `auto` takes a solver by the data; the job's
    warnings say which and why, the `spec` of the model's version shows it."""
    scaling: ScalingName = "none"
    """Scaling of the features, learnt from the training rows and kept in the model."""
    features: FeaturesChoice = Identity()
    """What the solver sees instead of the scaled features."""
    multiclass: MulticlassName = "one-vs-one"
    """How several classes become binary problems: one for each pair, or one for each class."""
    class_weight: ClassWeight | None = None
    """Weights of the hinge losses by class: `balanced`, or a number for some labels (as text), 1
    for the others."""
    stopping: Stopping = Stopping()
    """When to stop; nothing given means a relative duality gap of 1e-3 or 1,000 epochs."""
    validation: Validation | None = None
    """How to measure the model on rows that it was not trained on: some `fraction` of the rows is
    held back, or they are dealt into `folds`."""
    calibration: Annotated[CalibrationName | None, AfterValidator(_held_out)] = None
    """Have the model give probabilities, learnt from the scores of the rows held back, with folds
    from those of every row by the training that did not see it: by a sigmoid, for which hundreds
    of rows are enough, or by steps, which take thousands."""
    priority: Annotated[int, Ge(-100), Le(100)] = 0
    """Jobs with a higher one are taken first."""
    warm_start_from: Annotated[str, Field(pattern=VERSION, examples=["iris/3"])] | None = None
    """A model version to begin at instead of at zero, such as `iris/3`, or an alias, such as
    `iris/latest`. It must have the same features, classes and settings; `GET /v1/solvers` says
    what a solver takes over from which others."""
    seed: Annotated[int, Ge(0), Le(MAX_SEED)] | None = None
    """Decides every random choice; drawn, and shown in `spec`, where it is not given."""
    set_alias: NewAlias | None = None
    """An alias that shall point to the new version, once the job has succeeded."""
    labels: Labels = Field(default_factory=dict)
    """Your own remarks, to find the job by."""

    def pipeline(self) -> Pipeline:
        """What to train, without the data and the limits of this service."""
        return Pipeline(
            solver=self.solver,
            scaling=self.scaling,
            features=self.features,
            multiclass=self.multiclass,
            class_weight=self.class_weight,
            stopping=self.stopping.resolved(),
        )

    def normalized(
        self, dataset_id: str, seed: int, begins_at: tuple[str, int] | None = None
    ) -> dict[str, Any]:
        """The same request as plain JSON with all defaults written out."""
        values = {
            "dataset_id": dataset_id,
            "seed": seed,
            "stopping": self.stopping.resolved(),
            "warm_start_from": begins_at and "{}/{}".format(*begins_at),
        }
        return self.model_copy(update=values).model_dump(mode="json", by_alias=True)

    def taken(self, solver: AnyChoice) -> dict[str, Any]:
        """The same as plain JSON, with the solver that was taken where this asks for `auto`."""
        return self.model_copy(update={"solver": solver}).model_dump(mode="json", by_alias=True)


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


class JobCancel(BaseModel):
    """How to end a job before its time."""

    model_config = WRITE

    keep_model: bool = False
    """Register what was learnt so far as a model version."""


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
