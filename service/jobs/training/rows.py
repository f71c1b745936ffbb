"""The rows of a training job: which are trained on, which are held back, and how a model does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from service.datasets.dataset import DataInFiles, Dataset, LoadedData
from service.jobs.training.schemas import Folds, HeldBack
from svm.data.matrices import Indices, Matrix
from svm.data.splitting import fold_numbers, split
from svm.data.stored_rows import pieces
from svm.model.metrics import confusion_matrix
from svm.model.pipeline import FittedPipeline


@dataclass(frozen=True, slots=True)
class Part:
    """Rows for one training, by number in the dataset, ascending."""

    kept: Indices
    """To train on."""
    held_back: Indices | None
    """To measure on."""
    digest: str
    """Stands for values and labels of the rows to train on: equal for equal ones."""


class LabelledRows:
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
        """(X, labels) of some rows, ascending; all of them are not copied."""
        if len(rows) == len(self):
            return self._X, self._labels[self._codes]
        return self._X[rows], self._labels[self._codes[rows]]

    def parts(self, validation: HeldBack | Folds | None, seed: int) -> list[Part]:
        """The part that the model is trained on, and one more for every fold.

        Raises InvalidData (`class-too-small`).
        """
        everything = np.arange(len(self))
        chosen: list[tuple[Indices, Indices | None]] = [(everything, None)]
        match validation:
            case HeldBack(fraction=fraction, stratify=stratify):
                chosen = [split(self._codes, fraction, stratify=stratify, seed=seed)]
            case Folds(folds=count):
                numbers = fold_numbers(self._codes, count, seed=seed)
                chosen += [
                    (np.flatnonzero(numbers != k), np.flatnonzero(numbers == k))
                    for k in range(count)
                ]
        origin = f"{self._digest} {validation!r} {seed}"
        return [Part(*rows, f"{origin} {k}") for k, rows in enumerate(chosen)]

    def scores(
        self, fitted: FittedPipeline, rows: Indices
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """(n, n_problems) scores of these rows, and (n,) their classes by number."""
        parts = [fitted.problem_scores(X) for X in self._pieces(fitted, rows)]
        return np.concatenate(parts), self.codes(rows)

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
        """So that neither the features nor the scores of all rows need room at once."""
        width = max(fitted.features.n_outputs, len(fitted.intercepts))
        for piece in pieces(self._X, width, rows):
            self._interrupted()
            yield piece
