"""Checks before a job is queued: can its data be trained on?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from service.datasets.dataset import Dataset
from service.errors import InvalidContent
from service.jobs.training.memory_plan import rows_stay_in_files
from service.jobs.training.schemas import Folds, JobCreate, require_class
from service.jobs.training.validation_set import check_measured, check_validation
from service.rows.spec import Label
from service.settings import Limits
from svm.errors import InvalidData
from svm.transforms.features import Terms, check_features, check_terms


def check_trainable(
    spec: JobCreate, dataset: Dataset, limits: Limits, validation: Dataset | None = None
) -> None:
    """Raises InvalidContent with the code that the training would fail with. `validation` is the
    dataset of the validation set, if it has its own."""
    check_labels(dataset.only(spec.classes), limits.classes)
    check_spec(spec, dataset, limits, validation)
    if validation is not None:
        check_validation(spec, dataset, validation)


def check_labels(dataset: Dataset, max_classes: int) -> None:
    """Checks of the data that every training needs. Raises InvalidContent."""
    many = f"the labels have {dataset.n_distinct_labels} different values"
    if dataset.n_distinct_labels == 0:
        raise InvalidContent.at(
            "/dataset_id",
            "target-missing",
            "the dataset has no labels",
            "upload it again with `target`, the name of the label column",
        )
    if dataset.n_distinct_labels == 1:
        raise InvalidContent.at(
            "/dataset_id",
            "single-class",
            "all rows have the same label; training needs two classes or more",
        )
    if dataset.n_distinct_labels > max_classes:
        if dataset.continuous_target or not _all_whole(dataset.classes):
            raise InvalidContent.at(
                "/dataset_id",
                "target-continuous",
                f"{many}: these are measurements, not classes",
                "group them into classes, or give another column as `target`",
            )
        raise InvalidContent.at(
            "/dataset_id",
            "too-many-classes",
            f"{many}; at most {max_classes} classes are allowed",
            limit=max_classes,
        )


def check_spec(
    spec: JobCreate, dataset: Dataset, limits: Limits, validation: Dataset | None = None
) -> None:
    """The checks that depend on the training. Raises InvalidContent."""
    labels = dataset.only(spec.classes)
    if dataset.sparse and spec.scaling in ("standardize", "min-max"):
        raise InvalidContent.at(
            "/scaling",
            "scaling-unsupported",
            f"{spec.scaling} would turn sparse data into dense data",
            "use max-abs",
        )
    _check_plan(spec, dataset, limits.kernel_rows)
    rows_stay_in_files(spec, dataset, limits.worker_memory_bytes, validation)
    _check_patience(spec)
    _check_missing(spec, dataset)
    if validation is not None:
        _check_missing(spec, validation)
    for name in spec.class_weight if isinstance(spec.class_weight, dict) else ():
        require_class(labels.classes or (), name, "/class_weight")
    check_measured(spec, labels)


@contextmanager
def refused(pointer: str) -> Iterator[None]:
    """Report errors of `svm` about data as faults of the field that names the data."""
    try:
        yield
    except InvalidData as error:
        raise InvalidContent.at(pointer, error.code, error.message) from None


def _all_whole(classes: list[Label] | None) -> bool:
    return all(not isinstance(label, float) or label.is_integer() for label in classes or ())


def _check_plan(spec: JobCreate, dataset: Dataset, kernel_rows: int) -> None:
    if spec.solver.computes_kernel and dataset.n_samples > kernel_rows:
        raise InvalidContent.at(
            "/solver/name",
            "plan-too-large",
            f"{dataset.n_samples} rows; a kernel solver takes at most {kernel_rows}",
            "use a linear solver with nystroem or random-fourier features",
            limit=kernel_rows,
        )
    with refused("/features"):
        check_features(spec.features, dataset.n_features, dataset.sparse)
        if isinstance(spec.features, Terms):
            check_terms(spec.features, dataset.kinds)


def _check_patience(spec: JobCreate) -> None:
    if spec.stopping.patience is None:
        return
    if spec.validation is None or isinstance(spec.validation, Folds):
        raise InvalidContent.at(
            "/stopping/patience",
            "invalid-field",
            "patience needs a validation set during the training",
            "give `validation` a `fraction` of the rows, or another dataset",
        )


def _check_missing(spec: JobCreate, dataset: Dataset) -> None:
    if spec.encoding.missing != "refuse":
        return
    for column in dataset.kinds:
        if column.missing and column.kind != "category":
            raise InvalidContent.at(
                "/encoding/missing",
                "missing-value",
                f"column {column.name!r} has {column.missing} missing cells, which the encoding "
                "refuses",
                "choose median, mean or constant; or upload the data without these rows",
            )
