"""What one column alone would change: checked on the model itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from service.predictions.batcher import score_rows
from service.predictions.changes import SHORT, Range, largest_moves, smallest_changes
from service.predictions.loaded_models import LoadedModel
from svm import GaussianKernel, KernelPegasos, Newton, Pipeline, Splines
from svm.model.pipeline import FittedPipeline
from tests.service.predictions.table_rows import NAMES, TABLE, fitted_table, raw_rows
from tests.service.predictions.test_numbers import model_of_numbers
from tests.svm.cases.problems import blobs
from tests.svm.cases.trainings import train

PIPELINES = {
    "linear": Pipeline(solver=Newton(), scaling="standardize"),
    "splines": Pipeline(solver=Newton(), features=Splines()),
    "gaussian": Pipeline(solver=KernelPegasos(kernel=GaussianKernel())),
    "against all others": Pipeline(solver=Newton(), multiclass="one-vs-rest"),
}


def loaded(fitted: FittedPipeline, columns: list[str] | None = None) -> LoadedModel:
    classes = [] if fitted.target is not None else fitted.classes.tolist()
    return LoadedModel(
        "key", "m", 1, "digest", classes, columns, fitted.n_features, fitted, fitted.nbytes
    )


def ranges_of(X: NDArray[np.float64]) -> list[Range]:
    return [(float(np.nanmin(column)), float(np.nanmax(column))) for column in X.T]


def label_with(model: LoadedModel, row: NDArray[np.float64], column: int, value: float) -> object:
    changed = row.copy()
    changed[0, column] = value
    (label,) = score_rows(model, changed).label
    return label


@pytest.mark.parametrize("kind", PIPELINES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_change_of_a_number_flips_the_label_and_less_does_not(kind: str, n_classes: int) -> None:
    """For linear, curved and kernel models; inside the range of the data."""
    X, labels = blobs(n_classes)
    model = loaded(train(PIPELINES[kind], X, labels).result().fitted)
    ranges, n_changes = ranges_of(X), 0
    for i in range(20):
        row = X[i : i + 1]
        (own,) = score_rows(model, row).label
        changes = smallest_changes(model, row, ranges)
        assert [one.size for one in changes] == sorted(one.size for one in changes)
        for one in changes:
            n_changes += 1
            (after,) = one.after
            assert one.before == row[0, one.column]
            assert label_with(model, row, one.column, after) == one.label != own
            less = after - SHORT * (after - one.before)
            assert label_with(model, row, one.column, less) == own
    assert n_changes > 10


@pytest.mark.parametrize("kind", PIPELINES)
@pytest.mark.parametrize("far", [100.0, -4000.0, 1e9])
def test_a_limit_is_as_near_for_a_value_far_outside(kind: str, far: float) -> None:
    """It is known to a share of the range of training, not of the way there."""
    X, labels = blobs(3)
    model = loaded(train(PIPELINES[kind], X, labels).result().fitted)
    ranges, n_changes = ranges_of(X), 0
    for i in range(5):
        for j, ends in enumerate(ranges):
            assert ends is not None
            row, width = X[i : i + 1].copy(), ends[1] - ends[0]
            row[0, j] = far
            (own,) = score_rows(model, row).label
            for one in smallest_changes(model, row, ranges):
                if one.column != j:
                    continue
                n_changes += 1
                (after,) = one.after
                assert label_with(model, row, j, after) == one.label != own
                away = math.copysign(1.0, far - after)
                for step in (0.011, 0.02, 0.05, 0.5, 1.0, 3.0):
                    assert label_with(model, row, j, after + away * step * width) == own
    assert n_changes > 0


def test_changes_of_linear_models_are_complete() -> None:
    """Each column whose ends of the range flip the label is listed, with few digits."""
    X, labels = blobs(2)
    model = loaded(train(PIPELINES["linear"], X, labels).result().fitted)
    ranges = ranges_of(X)
    for i in range(20):
        row = X[i : i + 1]
        (own,) = score_rows(model, row).label
        flips = {
            j
            for j, ends in enumerate(ranges)
            if ends is not None and any(label_with(model, row, j, end) != own for end in ends)
        }
        changes = smallest_changes(model, row, ranges)
        # The last step to the end of the range may be left out, by rounding outwards.
        assert {one.column for one in changes} == flips
        assert all(len(repr(one.after[0])) <= 12 for one in changes if one.size > 0.01)


def test_changes_of_tables() -> None:
    """All levels that flip the label, booleans, dates by whole days, and missing numbers."""
    model = loaded(fitted_table(), NAMES)
    X = raw_rows(60, seed=3, unknown=0.0)
    ranges: list[Range] = ranges_of(X)
    kinds = set()
    for i in range(60):
        row = X[i : i + 1]
        (own,) = score_rows(model, row).label
        listed = set()
        for one in smallest_changes(model, row, ranges):
            kinds.add((one.kind, math.isnan(one.before)))
            for value in one.after:
                listed.add((one.column, value))
                assert label_with(model, row, one.column, value) == one.label != own
            if one.kind == "date" and not math.isnan(one.before):
                step = math.copysign(1.0, one.after[0] - one.before)
                assert label_with(model, row, one.column, one.after[0] - step) == own
        for j, column in enumerate(TABLE):
            if column.kind in ("category", "boolean"):
                values = range(len(column.levels) or 2)
                for value in values:
                    if value != row[0, j] and label_with(model, row, j, value) != own:
                        assert (j, value) in listed
    assert ("category", False) in kinds
    assert ("number", False) in kinds
    assert ("number", True) in kinds


def test_columns_without_a_range_are_left_out() -> None:
    """The training data may have been deleted; a range of one value leaves nothing to try."""
    X, labels = blobs(2)
    model = loaded(train(PIPELINES["linear"], X, labels).result().fitted)
    assert smallest_changes(model, X[:1], [None] * X.shape[1]) == []
    same: list[Range] = [(float(value), float(value)) for value in X[0]]
    assert smallest_changes(model, X[:1], same) == []


def test_moves_of_numbers_are_those_of_the_model() -> None:
    """The farthest first, with the values at which the number is lowest and highest."""
    model = loaded(model_of_numbers(), ["a", "b", "c"])
    row = np.array([[1.0, 2.0, 3.0]])
    moves = largest_moves(model, row, [(-1.0, 2.0), (0.0, 5.0), (3.0, 3.0)])
    lengths = [one.highest - one.lowest for one in moves]
    assert lengths == sorted(lengths, reverse=True)
    assert sorted(one.column for one in moves) == [0, 1]
    for one in moves:
        for value, expected in ((one.lowest_at, one.lowest), (one.highest_at, one.highest)):
            changed = row.copy()
            changed[0, one.column] = value
            assert score_rows(model, changed).value.tolist() == [pytest.approx(expected)]
