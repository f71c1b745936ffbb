"""The rows of a training job: training sets, validation sets, and how a model scores on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from service.datasets.dataset import DataInFiles, Dataset, LoadedData
from service.jobs.training.schemas import Folds, ValidationSplit
from svm.data.matrices import Indices, Matrix
from svm.data.splitting import fold_numbers, split
from svm.data.stored_rows import pieces
from svm.model.metrics import confusion_matrix
from svm.model.pipeline import FittedPipeline


@dataclass(frozen=True, slots=True)
class Split:
    """The rows of one training, by number in the dataset, ascending."""

    training: Indices
    validation: Indices | None
    digest: str
    """Equal for equal values and labels of the training rows."""


class LabeledRows:
    """A dataset that can be trained on."""

    def __init__(
        self,
        data: LoadedData | DataInFiles,
        dataset: Dataset,
        interrupted: Callable[[], None] = lambda: None,
    ) -> None:
        """`interrupted` is called before every piece of rows that is scored, and may raise."""
        assert data.codes is not None
        assert dataset.classes is not None
        self._X = data.X
        self._codes = data.codes
        self._labels = np.asarray(dataset.classes)
        self._digest = dataset.matrix_digest
        self._interrupted = interrupted

    def __len__(self) -> int:
        return len(self._codes)

    def of(self, rows: Indices) -> tuple[Any, npt.NDArray[Any]]:
        """(X, labels) of some rows, ascending; not copied if these are all rows."""
        if len(rows) == len(self):
            return self._X, self._labels[self._codes]
        return self._X[rows], self._labels[self._codes[rows]]

    def splits(self, validation: ValidationSplit | Folds | None, seed: int) -> list[Split]:
        """The split of the model, and one more for every fold.

        Raises InvalidData (`class-too-small`).
        """
        everything = np.arange(len(self))
        chosen: list[tuple[Indices, Indices | None]] = [(everything, None)]
        match validation:
            case ValidationSplit(fraction=fraction, stratify=stratify):
                chosen = [split(self._codes, fraction, stratify=stratify, seed=seed)]
            case Folds(folds=count):
                numbers = fold_numbers(self._codes, count, seed=seed)
                chosen += [
                    (np.flatnonzero(numbers != k), np.flatnonzero(numbers == k))
                    for k in range(count)
                ]
        origin = f"{self._digest} {validation!r} {seed}"
        return [Split(*rows, f"{origin} {k}") for k, rows in enumerate(chosen)]

    def scores(
        self, fitted: FittedPipeline, rows: Indices
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """(n, n_problems) scores of these rows, and (n,) their classes by number."""
        scores = [fitted.problem_scores(X) for X in self._pieces(fitted, rows)]
        return np.concatenate(scores), self.codes(rows)

    def codes(self, rows: Indices) -> npt.NDArray[np.int64]:
        """(n,) classes of these rows, by number."""
        return self._codes[rows].astype(np.int64)

    def confusion(self, fitted: FittedPipeline, rows: Indices) -> npt.NDArray[np.int64]:
        """(n_classes, n_classes) how many of these rows, by true and predicted class."""
        n_classes = len(self._labels)
        total = np.zeros((n_classes, n_classes), dtype=np.int64)
        start = 0
        for X in self._pieces(fitted, rows):
            some = rows[start : start + X.shape[0]]
            start += X.shape[0]
            predicted = np.searchsorted(fitted.classes, fitted.predict(X))
            total += confusion_matrix(self._codes[some], predicted, n_classes)
        return total

    def _pieces(self, fitted: FittedPipeline, rows: Indices) -> Iterator[Matrix]:
        """Of a size that bounds the memory for features and scores."""
        width = max(fitted.features.n_outputs, len(fitted.intercepts))
        for piece in pieces(self._X, width, rows):
            self._interrupted()
            yield piece
