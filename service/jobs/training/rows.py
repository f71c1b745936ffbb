"""The rows of a training job: training sets, validation sets of the same or of another dataset, and
how a model scores on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from service.datasets.dataset import DataInFiles, Dataset, LoadedData
from service.datasets.rows_of_classes import RowsOfClasses
from service.errors import InvalidContent
from service.jobs.core.model_columns import class_numbers, positions, recode_onto
from service.jobs.training.schemas import (
    Folds,
    JobCreate,
    ValidationDataset,
    ValidationSplit,
    uneven_columns,
)
from service.rows.spec import Label
from svm.data.executors import IN_THIS_THREAD, executor_of
from svm.data.matrices import Array, Indices, Matrix, Vector, is_sparse
from svm.data.row_hashes import Words
from svm.data.splitting import class_groups, folds, held_out_rows
from svm.data.stored_rows import StoredRows, gathered, piece_of, piece_runs
from svm.encoding.recoding import recoding
from svm.errors import InvalidData
from svm.model.measures import Baseline, Confusion, Errors, Measures
from svm.model.pipeline import FittedPipeline
from svm.transforms.scaling import ScalingName

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of one training, by number in the dataset, ascending."""

    training: Indices
    validation: Indices | None
    digest: str
    """Equal for equal values and labels of the training rows."""
    left_out: int | None = None
    """Validation rows that are not measured, since they are equal to training rows."""


def count_seen(measured: Words, trained: Words) -> int:
    """How many of the measured rows are among those of a training, by their hashes."""
    return int(np.count_nonzero(np.isin(measured, trained)))


class LabeledRows(RowsOfClasses):
    """A dataset that can be trained on."""

    def __init__(
        self,
        data: LoadedData | DataInFiles,
        dataset: Dataset,
        classes: Sequence[Label] | None = None,
        interrupted: Callable[[], None] = lambda: None,
        threads: int | Callable[[], int] = 1,
    ) -> None:
        """`classes`: only the rows of these. `interrupted` is called before every piece of rows
        that is scored, and may raise; `threads` score pieces at once."""
        super().__init__(data, dataset, classes, interrupted)
        self._digest = dataset.matrix_digest + ("" if classes is None else f" {classes}")
        self._executor = executor_of(threads)

    def of(self, rows: Indices, like: FittedPipeline | None = None) -> tuple[Any, npt.NDArray[Any]]:
        """(X, labels) of some rows, ascending; not copied if these are all rows. X is as the model
        `like` takes it, if there is one."""
        whole = len(rows) == len(self)
        X = self.X if whole else gathered(self.X, rows, self._executor)
        return X if like is None else self._as_taken_by(like, X), self.labels(rows)

    def labels(self, rows: Indices) -> npt.NDArray[Any]:
        """Labels of some rows, ascending; not copied if these are numbers of all rows."""
        given = self._codes if self._values is None else self._values
        given = given if len(rows) == len(self) else given[rows]
        return self._labels[given] if self._values is None else given

    def narrowed(self, n_features: int) -> LabeledRows:
        """With the first features only."""

        def narrow(X: Any) -> Any:
            return X[:, :n_features] if is_sparse(X) else X[:, :n_features].copy()

        made = copy(self)
        made.__dict__.pop("hashes", None)
        stored = isinstance(self.X, StoredRows)
        made.X = self.X.rewritten(narrow, n_features) if stored else narrow(self.X)
        made._columns = self._columns[:n_features]
        return made

    def described(self, rows: Indices, like: FittedPipeline | None = None) -> dict[str, Any]:
        """The `columns` and `weights` of a training on these rows."""
        weights = None if self._weights is None else self._weights[rows]
        columns = self._columns if like is None else like.columns
        return {"columns": columns, "weights": weights}

    def splits(
        self,
        validation: ValidationSplit | Folds | ValidationDataset | None,
        seed: int,
        leave_out_trained: bool = False,
    ) -> list[Split]:
        """The split of the model, and one more for every fold.

        Raises InvalidData (`class-too-small`, `not-separable`, `empty-data`).
        """
        everything = self.everything
        codes = self._codes[everything]
        self._check_weights(codes, everything)
        chosen: list[tuple[Indices, Indices | None]]
        match validation:
            case ValidationSplit(fraction=fraction, stratify=stratify, gap=gap):
                chosen = [self.split(fraction, stratify, gap, seed)]
            case Folds(folds=count, gap=gap):
                apart = replace(self.apart.of(everything), gap=gap)
                pairs = folds(codes, count, seed=seed, apart=apart)
                chosen = [(everything, None)]
                chosen += [(everything[training], everything[some]) for training, some in pairs]
            case _:
                chosen = [(everything, None)]
        origin = f"{self._digest} {validation!r} {seed}"
        splits = [Split(*rows, f"{origin} {k}") for k, rows in enumerate(chosen)]
        return [*map(self._without_trained, splits)] if leave_out_trained else splits

    @property
    def classes(self) -> list[Label]:
        """By number."""
        labels: list[Label] = self._labels.tolist()
        return labels

    def _check_weights(self, codes: npt.NDArray[Any], rows: Indices) -> None:
        """Raises InvalidData (`class-too-small`) for a class whose rows all have weight 0."""
        if self._weights is None or self._values is not None:
            return
        without = np.setdiff1d(codes, codes[self._weights[rows] > 0.0])
        if len(without):
            label = self.classes[without[0]]
            message = f"every row of class {label!r} has weight 0; leave it out with `classes`"
            raise InvalidData("class-too-small", message)

    @property
    def is_of_classes(self) -> bool:
        """Or else of numbers."""
        return self._values is None

    def in_one_group(self, code: int) -> bool:
        """Whether all rows of a class are of one group."""
        groups = self.apart.groups
        return groups is not None and len(np.unique(groups[self._codes == code])) == 1

    def left_out(self, split: Split, n_groups: int, seed: int) -> tuple[list[Split], Indices]:
        """Splits of the same training rows, each without the classes of one group; and the group
        of each class."""
        groups = class_groups(len(self._labels), n_groups, seed=seed)
        own = groups[self._codes[split.training]]
        return [
            Split(split.training[own != k], None, f"{split.digest} {n_groups} {k}")
            for k in range(n_groups)
        ], groups

    def seen(self, splits: Sequence[Split]) -> dict[str, int]:
        """How many validation rows are equal to a training row of the same split, and were left out
        for it, if that was asked."""
        seen = sum(
            count_seen(self.hashes[each.validation], self.hashes[each.training])
            for each in splits
            if each.validation is not None
        )
        left_out = [each.left_out for each in splits if each.left_out is not None]
        return {"trained_rows": seen} | ({"left_out_rows": sum(left_out)} if left_out else {})

    def _without_trained(self, each: Split) -> Split:
        """The split without validation rows that are equal to training rows. Raises InvalidData."""
        if each.validation is None:
            return each
        new = self.without_trained(each.training, each.validation)
        return replace(each, validation=new, left_out=len(each.validation) - len(new))

    def scores(self, fitted: FittedPipeline, rows: Indices) -> npt.NDArray[np.float64]:
        """(n, n_problems) scores of these rows."""
        return np.concatenate(self._of_pieces(fitted, rows, fitted.problem_scores))

    def numbers(self, rows: Indices) -> npt.NDArray[np.float64]:
        """(n,) numeric targets of these rows."""
        assert self._values is not None
        return self._values[rows]

    def baseline(self, rows: Indices) -> Baseline | None:
        """What to compare a model with that was trained on these rows; of classes the metrics say
        it."""
        return None if self._values is None else Baseline.of(self._values[rows])

    def measures(
        self, fitted: FittedPipeline, rows: Indices, baseline: Baseline | None
    ) -> Measures:
        """How well the model predicts these rows."""
        return self.measures_of(fitted, rows, self.predicted(fitted, rows), baseline)

    def predicted(self, fitted: FittedPipeline, rows: Indices) -> npt.NDArray[Any]:
        """Class numbers or numeric targets that the model predicts for these rows."""
        return np.concatenate(self._of_pieces(fitted, rows, partial(_predicted, fitted)))

    def certain_codes(
        self, fitted: FittedPipeline, rows: Indices
    ) -> tuple[npt.NDArray[np.int32], Vector]:
        """What the model predicts for these rows, by number, and how certain it is."""

        def predict(X: Matrix) -> tuple[Array, Vector]:
            return fitted.codes_and_certainty(fitted.problem_scores(X))

        codes, certain = zip(*self._of_pieces(fitted, rows, predict), strict=True)
        return np.concatenate(codes).astype(np.int32), np.concatenate(certain)

    def measures_of(
        self,
        fitted: FittedPipeline,
        rows: Indices,
        predicted: npt.NDArray[Any],
        baseline: Baseline | None,
    ) -> Measures:
        """The same, from what was predicted: class numbers or numeric targets."""
        weights = None if self._weights is None else self._weights[rows]
        more = weights, self.groups_of(rows)
        if fitted.target is not None:
            return Errors(self.numbers(rows), predicted, fitted.target, baseline, *more)
        return Confusion.of(self._codes[rows], predicted, len(self._labels), *more)

    def _hashes_at(self, rows: Indices) -> Words:
        """In any order. These of all rows are computed once."""
        return self.hashes[rows]

    def _of_pieces(
        self, fitted: FittedPipeline, rows: Indices, function: Callable[[Matrix], T]
    ) -> list[T]:
        """Of the rows in pieces of a size that bounds the memory for features and scores."""
        width = fitted.features.n_outputs if fitted.encoder.is_plain else fitted.n_features

        def of(run: slice) -> T:
            self._interrupted()
            return function(self._as_taken_by(fitted, piece_of(self.X, run, rows)))

        executor = IN_THIS_THREAD if fitted.encoder.texts else self._executor  # it remembers words
        return executor.map(of, piece_runs(self.X, max(width, len(fitted.intercepts)), rows))

    def _as_taken_by(self, fitted: FittedPipeline, X: Any) -> Any:
        """Rows in the columns of a model, which may be that of an earlier dataset."""
        if fitted.encoder.is_plain:
            return X
        recoded = recoding(self._columns, fitted.columns)
        if isinstance(X, StoredRows):
            return X.rewritten(recoded)
        return recoded(X)


def _predicted(fitted: FittedPipeline, X: Matrix) -> npt.NDArray[Any]:
    if fitted.target is not None:
        return fitted.predict(X)
    return fitted.codes_from_decision(fitted.decision_function(X)).astype(np.int32)


POINTER = "/validation/dataset_id"


def unscaled_columns(scaling: ScalingName | None, dataset: Dataset) -> tuple[str, ...]:
    """A warning about uneven columns that a model was trained on as they are: a scaling makes them
    alike."""
    uneven = uneven_columns(dataset) if scaling == "none" else None
    if uneven is None:
        return ()
    (small, few), (large, many) = (
        (f"column {number + 1}" if dataset.columns is None else repr(dataset.columns[number]), most)
        for number, most in uneven
    )
    return (
        f"The model was trained on columns as they are, and the values of {large} are up to "
        f"{many:g}, those of {small} only up to {few:g}, so that {small} hardly counts: train with "
        f'`scaling: "{"max-abs" if dataset.sparse else "standardize"}"`.',
    )


def check_measured(spec: JobCreate, dataset: Dataset) -> None:
    """Raises InvalidContent if too few rows are held out: none for a fold, or of a class none to
    learn its probability from; or if a single number is left to train on. `dataset` has the classes
    that are trained on."""
    if isinstance(spec.validation, ValidationSplit | Folds):
        _check_apart(spec.validation, dataset)
    counts = dataset.class_counts or [dataset.n_samples]
    left = 2
    match spec.validation:
        case Folds(folds=folds) if dataset.target_kind == "numbers":
            pointer, least = "/validation/folds", folds
            held_out = [dataset.n_samples]
            left = dataset.n_samples - math.ceil(dataset.n_samples / folds)
        case ValidationSplit(fraction=fraction) if dataset.target_kind == "numbers":
            pointer, least = "/validation/fraction", 1
            held_out = [max(1, held_out_rows(dataset.n_samples, fraction))]
            left = dataset.n_samples - held_out[0]
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
        message = "the data have too few rows to hold some of them out"
        if dataset.classes is not None:
            message = "the classes have too few rows to hold some of them out"
        raise InvalidContent.at(pointer, code, message, "use no validation, or give more rows")
    if left < 2:
        message = "a training needs two rows or more, and one is left"
        raise InvalidContent.at(pointer, code, message, "hold out fewer rows, or give more")
    if spec.calibration is not None and 0 in held_out:
        number = held_out.index(0)
        label = (dataset.classes or ())[number]
        message = f"class {label!r} has {counts[number]} rows: none is left to fit probabilities on"
        hint = "leave out `calibration`, or the class with `classes`"
        raise InvalidContent.at("/calibration", code, message, hint)


def _check_apart(validation: ValidationSplit | Folds, dataset: Dataset) -> None:
    """Raises InvalidContent if groups or times cannot be kept apart."""
    known = dataset.statistics
    if validation.gap and dataset.time is None:
        message = "the dataset has no column of times, between which there could be a gap"
        hint = "leave out `gap`, or upload the data with `time`"
        raise InvalidContent.at("/validation/gap", "not-separable", message, hint)
    if dataset.group is not None and known["group"]["largest"] == dataset.n_samples:
        message = f"all rows are of one group by {dataset.group!r}: none can be held out"
    elif dataset.time is not None and known["time"]["distinct"] == 1:
        message = f"all rows are of one time by {dataset.time!r}: none is in the past of another"
    else:
        return
    hint = "use no validation, or another dataset as the validation set"
    raise InvalidContent.at("/validation", "not-separable", message, hint)


def check_validation(spec: JobCreate, dataset: Dataset, validation: Dataset) -> None:
    """Raises InvalidContent if the rows of `validation` cannot measure a model that is trained on
    the dataset."""
    with _refused():
        recode_onto(validation, dataset, dataset.kinds)
    if validation.target_kind == "numbers":
        return
    with _refused():
        numbers = class_numbers(validation, dataset.classes or ())
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
    codes = data.codes
    if codes is not None:
        codes = class_numbers(validation, dataset.classes or ()).astype(np.int32)[codes]
    taken = recode_onto(validation, dataset, dataset.kinds)

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
