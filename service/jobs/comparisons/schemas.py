"""What callers send and get: comparisons."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from annotated_types import Ge, Le, MinLen
from pydantic import BaseModel, Field, model_validator

from service.jobs.core.job import Job
from service.jobs.read_schemas import (
    READ,
    WRITE,
    JobErrorRead,
    JobModelRead,
    KindCreate,
    KindRead,
    TraceRead,
)
from service.jobs.training.schemas import (
    MAX_SEED,
    ClassWeight,
    FeaturesChoice,
    HeldBack,
    NewAlias,
    SolverChoice,
    Validation,
)
from service.web.http.names import ModelName
from svm.hyperparameters import Moderate, Positive
from svm.model.multiclass import MulticlassName
from svm.stopping import Stopping
from svm.transforms.features import Identity
from svm.transforms.scaling import ScalingName

RankBy = Literal["accuracy", "balanced_accuracy", "macro_f1"]


class EntryCreate(BaseModel):
    """One training to compare; what it leaves out is as the comparison says."""

    model_config = WRITE

    solver: SolverChoice
    scaling: ScalingName | None = None
    features: FeaturesChoice | None = None
    multiclass: MulticlassName | None = None
    class_weight: ClassWeight | None = None
    stopping: Stopping | None = None


class Grid(BaseModel):
    """Every combination of these: what an axis names takes the place of what the solver says.

    An axis that a solver has no use for does not multiply its entries: γ is that of the solver's
    kernel or, where the solver has none, of the features.
    """

    model_config = WRITE

    solver: Annotated[list[SolverChoice], MinLen(1)]
    C: Annotated[list[Moderate], MinLen(1)] | None = None
    lambda_: Annotated[list[Moderate], MinLen(1)] | None = Field(None, alias="lambda")
    gamma: Annotated[list[Positive | Literal["median"]], MinLen(1)] | None = None
    features: Annotated[list[FeaturesChoice], MinLen(1)] | None = None
    scaling: Annotated[list[ScalingName], MinLen(1)] | None = None

    @model_validator(mode="after")
    def _one_regularization(self) -> Self:
        if self.C is not None and self.lambda_ is not None:
            raise ValueError("give an axis for C or for lambda, not both")
        return self


class ComparisonCreate(KindCreate):
    """The request for a job, with several `specs`, or a `grid`, in place of one solver."""

    specs: list[EntryCreate] = Field(default_factory=list)
    """Trainings to compare, each as far as it differs from what stands below."""
    grid: Grid | None = None
    """And every combination of these."""
    scaling: ScalingName = "none"
    """Scaling of the features, learnt from the training rows and kept in the model."""
    features: FeaturesChoice = Identity()
    """What the solvers see instead of the scaled features."""
    multiclass: MulticlassName = "one-vs-one"
    """How several classes become binary problems: one for each pair, or one for each class."""
    class_weight: ClassWeight | None = None
    """Weights of the hinge losses by class: `balanced`, or a number for some labels (as text), 1
    for the others."""
    stopping: Stopping = Stopping()
    """When to stop each training; nothing given means a relative duality gap of 1e-3 or 1,000
    epochs."""
    validation: Validation = HeldBack(fraction=0.2)
    """The same rows for all: some `fraction` of them is held back from every training, or they are
    dealt into `folds`, and every entry is trained once for each and once more on all rows."""
    rank_by: RankBy = "accuracy"
    """What decides, on the rows that a training did not see."""
    warm_starts: bool = True
    """Of entries that differ only in C or λ, let solvers that find the optimum itself begin where
    the one with the next larger λ ended. False where curves of cost against time shall all begin
    at zero."""
    seed: Annotated[int, Ge(0), Le(MAX_SEED)] | None = None
    """Decides every random choice; drawn, and shown in `spec`, where it is not given."""
    model_name: ModelName | None = None
    """The model that the best entry becomes a version of; none is kept without."""
    set_alias: NewAlias | None = None
    """An alias that shall point to that version."""

    @model_validator(mode="after")
    def _something_to_compare(self) -> Self:
        if not self.specs and self.grid is None:
            raise ValueError("there is nothing to compare: give `specs` or a `grid`")
        if self.set_alias is not None and self.model_name is None:
            raise ValueError("`set_alias` needs a `model_name`, which keeps the best model")
        return self


class ScoresRead(BaseModel):
    """How well an entry does on some rows."""

    model_config = READ

    accuracy: float
    balanced_accuracy: float
    macro_f1: float


class ValidationScoresRead(ScoresRead):
    """On the rows that were held back; with folds, on all rows, each predicted by the training that
    did not see it."""

    folds: list[float] | None
    """Of folds, the accuracy of each."""


class CostRead(BaseModel):
    """The certificate: primal value, dual bound and gap in the common form λ/2‖w‖² + mean hinge,
    of the pair of classes with the largest relative gap."""

    model_config = READ

    primal: float
    dual: float
    gap: float
    relative_gap: float
    solver_objective: float
    """The primal value in the constants that the solver states."""


EntryState = Literal["waiting", "running", "finished", "failed"]


class EntryRead(BaseModel):
    """One training, or with folds some, and what came out."""

    model_config = READ

    number: int
    """Its place in the request, from 1: `specs` first, then the combinations of the `grid`."""
    rank: int | None
    """1 is the best; null until it has finished."""
    state: EntryState
    spec: dict[str, Any]
    """As `POST /v1/jobs` takes it, to train the like again."""
    score: float | None
    """What `rank_by` asks for, on the rows held back."""
    train: ScoresRead | None
    validation: ValidationScoresRead | None
    objective: int | None
    """The number of its objective in `objectives`."""
    certificate: CostRead | None
    stop_reason: str | None
    converged: bool | None
    epochs: int | None
    updates: int | None
    n_support_vectors: int | None
    size_bytes: int | None
    """Of the model in memory."""
    warm_start_from: int | None
    """The entry whose end it began at."""
    elapsed_s: float | None
    """Time of its trainings, those of folds included."""
    cpu_s: float | None
    """Processor time of the same, of all threads."""
    trace: TraceRead | None
    """Primal, dual and gap against seconds, as the mean over all binary problems: every point at
    least a tenth of its time after the one before."""
    warnings: list[str]
    error: JobErrorRead | None
    """Why it failed; the comparison goes on without it."""


class ObjectiveRead(BaseModel):
    """One and the same function, which some of the entries minimize: equal λ, rows as solvers see
    them, weights and treatment of the intercept. Only their costs can be compared."""

    model_config = READ

    number: int
    regularization: float
    """λ; of several binary problems that of the first."""
    entries: list[int]
    """Numbers of the entries, by the cost they reached."""
    dual: float
    """The best lower bound that any of them found: it holds for all."""
    excess: list[float]
    """How far each may be above the optimum at most, relative to its cost: in the order of
    `entries`."""


class ComparisonSummary(KindRead):
    """A comparison as lists show it."""

    model: JobModelRead | None
    """The version that the best entry became."""
    best: int | None
    """The number of the best entry."""
    score: float | None
    """Its score."""
    spec: dict[str, Any]
    """The request with all defaults written out; it can be sent again as it is."""

    @classmethod
    def values(cls, job: Job) -> dict[str, Any]:
        result = job.result or {}
        model = None
        if job.model_name is not None and job.model_version is not None:
            model = JobModelRead(name=job.model_name, version=job.model_version)
        return super().values(job) | {
            "model": model,
            "best": result.get("best"),
            "score": result.get("score"),
            "spec": job.spec,
        }


class OutcomeRead(BaseModel):
    """What a comparison has found so far."""

    model_config = READ

    entries: list[EntryRead]
    """The best first; those without a rank last, in the order of the request."""
    objectives: list[ObjectiveRead]


class ComparisonRead(ComparisonSummary):
    """A comparison as it is now: a job like any other, whose results grow while it runs."""

    dataset_digest: str
    entries: list[EntryRead]
    """The best first; those without a rank last, in the order of the request."""
    objectives: list[ObjectiveRead]
    """Which entries minimize the same function."""


class ComparisonPage(BaseModel):
    """Comparisons, newest first."""

    model_config = READ

    comparisons: list[ComparisonSummary]
    next_page_token: str | None


class EntryPlanRead(BaseModel):
    """One entry of a comparison that is only planned."""

    model_config = READ

    number: int
    spec: dict[str, Any]
    memory_bytes: int | None
    """What a worker needs at most; null where the entry cannot be trained."""
    rows_in_files: bool | None
    """Whether the rows stay in files."""
    error: JobErrorRead | None
    """Why it cannot be trained."""


class ComparisonPlanRead(BaseModel):
    """What a comparison would do."""

    model_config = READ

    trainings: int
    """Of all entries together, those of folds included."""
    entries: list[EntryPlanRead]
