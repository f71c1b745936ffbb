"""What callers send and get: evaluations."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from service.common.names import ModelReference
from service.common.schemas import ReadModel
from service.jobs.collection.schemas import JobModelRead, KindCreate, KindRead, UnknownCellsRead
from service.jobs.core.job import Job
from service.storage.database.tables import Label


class EvaluationCreate(KindCreate):
    """A labeled dataset to measure a model on."""

    model: ModelReference
    """The model, one of its versions, or one of its aliases, resolved when the job is created."""
    leave_out_trained: bool = False
    """Leave out the rows that are equal to training rows, labels included: they measure memory.
    Metrics are then of the rest, and `left_out_rows` counts them. Needs the training data."""
    validation_only: bool = False
    """Measure only the rows that the training held out as its validation set: `dataset_id` is that
    of the training. Their metrics are those of the version, and `wrong_rows` are some of them."""
    importance: bool = False
    """Measure also how much the accuracy falls, or the mean absolute error grows, when the values
    of one column are exchanged between the rows: for models of at most 200 columns, on at most
    2,000 of the rows."""


class ClassMetricsRead(ReadModel):
    """How well one class is separated from the others; a ratio with denominator 0 is 0."""

    label: Label
    precision: float
    recall: float
    f1: float
    support: int
    """Rows of the class."""


class RocRead(ReadModel):
    """A ROC curve: true positive rate against false positive rate of a class, as the threshold on
    the decision value falls."""

    label: Label
    """The class; of two classes there is one curve, of the positive one."""
    auc: float
    """Area under the whole curve, of which at most 201 points are given."""
    thresholds: list[float | None]
    """Null at the first point, where no row is predicted."""
    false_positive_rate: list[float]
    true_positive_rate: list[float]


class MarginsRead(ReadModel):
    """How far the rows are on their right sides: y f(x) of two classes; of more the decision value
    of the true class minus the largest other one. Negative: predicted wrongly."""

    edges: list[float]
    """Of the bins, ascending; rows beyond are counted in the outermost ones."""
    counts: list[list[int]]
    """Rows in each bin, for every class in the order of `classes`."""


class ReliabilityRead(ReadModel):
    """Rows whose largest probability is in one of 15 bins of equal width."""

    n_samples: int
    mean_probability: float
    accuracy: float
    """Share of the rows for which the likeliest class is the true one."""


class CalibrationRead(ReadModel):
    """How good the probabilities of a calibrated model are."""

    log_loss: float
    """Mean of -log p of the true class."""
    brier_score: float
    """Mean of Σ (p - truth)² over the classes; of two classes that of the positive one."""
    expected_calibration_error: float
    """Mean difference between the largest probability and how often it is right, over the bins."""
    disagreement: float
    """Share of rows whose largest probability is not that of their label."""
    reliability: list[ReliabilityRead]
    """Bins that hold rows, ascending."""


class WeightedMetricsRead(ReadModel):
    """The same with the weight of each row."""

    accuracy: float
    balanced_accuracy: float
    macro_f1: float
    confusion_matrix: list[list[float]]
    """Sums of weights."""


class ColumnImportanceRead(ReadModel):
    """How much the accuracy, or the mean absolute error, depends on a column."""

    name: str
    decrease: float
    """Of the accuracy when the values of this column are exchanged between the rows, or increase of
    the mean absolute error: mean of 5 draws. Columns that say the same share it; near 0 or below
    it is chance."""
    standard_error: float


class ImportanceRead(ReadModel):
    """The columns of a model by importance (Breiman, 2001)."""

    n_samples: int
    """Rows that were used, drawn with a fixed seed."""
    columns: list[ColumnImportanceRead]
    """The most important ones first."""


class WrongRowRead(ReadModel):
    """A row that is predicted wrongly."""

    row: int
    """Its number in the dataset, from 1."""
    actual: Label
    predicted: Label
    margin: float


class GroupsRead(ReadModel):
    """If rows belong together, which makes intervals wider."""

    n_groups: int | None = None
    """In how many groups they are, if the dataset has a column of groups."""
    n_distinct: int | None = None
    """How many rows are different, if the audit found copies."""


class EvaluationMetricsRead(GroupsRead):
    """How well a model classifies the rows of a dataset."""

    n_samples: int
    n_effective: float | None = None
    """If rows belong together: as many independent ones would say as much about the accuracy."""
    trained_rows: int | None = None
    """How many of these rows are equal to training rows, labels included. Null without the training
    data."""
    left_out_rows: int = 0
    """Rows equal to training rows that are not measured, by `leave_out_trained`."""
    classes: list[Label]
    """Of the model, in its order."""
    accuracy: float
    balanced_accuracy: float
    """Mean recall of the classes that have rows."""
    macro_f1: float
    """Mean F1 of the classes that have rows or were predicted."""
    confusion_matrix: list[list[int]]
    """Rows by true class (outer) and predicted class (inner)."""
    per_class: list[ClassMetricsRead]
    roc_auc: float | None
    """Area under the ROC curve, by decision values; of more than two classes the mean of each
    against the rest. Null if the rows have only one class."""
    roc_auc_one_vs_one: float | None
    """The mean over all pairs of classes (Hand and Till); the same as `roc_auc` for two classes."""
    roc: list[RocRead]
    """For every class, if it has rows and other classes have, too."""
    margins: MarginsRead
    calibration: CalibrationRead | None
    """Null if the model is not calibrated."""
    weighted: WeightedMetricsRead | None = None
    """If the dataset has a column of weights. All other metrics count every row once."""
    wrong_rows: list[WrongRowRead] | None = None
    """At most 100, lowest margins first, of every confused pair some. Null in old evaluations."""
    importance: ImportanceRead | None = None
    """If it was asked for."""


class ErrorsRead(ReadModel):
    """How far predicted numbers are from the true ones."""

    mae: float
    """Mean absolute error."""
    rmse: float
    """Root of the mean squared error."""
    r2: float | None
    """The share of the variance that is explained: 1 - mean squared error/variance. Null if all
    numbers are equal."""
    median_absolute_error: float
    """Half of the errors are smaller."""
    share_inside_epsilon: float
    """Share of the rows with errors of at most ε, which cost nothing in training."""


class ErrorIntervalsRead(ReadModel):
    """Intervals with 95 % confidence; null if there are too few rows."""

    mae: list[float] | None
    rmse: list[float] | None
    r2: list[float] | None
    median_absolute_error: list[float] | None
    share_inside_epsilon: list[float]


class MeasuredErrorsRead(ErrorsRead):
    """With what is known about each."""

    intervals: ErrorIntervalsRead


class BaselineRead(ErrorsRead):
    """The errors without a model: always the training rows' mean, for `rmse` and `r2`, or their
    median, for the others."""

    median: float
    mean: float


class LargeErrorRead(ReadModel):
    """One of the rows with the largest errors."""

    row: int
    """Its number in the dataset, from 1."""
    actual: float
    predicted: float


class PointsRead(ReadModel):
    """Rows at even distances, at most 1,000."""

    actual: list[float]
    predicted: list[float]


class ResidualsRead(ReadModel):
    """How the differences of true and predicted numbers are distributed."""

    edges: list[float]
    """Of the bins, ascending; rows beyond are counted in the outermost ones."""
    counts: list[int]


class CoverageRead(ReadModel):
    """How often the true numbers are inside of the model's prediction intervals."""

    coverage: float
    """The coverage asked."""
    share_inside: float


class NumberMetricsRead(MeasuredErrorsRead, GroupsRead):
    """How well a model predicts the numbers of a dataset."""

    n_samples: int
    trained_rows: int | None = None
    """How many of these rows are equal to training rows, targets included. Null without the
    training data."""
    left_out_rows: int = 0
    """Rows equal to training rows that are not measured, by `leave_out_trained`."""
    epsilon: float
    """ε of the model, in the unit of the target or, if it is a model of logarithms, of these."""
    baseline: BaselineRead | None = None
    """Null if the model was imported."""
    weighted: MeasuredErrorsRead | None = None
    """If the dataset has a column of weights. All other metrics count every row once."""
    largest_errors: list[LargeErrorRead]
    """The 20 rows with the largest errors, the largest one first."""
    points: PointsRead
    """Predicted against actual."""
    residuals: ResidualsRead
    """The true minus the predicted numbers."""
    coverages: list[CoverageRead] | None
    """Null if the model has no prediction intervals."""
    importance: ImportanceRead | None = None
    """If it was asked for."""


METRICS: TypeAdapter[EvaluationMetricsRead | NumberMetricsRead] = TypeAdapter(
    EvaluationMetricsRead | NumberMetricsRead
)


class EvaluationSummary(KindRead):
    """An evaluation as lists show it."""

    model: JobModelRead
    accuracy: float | None
    """Once it has succeeded; null for models of numbers."""
    roc_auc: float | None
    mae: float | None = None
    """Of models of numbers, as the next two: the mean absolute error."""
    rmse: float | None = None
    r2: float | None = None
    n_samples: int | None
    trained_rows: int | None
    """As in `metrics`."""
    ignored_columns: list[str]
    """The first hundred columns of the dataset that the model does not use."""
    unlabeled_rows: int
    """How many rows of the dataset's file are not measured, since they have no label."""
    unknown_cells: UnknownCellsRead | None
    """Once it has succeeded; null for models of plain numbers."""

    @classmethod
    def values(cls, job: Job) -> dict[str, Any]:
        return {
            **super().values(job),
            "model": JobModelRead(**job.spec["model"]),
            "ignored_columns": job.spec.get("ignored_columns", []),
            "unlabeled_rows": job.spec.get("unlabeled_rows", 0),
            **(job.result or {}).get("metrics", {}),
        }


class EvaluationRead(EvaluationSummary):
    """An evaluation as it is now."""

    dataset_digest: str
    metrics: EvaluationMetricsRead | NumberMetricsRead | None
    """Once it has succeeded; of models of numbers the second form."""


class EvaluationPage(ReadModel):
    """Evaluations, newest first."""

    evaluations: list[EvaluationSummary]
    next_page_token: str | None
