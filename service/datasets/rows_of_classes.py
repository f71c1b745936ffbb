"""The labeled rows of a dataset that a model is made of and measured on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from service.datasets.dataset import DataInFiles, Dataset, LoadedData
from service.rows.spec import Label
from svm.data.matrices import Indices
from svm.data.row_hashes import Words, row_hashes
from svm.data.splitting import Apart, Pair, split
from svm.data.stored_rows import pieces
from svm.errors import InvalidData
from svm.model.measures import Groups


def only_new(rows: Indices, measured: Words, trained: Words) -> Indices:
    """The measured rows that are not among those of a training, by their hashes. Raises InvalidData
    (`empty-data`)."""
    new = rows[~np.isin(measured, trained)]
    if len(rows) and not len(new):
        message = "all rows to measure the model on are equal to training rows: none is left"
        raise InvalidData("empty-data", message)
    return new


class RowsOfClasses:
    """Rows by their number in the dataset, with classes by number, or numeric targets."""

    def __init__(
        self,
        data: LoadedData | DataInFiles,
        dataset: Dataset,
        classes: Sequence[Label] | None = None,
        interrupted: Callable[[], None] = lambda: None,
    ) -> None:
        """`classes`: only the rows of these. `interrupted` is called before every piece of rows
        that is read, and may raise."""
        self.X: Any = data.X
        self._values = data.values
        one_class = np.broadcast_to(np.int32(0), data.X.shape[:1])
        self._codes = one_class if data.codes is None else data.codes
        self._labels = np.asarray(dataset.classes or ())
        if classes is not None:
            numbers = np.searchsorted(self._labels, np.asarray(classes))
            renumbered = np.full(len(self._labels), -1)
            renumbered[numbers] = np.arange(len(numbers))
            self._codes = renumbered[self._codes]
            self._labels = self._labels[numbers]
        self._weights = data.weights
        self.apart = Apart(data.groups, data.times, weights=data.weights)
        self._columns = dataset.kinds
        self._has_copies = any(one["name"] == "duplicates" for one in dataset.audit)
        self._interrupted = interrupted

    def __len__(self) -> int:
        return len(self._codes)

    @property
    def everything(self) -> Indices:
        """Numbers of all rows of these classes."""
        rows: Indices = np.flatnonzero(self._codes >= 0)
        return rows

    def split(self, fraction: float, stratify: bool | None, gap: float, seed: int) -> Pair:
        """Numbers of training and validation rows. Raises InvalidData as `svm.data.splitting`."""
        rows, by_class = self.everything, stratify is not False
        apart = replace(self.apart.of(rows), gap=gap)
        codes = self._codes[rows]
        training, held_out = split(codes, fraction, stratify=by_class, seed=seed, apart=apart)
        return rows[training], rows[held_out]

    def without_trained(self, training: Indices, held_out: Indices) -> Indices:
        """The rows held out that are not equal to training rows. Raises InvalidData
        (`empty-data`)."""
        return only_new(held_out, self.hashes[held_out], self.hashes[training])

    def validated_on(self, spec: Mapping[str, Any], seed: int) -> Indices:
        """The rows that a training with this request held out as a fraction, to be measured on."""
        of = spec["validation"]
        stratify, gap = of["stratify"], of.get("gap", 0.0)
        training, held_out = self.split(of["fraction"], stratify, gap, seed)
        left_out = spec.get("leave_out_trained")
        return self.without_trained(training, held_out) if left_out else held_out

    def groups_of(self, rows: Indices, *, equal: bool = False) -> Groups | None:
        """Which of these rows, ascending, belong together: those of a group, or else equal ones if
        the audit found copies, or if `equal`. In a table of few coarse columns equal rows are
        independent. None if each is by itself."""
        given = self.apart.groups
        if given is None and not (equal or self._has_copies):
            return None
        keys = self._hashes_at(rows) if given is None else given[rows]
        groups = Groups.of(keys, of_equal_rows=given is None)
        return None if len(groups) == len(rows) else groups

    def _hashes_at(self, rows: Indices) -> Words:
        return self.hashes_of(rows)

    @cached_property
    def hashes(self) -> Words:
        """(n,) equal for rows with the same values and class."""
        return self.hashes_of(np.arange(len(self)))

    def hashes_of(self, rows: Indices) -> Words:
        """(n,) of these rows, ascending."""
        found = np.empty(len(rows), dtype=np.uint64)
        start = 0
        for X in pieces(self.X, rows=rows):
            self._interrupted()
            some = slice(start, start + X.shape[0])
            found[some] = row_hashes(X, self.truth(rows[some]), self._columns)
            start += X.shape[0]
        return found

    def truth(self, rows: Indices) -> npt.NDArray[Any]:
        """(n,) classes of these rows, by number, or numeric targets."""
        return self.codes(rows) if self._values is None else self._values[rows]

    def codes(self, rows: Indices) -> npt.NDArray[np.int64]:
        """(n,) classes of these rows, by number; 0 of numeric targets."""
        return self._codes[rows].astype(np.int64)
