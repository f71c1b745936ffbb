"""How much memory a job needs in its worker, and whether its rows stay in files."""

from __future__ import annotations

from service.datasets.dataset import Dataset
from service.errors import InvalidContent
from service.jobs.training.schemas import Folds, JobCreate, ValidationSplit
from service.models.versions import ModelVersion
from svm.data.splitting import held_out_rows
from svm.model.multiclass import splits_of
from svm.training.estimates import DataSize, rows_bytes, training_bytes

WORKER_BYTES = 240 * 1024 * 1024
"""Used by a worker without a job: Python, the libraries, the compiled loops."""
USABLE = 0.9
"""Share of its limit that is planned with; at 0.95 the worker is ended."""


def rows_stay_in_files(
    spec: JobCreate, dataset: Dataset, limit: int, validation: Dataset | None = None
) -> bool:
    """Whether the rows of a job would exceed the worker's limit in bytes, and its solver can read
    them in blocks instead. `validation` is the dataset of its validation set, if it has its own.
    Raises InvalidContent if neither fits."""
    usable = int(USABLE * limit)
    in_memory = peak_bytes(spec, dataset, validation, in_files=False)
    if in_memory <= usable:
        return False
    in_files = peak_bytes(spec, dataset, validation, in_files=True)
    if in_files > usable:
        without = spec.model_copy(update={"calibration": None})
        if peak_bytes(without, dataset, validation, in_files=True) <= usable:
            hint = "calibrate on fewer rows: use a smaller `fraction` or dataset for validation"
            raise _too_large(in_files, usable, hint, "/calibration")
        raise _too_large(in_files, usable, "take fewer features, or give workers more memory")
    if not spec.solver.streams:
        if spec.solver.streaming_option:
            hint = f"give `{spec.solver.streaming_option}`, which reads the rows a few at a time"
        else:
            hint = (
                'use newton, or pegasos or gradient-descent with `order: "blocks"`, which read '
                "the rows a few at a time; or take fewer features"
            )
        raise _too_large(in_memory, usable, hint)
    return True


def check_scores(dataset: Dataset, version: ModelVersion, n_outputs: int, limit: int) -> None:
    """Raises InvalidContent if the scores of all rows do not fit in a worker of `limit` bytes: they
    are ranked, so they are needed at once."""
    n_classes = len(version.classes)
    scores = 8 * dataset.n_samples * n_outputs * (n_classes if n_classes > 2 else 1)
    # The scores, the ranks, and a copy for the checkpoint.
    needed = WORKER_BYTES + version.size_bytes + 3 * scores
    if needed > int(USABLE * limit):
        hint = "evaluate a part of the rows: POST /v1/datasets/{id}/split makes one"
        raise _too_large(needed, int(USABLE * limit), hint, "/dataset_id", "the evaluation")


def peak_bytes(
    spec: JobCreate, dataset: Dataset, validation: Dataset | None = None, *, in_files: bool
) -> int:
    """The peak memory of a worker, with the rows in memory or in files."""
    assert dataset.classes is not None
    n, labels = dataset.n_samples, dataset.classes
    size = data_size(dataset)
    # The rows of a split are copied.
    copies = 1 if spec.validation is None or validation is not None else 2
    rows = 0 if in_files else copies * rows_bytes(size)
    if validation is not None and not in_files:  # as they are, recoded, and mapped
        rows += 3 * rows_bytes(data_size(validation))
    training = training_bytes(spec.pipeline(), size, in_files=in_files)
    measured = n if validation is None else validation.n_samples
    return WORKER_BYTES + rows + _with_scores(spec, training, measured, len(labels))


def data_size(dataset: Dataset) -> DataSize:
    """Of its rows."""
    labels = dataset.classes or ()
    longest = max((len(label) for label in labels if isinstance(label, str)), default=2)
    return DataSize(
        n_samples=dataset.n_samples,
        n_features=dataset.n_features,
        stored_values=_stored_values(dataset),
        sparse=dataset.sparse,
        n_classes=len(labels),
        label_bytes=4 * longest,
        weighted=dataset.weight is not None,
        table=None if dataset.is_plain else dataset.kinds,
    )


def _with_scores(spec: JobCreate, training: int, n_samples: int, n_classes: int) -> int:
    """Trainings together with the scores that probabilities are fitted on."""
    if spec.calibration is None:
        return training
    each = 8 * len(splits_of(spec.multiclass, n_classes))
    if isinstance(spec.validation, Folds):
        # Of all folds so far, the votes, and two copies of both for the checkpoint.
        return training + 4 * each * n_samples
    if isinstance(spec.validation, ValidationSplit):
        n_samples = held_out_rows(n_samples, spec.validation.fraction)
    # After the training; for a while the votes are in memory, too.
    return max(training, 5 * each * n_samples // 2)


def _stored_values(dataset: Dataset) -> int:
    if not dataset.sparse:
        return dataset.n_samples * dataset.n_features
    # For each value a number and its column, for each row its start and its label.
    return (dataset.size_bytes - 8 * dataset.n_samples) // 12


def _too_large(
    estimate: int,
    usable: int,
    hint: str,
    pointer: str = "/solver/name",
    what: str = "the training",
) -> InvalidContent:
    message = f"{what} would take about {estimate} bytes of memory; a worker has {usable}"
    return InvalidContent.at(
        pointer, "plan-too-large", message, hint, limit=usable, estimate_bytes=estimate
    )
