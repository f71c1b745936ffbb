"""`auto` finds the family of functions that the data asks for, with the same bits everywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from svm import Auto, Pipeline, Search, Training
from svm.data.matrices import Array, Vector
from svm.training.search import Outcome, Task, sample

USUAL = Pipeline(solver=Auto(), scaling="standardize")


def ring(n: int, seed: int = 0) -> tuple[Vector, Array]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 2))
    return X, np.where(np.square(X).sum(axis=1) > 1.4, "out", "in")


def bands(n: int, seed: int = 0) -> tuple[Vector, Array]:
    random = np.random.default_rng(seed)
    X = random.uniform(-1.0, 1.0, size=(n, 6))
    score = np.sin(5.0 * X[:, 0]) + np.abs(2.0 * X[:, 1]) - 1.0
    return X, np.where(score + 0.2 * random.normal(size=n) > 0.0, 1, 0)


def plane(n: int, seed: int = 0) -> tuple[Vector, Array]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 5))
    return X, np.where(X @ np.arange(5.0) + random.normal(size=n) > 0.0, 1, 0)


def completed(search: Search, *, backwards: bool = False) -> Outcome:
    while tasks := search.open_tasks():
        task = tasks[-1 if backwards else 0]
        search.take(task, search.compute(task))
    return search.outcome()


@pytest.mark.parametrize(
    ("make", "family"), [(ring, "gaussian"), (bands, "splines"), (plane, "linear")]
)
def test_it_keeps_the_family_that_the_data_was_made_of(make: Any, family: str) -> None:
    X, labels = make(400)
    outcome = completed(Search(USUAL, X, labels, seed=0))
    if family == "gaussian":  # a circle is also a sum of curves
        assert outcome.chosen.family in ("splines", "gaussian")
    else:
        assert outcome.chosen.family == family
    training = Training(outcome.pipeline, X, labels, seed=0)
    for _ in training:
        pass
    others, truth = make(4000, seed=1)
    accuracy = np.mean(training.result().fitted.predict(others) == truth)
    usual = Training(USUAL, X, labels, seed=0)
    for _ in usual:
        pass
    assert accuracy >= np.mean(usual.result().fitted.predict(others) == truth) - 0.02
    assert abs((1.0 - outcome.loss) - accuracy) < 0.06
    assert training.result().certificate.worst.relative_gap <= 1e-3


def test_the_order_of_tasks_and_an_interruption_change_no_bit() -> None:
    X, labels = bands(300)
    outcome = completed(Search(USUAL, X, labels, seed=3))
    assert completed(Search(USUAL, X, labels, seed=3), backwards=True) == outcome
    first = Search(USUAL, X, labels, seed=3)
    numbers: dict[int, Task] = {}
    while tasks := first.open_tasks():
        for number, task in enumerate(first.tasks()):  # a task keeps its number
            assert numbers.setdefault(number, task) == task
        resumed = Search(USUAL, X, labels, seed=3)
        resumed.results = dict(first.results)
        first.take(tasks[0], resumed.compute(tasks[0]))
    assert first.outcome() == outcome


def test_more_rows_are_compared_once_more() -> None:
    X, labels = plane(4000)
    search = Search(USUAL, X, labels, seed=0)
    outcome = completed(search)
    assert outcome.rows > 1500
    assert [each.folds for each in outcome.tried][:2] == [2, 2]
    assert {task.is_last for task in search.tasks()} == {False, True}


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_rows_are_given_by_number(form: Any) -> None:
    """A copy of those that take part would be another one in memory."""
    X, labels = plane(400)
    some, usual = np.flatnonzero(X[:, 0] < 0.5), replace(USUAL, scaling="none")
    expected = completed(Search(usual, form(X[some]), labels[some], seed=0))
    X[X[:, 0] >= 0.5] = np.nan
    assert completed(Search(usual, form(X), labels[some], rows=some, seed=0)) == expected


def test_sparse_rows_and_numbers() -> None:
    X, labels = plane(300)
    outcome = completed(Search(replace(USUAL, scaling="none"), csr_array(X), labels, seed=0))
    assert {each.candidate.family for each in outcome.tried} == {"linear"}
    random = np.random.default_rng(0)
    targets = np.sin(3.0 * X[:, 0]) + 0.1 * random.normal(size=len(X))
    outcome = completed(Search(USUAL.for_numbers(), X, targets, seed=0))
    assert outcome.chosen.family != "linear"
    assert outcome.loss < 0.3
    assert "mean absolute error" in outcome.summary


def test_weights_of_rows_and_classes_count_in_the_comparison() -> None:
    X, labels = plane(300)
    rare = np.where((labels == 1) & (X[:, 0] > 0.6), 1, 0)
    plain = completed(Search(USUAL, X, rare, seed=0))
    balanced = completed(Search(replace(USUAL, class_weight="balanced"), X, rare, seed=0))
    doubled = completed(Search(USUAL, X, rare, weights=np.full(len(X), 2.0), seed=0))
    assert balanced.loss != plain.loss
    assert doubled.rows == plain.rows


def test_a_class_with_one_row_of_weight() -> None:
    """A fold without it cannot be trained: the linear model stays."""
    X, labels = plane(120)
    weights = np.where(labels == 1, 0.0, 1.0)
    weights[np.flatnonzero(labels == 1)[0]] = 1.0
    outcome = completed(Search(USUAL, X, labels, weights=weights, seed=0))
    assert outcome.rows <= 1 + np.count_nonzero(labels == 0)


def test_a_sample_has_every_class() -> None:
    codes = np.repeat([0, 1, 2], [9_990, 7, 3])
    rows = sample(codes, 1000, 0)
    assert np.bincount(codes[rows]).tolist()[1:] == [5, 3]
    assert np.array_equal(rows, np.unique(rows))
    assert abs(len(rows) - 1000) < 10
