"""What callers send: trainings, and how to end them."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self, cast

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    Tag,
    TypeAdapter,
    ValidationInfo,
)
from pydantic_core import PydanticCustomError

from service.common.figures import first_of
from service.common.names import INVALID_NAME, NAME, AliasName, DatasetReference, ModelName
from service.common.schemas import ShownAs, WriteModel
from service.datasets.dataset import Dataset
from service.datasets.schemas import Gap
from service.errors import MAX_VALUE_CHARACTERS, InvalidContent
from service.jobs.collection.schemas import KindCreate
from service.models.versions import LATEST
from service.rows.spec import Label, TargetKind
from svm.audit.findings import FindingName
from svm.encoding.encoder import Encoding
from svm.hyperparameters import DEFAULT_C, Moderate
from svm.model.calibration import CalibrationName
from svm.model.multiclass import MulticlassName, label_name
from svm.model.pipeline import Pipeline
from svm.model.target import TargetScale
from svm.solvers import CHOICES, AnyChoice
from svm.stopping import Stopping
from svm.training.candidates import FEWEST_ROWS, MOST_CLASSES
from svm.training.curve import Trace
from svm.transforms.features import AnyFeatures, Identity
from svm.transforms.scaling import ScalingName

VERSION = rf"^{NAME.pattern}/([1-9][0-9]{{0,8}}|{NAME.pattern})$"
MAX_JOBS = 1000
"""In one request."""
MAX_SEED = 2**53 - 1
"""The largest integer that every JSON reader keeps exactly."""
UNEVEN = 100.0
"""Columns whose largest |values| differ more than this many times are uneven."""


def _not_latest(alias: str) -> str:
    if alias == LATEST:
        message = "`latest` is always the highest version; choose another name for an alias"
        raise PydanticCustomError(INVALID_NAME, message)
    return alias


class _MadeOnce:
    """The schema of a union that is discriminated by `name`, made once and shared by all models:
    Pydantic would make that of all solvers, which takes 0.1 s, for each model again."""

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


Classes = Annotated[list[Label], MinLen(2)] | None


class ValidationSplit(WriteModel):
    """A validation set: rows that are not trained on, to measure the model on."""

    fraction: Annotated[float, Gt(0), Lt(1)]
    """Share of the rows in the validation set."""
    stratify: bool | None = None
    """Take the same share of every class. Default: true; of a numeric target, which has no classes,
    false."""
    gap: Gap = 0.0
    """Least time between training and validation rows, if they have times: of dates in days."""


class Folds(WriteModel):
    """Cross-validation: the model is trained on all rows, and measured by trainings on all but one
    fold."""

    folds: Annotated[int, Ge(2), Le(100)]
    """Parts of the rows, of equal size and with the same share of every class; of a numeric target
    at random. Each fold is one
    more training. It begins at zero even if the model's training does not; all trainings share a
    time budget."""
    gap: Gap = 0.0
    """Least time between training and validation rows, if they have times: of dates in days."""


class ValidationDataset(WriteModel):
    """Another dataset as the validation set; the model is trained on all rows of the first one."""

    dataset_id: DatasetReference
    """The dataset; `latest` is the last upload. It has the columns of the training data, which are
    matched by name if they have names, and no other classes. Columns that the training data does
    not have are ignored."""


def _kind_of_split(value: object) -> str:
    # Not the names of fields, which would be looked up in the body for an error.
    folds = "folds" in value if isinstance(value, dict) else isinstance(value, Folds)
    return "cross-validation" if folds else "hold-out"


def _kind_of_validation(value: object) -> str:
    given = value if isinstance(value, dict) else {}
    if "dataset_id" in given or isinstance(value, ValidationDataset):
        return "other-data"
    return _kind_of_split(value)


Validation = Annotated[
    Annotated[ValidationSplit, Tag("hold-out")] | Annotated[Folds, Tag("cross-validation")],
    Discriminator(_kind_of_split),
]
"""On rows of the same dataset."""
AnyValidation = Annotated[
    Annotated[ValidationSplit, Tag("hold-out")]
    | Annotated[Folds, Tag("cross-validation")]
    | Annotated[ValidationDataset, Tag("other-data")],
    Discriminator(_kind_of_validation),
]


def _held_out(
    calibration: CalibrationName | None, fields: ValidationInfo
) -> CalibrationName | None:
    if calibration is not None and fields.data.get("validation") is None:
        raise ValueError(
            "calibration needs a validation set: give `validation` a fraction, folds or a dataset"
        )
    return calibration


def _traceable(trace: Trace | None, fields: ValidationInfo) -> Trace | None:
    solver = fields.data.get("solver")
    if trace is not None and solver is not None:
        trace.check(solver)
    return trace


def default_scaling(dataset: Dataset) -> ScalingName:
    """If the caller names none. Sparse data keeps its zeros."""
    if not dataset.sparse:
        return "standardize"
    return "none" if uneven_columns(dataset) is None else "max-abs"


def uneven_columns(dataset: Dataset) -> list[list[Any]] | None:
    """The columns with the smallest and the largest |value|, and these values, if these differ more
    than 100-fold. Columns of texts or of zeros do not count."""
    extremes: list[list[Any]] | None = dataset.statistics.get("extremes")
    if extremes is None or extremes[1][1] / UNEVEN <= extremes[0][1]:
        return None
    return extremes


def loss_for(solver: AnyChoice, dataset: Dataset) -> AnyChoice:
    """The solver; if it names no loss, with that for a numeric target or for texts."""
    pipeline = Pipeline(solver=solver)
    if dataset.target_kind == "numbers":
        return pipeline.for_numbers().solver
    return pipeline.for_texts().solver if dataset.text_columns else solver


def stratified(validation: Any, dataset: Dataset) -> Any:
    """How to measure, with what follows from the dataset."""
    if not isinstance(validation, ValidationSplit) or validation.stratify is not None:
        return validation
    return validation.model_copy(update={"stratify": dataset.target_kind != "numbers"})


def kind_of_target(solver: AnyChoice) -> TargetKind:
    """What a training with this solver takes labels for."""
    return "numbers" if solver.predicts_numbers else "classes"


def classes_in(dataset: Dataset, classes: Sequence[Label] | None) -> list[Label] | None:
    """The labels of the dataset that a caller named, sorted; each as itself or as text.

    Raises InvalidContent (`unknown-class`, `single-class`).
    """
    if classes is None:
        return None
    if dataset.target_kind == "numbers":
        message = "`classes` chooses among classes, and a numeric target has none: leave it out"
        raise InvalidContent.at("/classes", "invalid-field", message)
    known = list(dataset.classes or ())
    for number, label in enumerate(classes):
        require_class(known, label, f"/classes/{number}")
    chosen = set(map(label_name, classes))
    if len(chosen) < 2:
        raise InvalidContent.at(
            "/classes", "single-class", "these are one class; training needs two or more"
        )
    return [label for label in known if label_name(label) in chosen]


def require_class(known: Sequence[Label], label: Label, pointer: str) -> None:
    """Raises InvalidContent (`unknown-class`) if a caller named a label that no row has."""
    names = list(map(label_name, known))
    if label_name(label) not in names:
        raise InvalidContent.at(
            pointer,
            "unknown-class",
            f"no row has the label {label_name(label)[:MAX_VALUE_CHARACTERS]!r}",
            "labels are " + first_of(names, 5),
        )


class TrainingOptions(KindCreate):
    """What a training and all entries of a comparison have in common."""

    classes: Classes = None
    """Train on the rows of these classes only; the others stay in the dataset. By default on
    all."""
    encoding: Encoding = Encoding()
    """How categories, dates and missing cells become numbers, learned on the training rows and kept
    in the model. Tables of finite numbers need none."""
    scaling: ScalingName | None = None
    """Scaling of the features, fitted on the training rows and kept in the model. By default
    `standardize` for dense data, and for sparse data `none`, or `max-abs` if the largest values of
    its columns differ more than 100-fold; `spec` shows it. Categories, booleans and indicators of
    missing cells stay 0 and 1, texts as they are."""
    features: FeaturesChoice = Identity()
    """What the solver sees instead of the scaled features."""
    multiclass: MulticlassName | None = None
    """How several classes become binary problems: `one-vs-one`, one for each pair, or
    `one-vs-rest`, one for each class. By default one for each pair, or for each class if the
    data has a column of texts. A numeric target is one problem."""
    class_weight: ClassWeight | None = None
    """Weights of the hinge losses by class: `balanced`, or a number for some labels (as text), 1
    for the others. Not for a numeric target."""
    target_scale: TargetScale = "linear"
    """Of a numeric target: `logarithmic` trains on its logarithm, for positive and skewed ones."""
    stopping: Stopping = Stopping()
    """When to stop; nothing given means a relative duality gap of 1e-3 or 1,000 epochs."""
    seed: Annotated[int, Ge(0), Le(MAX_SEED)] | None = None
    """Seed of every random choice; drawn at random, and shown in `spec`, if it is not given."""
    leave_out_trained: bool = False
    """Leave out the validation rows that are equal to training rows, labels included: they measure
    memory. Metrics are then of the rest, and `left_out_rows` counts them."""
    mute: list[FindingName] = Field(default_factory=list)
    """Names of findings that are known and not to be reported again, such as `single-column`. The
    model's card lists them."""
    set_alias: NewAlias | None = None
    """An alias to point to the new version when the job succeeds."""

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any]) -> Self:
        """The request that a job or a model version has stored. Raises ValidationError if it is of
        another release."""
        return cls.model_validate_json(json.dumps(spec))

    def on(self, dataset: Dataset) -> Self:
        """This request with what follows from the dataset, which is taken as `target_kind` says,
        and with a seed."""
        auto: Any = CHOICES["auto"]()
        usual = Pipeline(solver=auto)
        if dataset.text_columns and dataset.target_kind == "classes":
            usual = usual.for_texts()
        values = {
            "dataset_id": dataset.id,
            "scaling": self.scaling or default_scaling(dataset),
            "multiclass": self.multiclass or usual.multiclass,
            "classes": classes_in(dataset, self.classes),
            "stopping": self.stopping.resolve(),
            "seed": secrets.randbelow(MAX_SEED + 1) if self.seed is None else self.seed,
        }
        return self.model_copy(update=values)


class JobCreate(TrainingOptions):
    """A training: which data, which solver, when to stop, and what happens to the model."""

    model_name: ModelName
    """The model that gets a new version."""
    solver: SolverChoice = Field(default_factory=cast("Callable[[], AnyChoice]", CHOICES["auto"]))
    """How to train; `GET /v1/solvers` explains each. `auto`, the default, chooses by the data; the
    job's `notes` say which and why, the `spec` of the model version shows it."""
    validation: AnyValidation | None = None
    """How to measure the model on rows that it was not trained on: a `fraction` of the rows
    as a validation set, cross-validation with `folds`, or another dataset."""
    calibration: Annotated[CalibrationName | None, AfterValidator(_held_out)] = None
    """How scores become probabilities: `sigmoid` (Platt's) needs hundreds of rows, `isotonic` needs
    thousands.

    Fitted on the validation set, or with folds on the score of every row by the training that did
    not see it. Its metrics measure each row with a calibration that was fitted on others."""
    left_out_groups: Annotated[int, Ge(2), Le(100)] | None = None
    """Measure how many rows of unknown classes `label_or_none` withholds: this many groups of
    classes are each left out of one more training. Needs four classes and a validation set."""
    trace: Annotated[
        Trace | None, AfterValidator(_traceable), Field(examples=[{"every": 1, "unit": "epoch"}])
    ] = None
    """More points of the learning curve than epochs 1, 2, 4, 8 … and the end, in
    `GET /v1/jobs/{id}/trace`: the cost before the first update, and after every one or every few
    epochs or updates. Neither the model nor the end of the training depends on it."""
    spread: Literal["auto", "never", "always"] = "auto"
    """Whether other machines share the passes of this training, if the service has a cluster of
    Dask: `newton` and `gradient-descent` with all rows in a batch do, with two classes. `auto`: if
    the data is large. Neither the solver nor a bit of the model depends on it."""
    warm_start_from: Annotated[str, Field(pattern=VERSION, examples=["iris/3"])] | None = None
    """A model version to begin with instead of zero, such as `iris/3`, or an alias, such as
    `iris/latest`. It must have the same features, classes and settings; `GET /v1/solvers` lists
    what a solver inherits from which others."""

    @property
    def searches(self) -> bool:
        """Whether settings are compared before the training: nothing is given that decides."""
        stopping = self.stopping
        given = self.warm_start_from, self.trace, stopping.patience, stopping.time_budget_s
        free = not any(given) and isinstance(self.features, Identity)
        return free and self.solver.search_effort != "quick"

    @property
    def target_kind(self) -> TargetKind:
        """What the training takes the labels for."""
        return kind_of_target(self.solver)

    def with_loss(self, dataset: Dataset) -> Self:
        """This request with the loss, if it names none, that the dataset asks for."""
        return self.model_copy(update={"solver": loss_for(self.solver, dataset)})

    def on(self, dataset: Dataset) -> Self:
        made = super().on(dataset)
        values: dict[str, Any] = {"validation": stratified(self.validation, dataset)}
        few, many = dataset.n_samples < FEWEST_ROWS, len(dataset.classes or ()) > MOST_CLASSES
        if not made.searches or few or many:
            values["solver"] = self.solver.without_search()
        elif not (dataset.sparse or dataset.text_columns):
            values["scaling"] = self.scaling
        return made.model_copy(update=values)

    def pipeline(self) -> Pipeline:
        """What to train, without the data and the limits of this service."""
        return Pipeline(
            solver=self.solver,
            encoding=self.encoding,
            scaling=self.scaling or "standardize",
            features=self.features,
            multiclass=self.multiclass or "one-vs-one",
            class_weight=self.class_weight,
            target_scale=self.target_scale,
            stopping=self.stopping.resolve(),
        )

    def trained_by(self, pipeline: Pipeline) -> dict[str, Any]:
        """This request as plain JSON, with what was chosen for `auto`, and C if it was left out."""
        chosen = {name: getattr(pipeline, name) for name in ("solver", "scaling", "features")}
        if pipeline.solver.lambda_ is None and pipeline.solver.C is None:
            chosen["solver"] = replace(pipeline.solver, C=DEFAULT_C)
        return self.model_copy(update=chosen).model_dump(mode="json", by_alias=True)


class JobBatchCreate(WriteModel):
    """Many trainings."""

    jobs: Annotated[list[Annotated[Any, ShownAs(JobCreate)]], MinLen(1), MaxLen(MAX_JOBS)]
    """Each as in `POST /v1/jobs`; they may be about the same model, which gets a version of each.
    Together at most `control_body_bytes` of `/v1/info`."""
