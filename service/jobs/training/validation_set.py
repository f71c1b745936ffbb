"""What a training is measured on: the rows of each class that are held out, or another dataset."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from service.datasets.dataset import DataInFiles, Dataset, LoadedData
from service.errors import InvalidContent
from service.jobs.core.model_columns import class_numbers, positions, recoded_onto
from service.jobs.training.rows import LabeledRows
from service.jobs.training.schemas import Folds, JobCreate, ValidationDataset, ValidationSplit
from svm.data.matrices import is_sparse
from svm.data.splitting import held_out_rows
from svm.data.stored_rows import StoredRows
from svm.errors import InvalidData

POINTER = "/validation/dataset_id"


def rare_classes(
    validation: ValidationSplit | Folds | ValidationDataset | None, dataset: Dataset
) -> tuple[str, ...]:
    """Warnings about classes with so few rows that not all of their measures say something;
    `dataset` has the classes that are trained on."""
    counts = zip(dataset.classes or (), dataset.class_counts or (), strict=True)
    match validation:
        case Folds(folds=folds):
            return tuple(
                f"Class {label!r} has {count} {'row' if count == 1 else 'rows'}: it was measured "
                f"in {count if count > 1 else 0} of {folds} folds, and trained on in all."
                for label, count in counts
                if count < folds
            )
        case ValidationSplit(fraction=fraction, stratify=True):
            return tuple(
                f"Class {label!r} has {count} {'row' if count == 1 else 'rows'}, too few to hold "
                f"out {fraction:g} of them: all are trained on, and the class is not measured."
                for label, count in counts
                if held_out_rows(count, fraction) == 0
            )
    return ()


def check_measured(spec: JobCreate, dataset: Dataset) -> None:
    """Raises InvalidContent if too few rows are held out: none for a fold, or of a class none to
    learn its probability from. `dataset` has the classes that are trained on."""
    counts = dataset.class_counts or ()
    match spec.validation:
        case Folds(folds=folds):
            pointer, least = "/validation/folds", folds
            held_out = [count if count > 1 else 0 for count in counts]
        case ValidationSplit(fraction=fraction, stratify=True):
            pointer, least = "/validation/fraction", 1
            held_out = [held_out_rows(count, fraction) for count in counts]
        case _:
            return
    code = "class-too-small"
    if sum(held_out) < least:
        message = "the classes have too few rows to hold some of them out"
        raise InvalidContent.at(pointer, code, message, "use no validation, or give more rows")
    if spec.calibration is not None and 0 in held_out:
        number = held_out.index(0)
        label = (dataset.classes or ())[number]
        message = f"class {label!r} has {counts[number]} rows: none is left to fit probabilities on"
        hint = "leave out `calibration`, or the class with `classes`"
        raise InvalidContent.at("/calibration", code, message, hint)


def check_validation(spec: JobCreate, dataset: Dataset, validation: Dataset) -> None:
    """Raises InvalidContent if the rows of `validation` cannot measure a model that is trained on
    the dataset."""
    with _refused():
        numbers = class_numbers(validation, dataset.classes or ())
        recoded_onto(validation, dataset, dataset.kinds)
    kept = dataset.only(spec.classes).classes or ()
    trained = {number for number, label in enumerate(dataset.classes or ()) if label in kept}
    if trained.isdisjoint(numbers.tolist()):
        shown = ", ".join(repr(label) for label in kept[:5])
        message = f"no row of the validation set has one of the classes {shown}"
        raise InvalidContent.at(POINTER, "unknown-class", message)


def rows_of(
    data: LoadedData | DataInFiles, validation: Dataset, dataset: Dataset, spec: JobCreate
) -> LabeledRows:
    """The rows of `validation` in the columns and classes of the dataset; those of classes that the
    training leaves out are left out, too. Raises InvalidContent and InvalidData."""
    assert data.codes is not None
    codes = class_numbers(validation, dataset.classes or ()).astype(np.int32)[data.codes]
    taken = recoded_onto(validation, dataset, dataset.kinds)

    def taken_as(X: Any) -> Any:
        made = taken(X)
        if dataset.sparse:
            from scipy.sparse import csr_array  # workers only: the API stays small

            return made if is_sparse(made) else csr_array(made)
        return made.toarray() if is_sparse(made) else made

    same = positions(validation, dataset) is None and validation.is_plain
    if isinstance(data.X, StoredRows):
        if not same or validation.sparse != dataset.sparse:
            data = replace(data, X=data.X.rewritten(taken_as, dataset.n_features))
    else:
        data = replace(data, X=taken_as(data.X))
    return LabeledRows(replace(data, codes=codes), dataset, spec.classes)


@contextmanager
def _refused() -> Iterator[None]:
    """Report what is wrong with the validation set at its place in the request."""
    try:
        yield
    except InvalidData as error:
        raise InvalidContent.at(POINTER, error.code, error.message) from None
    except InvalidContent as error:
        faults = tuple(replace(fault, pointer=POINTER) for fault in error.faults)
        raise InvalidContent(error.code, error.detail, faults, extra=error.extra) from None
