"""Checks before a job is queued: can its data be trained on, in how much memory, must its rows stay
in files, and can it begin at the model version that it names? And the start from that version."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import numpy as np
from pydantic import ValidationError

from service.datasets.dataset import Dataset
from service.datasets.store import DatasetStore
from service.errors import MAX_VALUE_CHARACTERS, InvalidContent
from service.jobs.core.model_columns import check_columns
from service.jobs.training.rows import check_measured, check_validation
from service.jobs.training.schemas import (
    Folds,
    JobCreate,
    TrainingOptions,
    ValidationSplit,
    require_class,
)
from service.models.registry import ModelRegistry
from service.rows.faults import listed
from service.rows.spec import TargetKind
from service.rows.table.labels import MAX_CLASSES, kind_of
from service.settings import Limits
from service.storage.database.tables import ModelVersion
from svm.data.matrices import LARGEST, Indices
from svm.data.splitting import held_out_rows
from svm.errors import InvalidData
from svm.model.measures import ERROR_BYTES
from svm.model.multiclass import splits_of
from svm.model.pipeline import Pipeline
from svm.solvers.protocol import HasDualCoefficients
from svm.training.candidates import EXACT_ROWS, first_candidates, possible_ends, sample_sizes
from svm.training.estimates import DataSize, rows_bytes, training_bytes
from svm.training.warm_start import WarmStart, check_warm_start
from svm.transforms.features import Terms, check_features, check_terms

TWO_SIDES = 1, -1
"""A numeric target is one problem of two sides, as two classes are."""


def labeled_as(
    kind: TargetKind, dataset: Dataset, max_classes: int, pointer: str = "/dataset_id"
) -> Dataset:
    """The dataset with its labels as classes or numbers. Raises InvalidContent if they cannot be
    taken so. `pointer`: the field that names the dataset."""
    labeled = dataset.taken_as(kind)
    if labeled is not None or dataset.target_kind is None:
        return labeled or dataset
    if kind == "numbers":
        shown = dataset.classes[0] if dataset.classes else None
        raise InvalidContent.at(
            pointer,
            "label-mismatch",
            f"this loss is for numeric targets, and the labels are classes such as {shown!r}",
            "leave out `loss`, or upload the data again with a column of numbers as `target`",
        )
    known = dataset.target_statistics or {}
    many = f"the labels have {dataset.n_distinct_labels:,} different values"
    hint = "leave out `loss` to predict the number, or group them into classes"
    if not known.get("continuous"):
        message = f"{many}; at most {max_classes} classes are allowed"
        raise InvalidContent.at(pointer, "too-many-classes", message, hint, limit=max_classes)
    message = f"{many}, not all of them whole: these are numbers, not classes"
    raise InvalidContent.at(pointer, "target-continuous", message, hint)


def check_trainable(
    spec: JobCreate, dataset: Dataset, limits: Limits, validation: Dataset | None = None
) -> None:
    """Raises InvalidContent with the code that the training would fail with. `validation` is the
    dataset of the validation set, if it has its own."""
    check_labels(dataset.only(spec.classes), most_classes(spec, limits))
    check_spec(spec, dataset, limits, validation)
    if validation is not None:
        check_validation(spec, dataset, validation)


def most_classes(spec: TrainingOptions, limits: Limits) -> int:
    """The limit is that of pairs: of 100 classes there are 4,950."""
    return MAX_CLASSES if spec.multiclass == "one-vs-rest" else limits.classes


def check_labels(dataset: Dataset, max_classes: int) -> None:
    """Checks of the data that every training needs. Raises InvalidContent."""
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
            "all rows have the same label; training needs two different ones or more",
        )
    if len(dataset.classes or ()) > max_classes:
        raise InvalidContent.at(
            "/dataset_id",
            "too-many-classes",
            f"the labels have {dataset.n_distinct_labels} different values; at most {max_classes} "
            "classes are allowed",
            'if they are amounts, train with `loss: "epsilon-insensitive"`'
            if kind_of(dataset.classes) == "number"
            else f'`multiclass: "one-vs-rest"` takes up to {MAX_CLASSES:,}',
            limit=max_classes,
        )


def check_spec(
    spec: JobCreate, dataset: Dataset, limits: Limits, validation: Dataset | None = None
) -> None:
    """The checks that depend on the training. Raises InvalidContent."""
    labels = dataset.only(spec.classes)
    _check_target(spec, dataset)
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
    _check_left_out(spec, len(labels.classes or ()))
    _check_missing(spec, dataset)
    _check_text_weights(spec, dataset)
    if validation is not None:
        _check_missing(spec, validation)
    for name in spec.class_weight if isinstance(spec.class_weight, dict) else ():
        require_class(labels.classes or (), name, "/class_weight")
    check_measured(spec, labels)


@contextmanager
def refuse_at(pointer: str) -> Iterator[None]:
    """Report errors of `svm` about data as faults of the field that names the data."""
    try:
        yield
    except InvalidData as error:
        raise InvalidContent.at(pointer, error.code, error.message) from None


def _check_target(spec: JobCreate, dataset: Dataset) -> None:
    """Raises InvalidContent for a setting that is of classes only, or of numbers only."""

    def refuse(pointer: str, message: str) -> NoReturn:
        raise InvalidContent.at(pointer, "invalid-field", message)

    if spec.target_kind == "classes":
        if spec.solver.epsilon is not None:
            refuse("/solver/epsilon", "epsilon is of numeric targets, and these labels are classes")
        if spec.target_scale != "linear":
            refuse("/target_scale", "classes have no scale: leave out `target_scale`")
        return
    if spec.class_weight is not None:
        refuse("/class_weight", "a numeric target has no classes to weigh: leave it out")
    if spec.calibration is not None:
        refuse("/calibration", "a numeric target has no probabilities to calibrate: leave it out")
    if spec.multiclass != "one-vs-one":
        refuse("/multiclass", "a numeric target is one problem: leave out `multiclass`")
    if isinstance(spec.validation, ValidationSplit) and spec.validation.stratify:
        refuse("/validation/stratify", "a numeric target has no classes to stratify by")
    known = dataset.target_statistics or {}
    low, high = known.get("min", 1.0), known.get("max", 1.0)
    if spec.target_scale == "logarithmic" and low <= 0.0:
        message = f"a logarithm needs positive numbers, and the smallest label is {low:g}"
        refuse("/target_scale", message)
    if max(-low, high) > LARGEST:
        message = f"the labels are {low:g} … {high:g}; numeric targets are at most {LARGEST:g}"
        refuse("/dataset_id", message)


def _check_plan(spec: JobCreate, dataset: Dataset, kernel_rows: int) -> None:
    if spec.solver.computes_kernel and dataset.n_samples > kernel_rows:
        raise InvalidContent.at(
            "/solver/name",
            "plan-too-large",
            f"{dataset.n_samples} rows; a kernel solver takes at most {kernel_rows}",
            "use a linear solver with nystroem or random-fourier features",
            limit=kernel_rows,
        )
    with refuse_at("/features"):
        sparse = dataset.sparse or bool(dataset.text_columns)
        check_features(spec.features, dataset.n_features, sparse)
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


def _check_left_out(spec: JobCreate, n_classes: int) -> None:
    groups, code = spec.left_out_groups, "invalid-field"
    if groups is None:
        return

    def refuse(message: str, hint: str) -> NoReturn:
        raise InvalidContent.at("/left_out_groups", code, message, hint)

    if n_classes < 4:
        message = f"classes are left out of four or more, and the data have {n_classes}"
        refuse(message, "leave out `left_out_groups`")
    if groups > n_classes:
        refuse(f"{n_classes} classes make at most {n_classes} groups", "give a smaller number")
    if spec.validation is None or isinstance(spec.validation, Folds):
        message = "it needs a validation set, of whose rows it counts those that are withheld"
        refuse(message, "give `validation` a `fraction` of the rows, or another dataset")
    if spec.stopping.patience is not None:
        message = "validation rows that end a training by `patience` cannot measure it"
        refuse(message, "leave out `patience`")


def _check_missing(spec: JobCreate, dataset: Dataset) -> None:
    if spec.encoding.missing != "refuse":
        return
    for column in dataset.kinds:
        if column.missing and column.kind not in ("category", "text"):
            raise InvalidContent.at(
                "/encoding/missing",
                "missing-value",
                f"column {column.name!r} has {column.missing} missing cells, which the encoding "
                "refuses",
                "choose median, mean or constant; or upload the data without these rows",
            )


def _check_text_weights(spec: JobCreate, dataset: Dataset) -> None:
    known = dataset.text_columns
    for name in spec.encoding.text_weights:
        if name not in known:
            message = f"{name[:MAX_VALUE_CHARACTERS]!r} is not a column of texts"
            hint = "columns of texts are " + listed(known) if known else "the data has none"
            raise InvalidContent.at("/encoding/text_weights", "invalid-field", message, hint)


WORKER_BYTES = 240 * 1024 * 1024
"""Used by a worker without a job: Python, the libraries, the compiled loops."""
USABLE = 0.9
"""Share of its limit that is planned with; at 0.95 the worker is ended."""


def affordable(spec: JobCreate, dataset: Dataset, limit: int) -> JobCreate:
    """The request; if a worker of `limit` bytes cannot compare settings, as one that does not."""
    if not spec.searches or peak_bytes(spec, dataset, in_files=True) <= int(USABLE * limit):
        return spec
    quick = spec.model_copy(update={"solver": spec.solver.without_search()})
    return quick.on(dataset)


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
    n, labels = dataset.n_samples, dataset.classes or TWO_SIDES
    size = data_size(dataset)
    # The rows of a split are copied.
    splits = spec.left_out_groups or (spec.validation is not None and validation is None)
    copies = 2 if splits else 1
    rows = 0 if in_files else copies * rows_bytes(size)
    if validation is not None and not in_files:  # as they are, recoded, and mapped
        rows += 3 * rows_bytes(data_size(validation))
    training = _training_bytes(spec, size, in_files=in_files)
    measured = n if validation is None else validation.n_samples
    return WORKER_BYTES + rows + _with_scores(spec, training, measured, len(labels))


def _training_bytes(spec: JobCreate, size: DataSize, *, in_files: bool) -> int:
    """Of the training, and of what `auto` compares before it."""
    usual = spec.pipeline()
    if not spec.searches:
        return training_bytes(usual, size, in_files=in_files)
    sparse = size.sparse or bool(size.text_bytes)
    first = first_candidates(usual, size.n_features, sparse=sparse, unscaled=False)
    ends = possible_ends(first, usual, exact=size.n_samples <= EXACT_ROWS and not in_files)
    final = max(training_bytes(end, size, in_files=in_files) for end in ends)
    effort = spec.solver.search_effort
    sample = size.part(sample_sizes(effort, size.n_samples, size.stored_values)[1])
    exact = possible_ends(first, usual, exact=True)
    compared = max(training_bytes(end, sample, in_files=False) for end in exact)
    return max(final, compared + 2 * rows_bytes(sample))


def data_size(dataset: Dataset) -> DataSize:
    """The sizes of its rows, of which memory is estimated."""
    labels = dataset.classes or TWO_SIDES
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
        text_bytes=_text_bytes(dataset),
    )


def _with_scores(spec: JobCreate, training: int, n_samples: int, n_classes: int) -> int:
    """Trainings together with the scores that probabilities are fitted on, or that are measured."""
    if spec.target_kind == "numbers":
        if isinstance(spec.validation, Folds):  # of all folds so far, and two copies to save them
            training += 3 * 8 * n_samples
        return max(training, ERROR_BYTES * n_samples)
    if spec.calibration is None:
        return training
    each = 8 * len(splits_of(spec.pipeline().multiclass, n_classes))
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


def _text_bytes(dataset: Dataset) -> int:
    """The stored bytes of texts, with where they end."""
    if not dataset.text_columns:
        return 0
    others = len(dataset.kinds) - len(dataset.text_columns)
    return max(0, dataset.size_bytes - 8 * dataset.n_samples * (others + 1))


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


WARM_START = "warm-start-unsupported"
SEEN_ROWS = (
    "The model that this training began with knows some of the validation rows, so their metrics "
    "may be too good."
)


def find_start(spec: JobCreate, registry: ModelRegistry) -> ModelVersion | None:
    """The version that a job begins with. Raises NotFound."""
    return None if spec.warm_start_from is None else registry.find(spec.warm_start_from)


def check_start(
    spec: JobCreate, dataset: Dataset, start: ModelVersion, datasets: DatasetStore
) -> None:
    """Raises InvalidContent `warm-start-unsupported` with the first difference."""
    if start.imported is not None:
        raise _refusal(
            "the version was imported, without the state that a training needs to continue"
        )
    if start.warm_start_key is None:
        raise _refusal("the version is older than warm starts: train it again")
    if start.quarantined_at is not None:
        raise _refusal("the version's file is damaged; choose another version")
    try:
        check_warm_start(spec.pipeline(), _pipeline_of(start))
    except InvalidData as error:
        hint = "use the settings in the version's `spec`"
        raise _refusal(error.message, hint) from None
    classes = list(dataset.only(spec.classes).classes or ())
    if [(type(label), label) for label in classes] != [(type(c), c) for c in start.classes]:
        raise _refusal(f"classes: the model has {start.classes}, the dataset {classes}")
    if dataset.n_features != start.n_features:
        raise _refusal(
            f"features: the model has {start.n_features}, the dataset {dataset.n_features}"
        )
    names = zip(start.columns or (), dataset.columns or (), strict=False)
    for number, (expected, given) in enumerate(names, start=1):
        if given != expected:
            raise _refusal(f"feature {number}: the model has {expected!r}, the dataset {given!r}")
    try:
        check_columns(dataset, start)
    except InvalidData as error:
        raise _refusal(error.message) from None
    if isinstance(spec.solver, HasDualCoefficients) and not _has_rows_of(dataset, start, datasets):
        raise _refusal(
            f"{spec.solver.name} inherits row numbers, and the dataset does not begin with the "
            "rows that the model was trained on",
            f"append the new rows to {start.dataset_id}",
        )


def load_start(
    spec: JobCreate,
    dataset: Dataset,
    rows: Indices,
    registry: ModelRegistry,
    datasets: DatasetStore,
) -> tuple[WarmStart, tuple[str, ...]] | None:
    """What the training on these `rows` of the dataset begins with, and warnings.

    None if the job begins at zero. Raises NotFound, Corrupt.
    """
    start = find_start(spec, registry)
    if start is None:
        return None
    begun = WarmStart.from_arrays(
        _pipeline_of(start), registry.files.load(start), registry.files.load_warm_start(start)
    )
    numbers = np.full(max(dataset.n_samples, begun.rows.max(initial=-1) + 1), -1)
    numbers[rows] = np.arange(len(rows))
    return begun.with_rows(numbers), _seen_rows(spec, dataset, start, datasets)


def _seen_rows(
    spec: JobCreate, dataset: Dataset, start: ModelVersion, datasets: DatasetStore
) -> tuple[str, ...]:
    if not isinstance(spec.validation, ValidationSplit) or not _has_rows_of(
        dataset, start, datasets
    ):
        return ()
    split = spec.validation.model_dump(mode="json"), spec.seed, dataset.matrix_digest
    before = {"gap": 0.0, **(start.spec.get("validation") or {})}
    same = split == (before, start.seed, start.dataset_digest)
    return () if same else (SEEN_ROWS,)


def _pipeline_of(start: ModelVersion) -> Pipeline:
    try:
        return JobCreate.from_spec(start.spec).pipeline()
    except ValidationError:
        message = "the version was made by another release: train it again"
        raise InvalidData(WARM_START, message) from None


def _has_rows_of(dataset: Dataset, start: ModelVersion, datasets: DatasetStore) -> bool:
    if start.dataset_id is None or start.dataset_digest is None:  # imported
        return False
    return datasets.begins_with(dataset, start.dataset_id, start.dataset_digest)


def _refusal(message: str, hint: str | None = None) -> InvalidContent:
    return InvalidContent.at("/warm_start_from", WARM_START, message, hint)
