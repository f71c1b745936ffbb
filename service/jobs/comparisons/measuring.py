"""The validation rows of a comparison, and how the models of its entries predict them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from service.jobs.comparisons.results import ComparisonState, place_of
from service.jobs.comparisons.schemas import RankBy
from service.jobs.training.rows import LabeledRows, Split
from svm.data.matrices import Indices, Vector
from svm.model.measures import (
    Baseline,
    Confusion,
    Errors,
    Measures,
    difference_of_groups,
    mean_difference,
    share_difference,
)
from svm.model.pipeline import FittedPipeline
from svm.model.target import Target

MEASURED_ROWS = 20_000
"""For which a comparison keeps the predictions of each model of numbers, in 8 bytes. For 64 times
as many it keeps which of them a model of classes predicts wrongly, in a bit."""


class ValidationRows:
    """The rows that measure entries, and what is kept of each model's predictions until the
    comparison ends: models of numbers do not predict all of many."""

    def __init__(self, splits: Sequence[Split], *, numeric: bool) -> None:
        self.of_split = [each.validation for each in splits]
        """None of the split of the model, if there are folds."""
        self._numeric = numeric
        count = sum(len(rows) for rows in self.of_split if rows is not None)
        self._apart = max(1, -(-count // (MEASURED_ROWS * (1 if numeric else 64))))
        if numeric:
            some = slice(None, None, self._apart)
            self.of_split = [rows if rows is None else rows[some] for rows in self.of_split]

    def measure(
        self,
        state: ComparisonState,
        entry: int,
        split: int,
        data: LabeledRows,
        fitted: FittedPipeline,
        baseline: Baseline | None,
    ) -> Measures:
        """Predict these rows of a split by the model of an entry, and keep what `behind` needs."""
        rows = self.of_split[split]
        assert rows is not None
        predicted = kept = data.predicted(fitted, rows)
        if not self._numeric:
            kept = np.packbits((predicted != data.codes(rows))[:: self._apart])
        state.predicted[place_of(entry, split)] = kept
        return data.measures_of(fitted, rows, predicted, baseline)

    def predicted(self, state: ComparisonState, entry: int) -> tuple[Indices, Vector]:
        """All of these rows, and the numbers predicted for them by trainings that did not see
        them."""
        parts = [
            (rows, state.predicted[place_of(entry, number)])
            for number, rows in enumerate(self.of_split)
            if rows is not None
        ]
        return np.concatenate([rows for rows, _ in parts]), np.concatenate([p for _, p in parts])

    def of_folds(self, state: ComparisonState, data: LabeledRows, entry: int) -> Measures:
        """Those of all folds together, in the order of the folds."""
        if not self._numeric:
            return state.results[entry].confusion
        rows, predicted = self.predicted(state, entry)
        groups = data.groups_of(rows)
        return Errors(data.numbers(rows), predicted, Target(0.0, 1.0), None, groups=groups)

    def behind(
        self, state: ComparisonState, data: LabeledRows, best: int, by: RankBy
    ) -> dict[int, Any]:
        """By entry: how much larger its errors are than those of the best, row by row. Classes have
        no such errors if they are ranked by another score than accuracy."""
        found: dict[int, Any] = {}
        if by in Confusion.SCORES[1:]:
            return found
        for entry, each in enumerate(state.results):
            if each.is_finished and entry != best:
                mean, ends = self._difference(state, data, entry, best)
                tie = ends is None or ends[0] <= 0.0
                found[entry] = {"difference": mean, "interval": ends, "tie": tie}
        return found

    def _difference(
        self, state: ComparisonState, data: LabeledRows, entry: int, best: int
    ) -> tuple[float, list[float] | None]:
        if self._numeric:
            rows, predicted = self.predicted(state, entry)
            truth, others = data.numbers(rows), self.predicted(state, best)[1]
            errors = np.abs(truth - predicted), np.abs(truth - others)
            if groups := data.groups_of(rows):
                each = errors[0] - errors[1], groups.numbers
                return difference_of_groups(*each, of_shares=False)
            return mean_difference(*errors)
        differences, measured = [], []
        for number, some in enumerate(self.of_split):
            if some is not None:
                measured.append(some[:: self._apart])
                both = (state.predicted[place_of(k, number)] for k in (entry, best))
                wrong = [np.unpackbits(bits, count=len(measured[-1])) for bits in both]
                differences.append(np.subtract(*wrong, dtype=np.float64))
        difference, rows = np.concatenate(differences), np.concatenate(measured)
        if groups := data.groups_of(rows):
            return difference_of_groups(difference, groups.numbers, of_shares=True)
        more, fewer = (int(np.count_nonzero(difference == sign)) for sign in (1.0, -1.0))
        return share_difference(more, fewer, len(rows))
