"""What callers send and get: comparisons."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from annotated_types import Ge, MinLen
from pydantic import Field, model_validator

from service.common.names import ModelName
from service.common.schemas import ReadModel, WriteModel
from service.datasets.dataset import Dataset
from service.errors import InvalidContent
from service.jobs.collection.schemas import JobErrorRead, JobModelRead, KindRead, TraceRead
from service.jobs.core.job import Job
from service.jobs.training import schemas as training
from service.rows.spec import TargetKind
from svm.encoding.encoder import Encoding
from svm.hyperparameters import Moderate
from svm.kernel.kernels import Gamma
from svm.model.multiclass import MulticlassName
from svm.solvers import AnyChoice
from svm.stopping import Stopping
from svm.transforms.scaling import ScalingName

RankBy = (
    Literal["accuracy", "balanced_accuracy", "macro_f1"]
    | Literal["mae", "rmse", "r2", "median_absolute_error"]
)


class EntryCreate(WriteModel):
    """One training to compare; the comparison gives the fields that it leaves out."""

    solver: training.SolverChoice
    encoding: Encoding | None = None
    scaling: ScalingName | None = None
    features: training.FeaturesChoice | None = None
    multiclass: MulticlassName | None = None
    class_weight: training.ClassWeight | None = None
    stopping: Stopping | None = None


class Grid(WriteModel):
    """Every combination of these values; an axis replaces the value in the solver.

    An axis that a solver does not use does not multiply its entries: γ is that of the solver's
    kernel or, if the solver has none, of the features.
    """

    solver: Annotated[list[training.SolverChoice], MinLen(1)]
    C: Annotated[list[Moderate], MinLen(1)] | None = None
    lambda_: Annotated[list[Moderate], MinLen(1)] | None = Field(None, alias="lambda")
    gamma: Annotated[list[Gamma], MinLen(1)] | None = None
    features: Annotated[list[training.FeaturesChoice], MinLen(1)] | None = None
    scaling: Annotated[list[ScalingName], MinLen(1)] | None = None

    @model_validator(mode="after")
    def _one_regularization(self) -> Self:
        if self.C is not None and self.lambda_ is not None:
            raise ValueError("give an axis for C or for lambda, not both")
        return self


class Sizes(WriteModel):
    """Train every entry on parts of the data of these sizes, one after the other."""

    rows: Annotated[list[Annotated[int, Ge(2)]], MinLen(1)] | None = None
    """Counts of training rows: every part has the same share of each class, and is in the next
    larger one."""
    columns: Annotated[list[Annotated[int, Ge(1)]], MinLen(1)] | None = None
    """Counts of features: the first ones, in the order of the data."""

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.rows is None) == (self.columns is None):
            raise ValueError("give counts of `rows` or of `columns`, one of both")
        return self


class ComparisonCreate(training.TrainingOptions):
    """The request for a job, with several `specs`, or a `grid`, in place of one solver."""

    specs: list[EntryCreate] = Field(default_factory=list)
    """Trainings to compare; each needs only the fields that differ from those below."""
    grid: Grid | None = None
    """And every combination of these."""
    validation: training.Validation = training.ValidationSplit(fraction=0.2)
    """The same for all entries: a `fraction` of the rows as a validation set, or cross-validation
    with `folds`, which trains every entry once for each fold."""
    refit: Literal["best", "all"] = "best"
    """With folds, which entries are trained on all rows, too: the best, if `model_name` keeps it,
    or all. An entry shows that training if all have one, else that of the first fold."""
    sizes: Annotated[Sizes | None, Field(examples=[{"rows": [100, 1000, 10000]}])] = None
    """Train every entry on parts of the training rows or of the features, to measure how its time
    grows. All trainings begin at zero, are measured on the same validation set, and no model is
    kept."""
    rank_by: RankBy | None = None
    """The score that ranks the entries, on rows that a training did not see: one of the first three
    for classes, by default `accuracy`; one of the others for numbers, by default `mae`."""
    warm_starts: bool = True
    """If entries differ only in C or λ, solvers that converge to the optimum begin with the model
    of the next larger λ. False: all trainings begin at zero, and so do their curves."""
    model_name: ModelName | None = None
    """The best entry becomes a version of this model; without a name no model is kept."""

    @property
    def target_kind(self) -> TargetKind:
        """What all entries take the labels for. Raises InvalidContent if they differ."""
        kinds = set(map(training.kind_of_target, self._solvers))
        if len(kinds) > 1:
            message = "some entries predict classes and others numbers, by their `loss`: give all "
            message += "of them one for classes, or one for numbers"
            raise InvalidContent.at("/specs" if self.specs else "/grid", "invalid-field", message)
        return kinds.pop()

    @property
    def _solvers(self) -> list[AnyChoice]:
        return [*(spec.solver for spec in self.specs), *(self.grid.solver if self.grid else ())]

    def with_loss(self, dataset: Dataset) -> Self:
        """This request with the loss, for entries that name none, that the dataset asks for."""
        solvers = iter([training.loss_for(solver, dataset) for solver in self._solvers])
        specs = [spec.model_copy(update={"solver": next(solvers)}) for spec in self.specs]
        grid = self.grid and self.grid.model_copy(update={"solver": list(solvers)})
        return self.model_copy(update={"specs": specs, "grid": grid})

    def on(self, dataset: Dataset) -> Self:
        validation = training.stratified(self.validation, dataset)
        return super().on(dataset).model_copy(update={"validation": validation})

    @property
    def ranking(self) -> RankBy:
        """The `rank_by` of a request that is checked."""
        return self.rank_by or "accuracy"

    @model_validator(mode="after")
    def _something_to_compare(self) -> Self:
        if not self.specs and self.grid is None:
            raise ValueError("there is nothing to compare: give `specs` or a `grid`")
        if self.sizes is not None and self.model_name is not None:
            raise ValueError("with `sizes` no model is kept: leave out `model_name`")
        if self.set_alias is not None and self.model_name is None:
            raise ValueError("`set_alias` needs a `model_name`, which keeps the best model")
        return self


class ScoresRead(ReadModel):
    """Scores of an entry on some rows."""

    accuracy: float
    balanced_accuracy: float
    macro_f1: float


class ErrorScoresRead(ReadModel):
    """Scores of an entry that predicts numbers, on some rows: means of absolute and of squared
    errors, R² (null if all numbers are equal), and the median of absolute errors."""

    mae: float
    rmse: float
    r2: float | None
    median_absolute_error: float


class ValidationErrorsRead(ErrorScoresRead):
    """On the validation set; with folds, on all rows, each predicted by the training that did not
    see it."""

    folds: list[float] | None
    """Of folds, the `mae` of each."""


class BehindRead(ReadModel):
    """An entry beside the best one: the difference of their errors on the same rows."""

    difference: float
    """By how much its `mae`, or share of wrong rows, is larger."""
    interval: list[float] | None
    """Of the difference, with 95 % confidence, from the differences of single rows or, if rows
    belong together, of groups."""
    tie: bool
    """Whether it is not known to be larger: the interval begins at 0 or below it."""


class ValidationScoresRead(ScoresRead):
    """On the validation set; with folds, on all rows, each predicted by the training that did not
    see it."""

    folds: list[float] | None
    """Of folds, the accuracy of each."""
    n_effective: float | None = None
    """As in metrics of jobs: if rows belong together."""


class CostRead(ReadModel):
    """The certificate: primal value, dual bound and gap in the common form λ/2‖w‖² + mean hinge,
    of the pair of classes with the largest relative gap."""

    primal: float
    dual: float
    gap: float
    relative_gap: float
    excess: float | None
    """Gap over dual: by what share the cost is above the lowest possible one at most."""
    status: str
    """`certified`, `rough` or `open`, as of a job."""
    summary: str
    """What is proven, as a sentence."""
    solver_objective: float
    """The primal value in the constants that the solver states."""


EntryState = Literal["waiting", "running", "finished", "failed"]


class EntryRead(ReadModel):
    """One training, or with folds several, and the result. With folds, the fields about a training
    (`train`, `certificate` … `size_bytes`, `trace`) are those of the first fold, unless `refit` is
    `all`: then of the training on all rows."""

    number: int
    """Its place in the request, from 1: `specs` first, then the combinations of the `grid`."""
    rank: int | None
    """1 is the best; null until it has finished."""
    state: EntryState
    spec: dict[str, Any]
    """A body of `POST /v1/jobs` for the same training; with `sizes` for one on all of the data."""
    rows: int | None = None
    """With `sizes`, the training rows of this entry."""
    columns: int | None = None
    """With `sizes`, the features of this entry."""
    score: float | None
    """The score named by `rank_by`, on the validation set."""
    train: ScoresRead | ErrorScoresRead | None
    validation: ValidationScoresRead | ValidationErrorsRead | None
    behind: BehindRead | None = None
    """Once the comparison has ended; null for the best one, and for classes unless ranked by
    accuracy."""
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
    """The entry with whose model it began."""
    elapsed_s: float | None
    """Time of its trainings: those of folds, and that on all rows."""
    cpu_s: float | None
    """Processor time of the same, of all threads."""
    trace: TraceRead | None
    """Primal, dual and gap against seconds, as the mean over all binary problems: every point at
    least a tenth of its time after the one before."""
    warnings: list[str]
    notes: list[str] = Field(default_factory=list)
    error: JobErrorRead | None
    """Why it failed; the comparison continues without it."""


class ObjectiveRead(ReadModel):
    """A function that several entries minimize: equal λ, prepared rows, weights and treatment of
    the intercept. Only costs of the same function can be compared."""

    number: int
    regularization: float
    """λ; of several binary problems that of the first."""
    entries: list[int]
    """Numbers of the entries, by the cost they reached."""
    dual: float
    """The best lower bound of all of them: it is valid for each."""
    excess: list[float]
    """Upper bound of each one's distance from the optimum, relative to its cost, in the order of
    `entries`."""


class ComparisonSummary(KindRead):
    """A comparison as lists show it."""

    model: JobModelRead | None
    """The version that the best entry became."""
    best: int | None
    """The number of the best entry."""
    score: float | None
    """Its score."""
    trained_rows: int | None
    """Once it has ended: how many validation rows are equal to training rows, labels included."""
    spec: dict[str, Any]
    """The request with all defaults written out; it can be sent again as it is."""

    @classmethod
    def values(cls, job: Job) -> dict[str, Any]:
        return super().values(job) | {"model": JobModelRead.of(job)}


class ComparisonResults(ReadModel):
    """The results of a comparison so far."""

    entries: list[EntryRead]
    """The best first; those without a rank last, in the order of the request."""
    objectives: list[ObjectiveRead]


class ComparisonRead(ComparisonSummary):
    """A comparison as it is now; its results grow while it runs."""

    dataset_digest: str
    entries: list[EntryRead]
    """The best first; those without a rank last, in the order of the request."""
    objectives: list[ObjectiveRead]
    """Which entries minimize the same function."""


class ComparisonPage(ReadModel):
    """Comparisons, newest first."""

    comparisons: list[ComparisonSummary]
    next_page_token: str | None


class EntryPlanRead(ReadModel):
    """One entry of a comparison that is only planned."""

    number: int
    spec: dict[str, Any]
    rows: int | None = None
    """With `sizes`, the training rows of this entry."""
    columns: int | None = None
    """With `sizes`, the features of this entry."""
    memory_bytes: int | None
    """Peak memory of a worker; null if the entry cannot be trained."""
    rows_in_files: bool | None
    """Whether the rows stay in files."""
    error: JobErrorRead | None
    """Why it cannot be trained."""


class ComparisonPlanRead(ReadModel):
    """The plan of a comparison."""

    trainings: int
    """Of all entries together, those of folds and that of the model included."""
    entries: list[EntryPlanRead]
