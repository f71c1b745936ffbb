"""The validation rows of a comparison, and how the models of its entries predict them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from service.jobs.comparisons.results import ComparisonState, place_of
from service.jobs.training.rows import LabeledRows, Split
from svm.data.matrices import Indices, Vector
from svm.model.measures import Errors, Measures, mean_difference
from svm.model.target import Target

MEASURED_ROWS = 20_000
"""For which a comparison keeps the predictions of each model of numbers."""


class ValidationRows:
    """The rows that measure entries. Models of numbers predict not all of many, since their
    predictions are kept until the comparison ends."""

    def __init__(self, splits: Sequence[Split], *, numeric: bool) -> None:
        self.of_split = [each.validation for each in splits]
        """None of the split of the model, if there are folds."""
        if numeric:
            count = sum(len(rows) for rows in self.of_split if rows is not None)
            apart = -(-count // MEASURED_ROWS)
            self.of_split = [rows if rows is None else rows[::apart] for rows in self.of_split]

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
        if not state.predicted:
            return state.results[entry].confusion
        rows, predicted = self.predicted(state, entry)
        return Errors(data.numbers(rows), predicted, Target(0.0, 1.0), None)

    def behind(self, state: ComparisonState, data: LabeledRows, best: int) -> dict[int, Any]:
        """Of models of numbers, by entry: how much larger the errors are than those of the best."""
        if not state.predicted:
            return {}
        errors = {}
        for entry, each in enumerate(state.results):
            if each.is_finished:
                rows, predicted = self.predicted(state, entry)
                errors[entry] = np.abs(data.numbers(rows) - predicted)
        least = errors.pop(best)
        differences = {entry: mean_difference(own, least) for entry, own in errors.items()}
        return {
            entry: {"difference": mean, "interval": ends, "tie": ends is None or ends[0] <= 0.0}
            for entry, (mean, ends) in differences.items()
        }
