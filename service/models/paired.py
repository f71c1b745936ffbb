"""Two models on the same validation rows: whether one is better beyond chance."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from service.datasets.dataset import Dataset
from service.datasets.rows_of_classes import RowsOfClasses
from service.datasets.store import DatasetStore
from service.errors import NotFound
from service.models.measured import in_groups
from service.models.sources import FEWEST_ROWS, evenly
from service.storage.database.tables import ModelVersion
from svm.data.matrices import Array, Indices
from svm.data.stored_rows import StoredRows, pieces
from svm.model.measures import difference_of_groups, mean_difference, share_difference
from svm.model.pipeline import FittedPipeline

MOST_ROWS = 20_000
MULTIPLICATIONS = 2e8
"""Cost limit of predicting them by one of the models: some tenths of a second."""


@dataclass(frozen=True, slots=True)
class Paired:
    """The difference of the errors of two models on the same rows."""

    difference: float
    """By how much the share of wrong rows of the second, or its mean absolute error, is larger."""
    interval: list[float] | None
    """With 95 % confidence."""
    n_samples: int
    """Rows that were predicted by both."""
    n_total: int
    """Rows of the validation set, from which they were chosen evenly."""
    groups: str = ""
    """How many groups they are in, as words, if those are compared and not rows."""

    @property
    def beyond_chance(self) -> bool:
        return self.interval is not None and not self.interval[0] <= 0.0 <= self.interval[1]


def same_rows(one: ModelVersion, other: ModelVersion) -> bool:
    """Whether both were measured on the same rows, held out of the same data."""
    of_each = [_measured_on(version) for version in (one, other)]
    return of_each[0] is not None and of_each[0] == of_each[1]


def _measured_on(version: ModelVersion) -> tuple[Any, ...] | None:
    """What decides which rows validate a model; None if there are none."""
    spec, validation = version.spec, version.spec.get("validation") or {}
    if version.dataset_digest is None or not validation:
        return None
    seed = None if "dataset_id" in validation else version.seed
    names = "classes", "leave_out_trained"
    return version.dataset_digest, version.predicts, validation, seed, *map(spec.get, names)


def paired_difference(
    datasets: DatasetStore,
    version: ModelVersion,
    fitted: FittedPipeline,
    other: FittedPipeline,
    multiplications: int,
) -> Paired | None:
    """Predict the validation rows of a version by its model and by another one that was measured on
    the same rows; one row takes at most `multiplications`. None with folds, whose models are not
    kept, with a validation set of another dataset, and without the data."""
    validation: Mapping[str, Any] = version.spec.get("validation") or {}
    dataset = _dataset(datasets, version)
    if dataset is None or "fraction" not in validation or version.seed is None:
        return None
    with suppress(NotFound):
        data = datasets.open(dataset)
        rows = RowsOfClasses(data, dataset, version.spec.get("classes"))
        measured = rows.validated_on(version.spec, version.seed)
        affordable = max(FEWEST_ROWS, int(MULTIPLICATIONS / multiplications))
        chosen = evenly(measured, min(MOST_ROWS, affordable))
        wrong = [_errors(data.X, each, rows, chosen, data.values) for each in (other, fitted)]
        if groups := rows.groups_of(chosen, equal=True):
            shares = data.values is None
            difference, ends = difference_of_groups(
                wrong[0] - wrong[1], groups.numbers, of_shares=shares
            )
            words = in_groups(groups.counted())
            return Paired(difference, ends, len(chosen), len(measured), words)
        if data.values is not None:
            difference, ends = mean_difference(*wrong)
        else:
            more, fewer = (int((wrong[k] > wrong[1 - k]).sum()) for k in (0, 1))
            difference, ends = share_difference(more, fewer, len(chosen))
        return Paired(difference, ends, len(chosen), len(measured))
    return None


def _dataset(datasets: DatasetStore, version: ModelVersion) -> Dataset | None:
    with suppress(NotFound):
        if version.dataset_id is not None:
            return datasets.get(version.dataset_id).taken_as(version.predicts)
    return None


def _errors(
    X: StoredRows, fitted: FittedPipeline, rows: RowsOfClasses, chosen: Indices, values: Any
) -> Array:
    """Of each row: its absolute error, or 1 if its class is predicted wrongly."""
    width = max(fitted.features.n_outputs, len(fitted.intercepts))
    scores = np.concatenate([fitted.problem_scores(X) for X in pieces(X, width, chosen)])
    if values is not None:
        errors: Array = np.abs(values[chosen] - fitted.values_from_scores(scores))
        return errors
    codes = fitted.codes_from_decision(fitted.decision_from_scores(scores))
    wrong: Array = (codes != rows.codes(chosen)).astype(np.float64)
    return wrong
