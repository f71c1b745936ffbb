"""Passes that other processes compute: the bits of a training, and what is moved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from service.jobs.spread.remote_passes import RemoteValues
from svm.data.matrices import Vector
from svm.model.pipeline import Pipeline
from svm.problem.problem import Problem
from svm.solvers import DualCoordinateDescent, GradientDescent, Newton
from svm.stopping import CostChange, Stopping
from svm.training.preparation import Prepared
from svm.training.training import Execution, Training
from tests.service.jobs.engine.spread.processes import Processes
from tests.svm.cases.trainings import bits, run, train

ROWS, FEATURES = 42_000, 100
"""Some leaves: 4.2 million values."""


@pytest.fixture(scope="module")
def expected(rows: tuple[Vector, Vector]) -> dict[str, Any]:
    """The bits of NEWTON, trained here."""
    return bits(train(NEWTON, *rows).result())


@pytest.fixture(scope="module")
def rows() -> tuple[Vector, Vector]:
    random = np.random.default_rng(1)
    X = random.normal(size=(ROWS, FEATURES))
    return X, np.sign(X[:, :5].sum(axis=1) + random.normal(size=ROWS))


def spread(
    pipeline: Pipeline, X: Any, labels: Any, count: int, unrest: Any = lambda: 1.0, **others: Any
) -> tuple[Training, Processes]:
    """A training with its passes elsewhere, and where."""
    made: list[Processes] = []

    def given(prepared: Prepared, problem: Problem) -> Processes:
        made.append(Processes(problem, prepared.X, count, unrest))
        return made[-1]

    training = train(pipeline, X, labels, spread=given, **others)
    return training, made[0]


NEWTON = Pipeline(solver=Newton(C=1.0), stopping=Stopping(duality_gap=1e-3))


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_bits_do_not_depend_on_the_processes(
    rows: tuple[Vector, Vector], expected: dict[str, Any], count: int
) -> None:
    training, others = spread(NEWTON, *rows, count)
    assert bits(training.result()) == expected
    assert others.layout.n_leaves > 4
    assert sum(len(process.keepers) for process in others.processes) == min(
        count, others.layout.n_cells
    )


@pytest.mark.parametrize("form", ["csr", "weighted", "hessian-of-few", "gradient-descent"])
def test_bits_are_the_same_for_other_passes(rows: tuple[Vector, Vector], form: str) -> None:
    """Conjugate gradients, weights, Hessians over all cells, and another solver."""
    X: Any
    X, labels = rows
    pipeline = NEWTON
    others: dict[str, Any] = {}
    if form == "csr":
        X = csr_array(np.where(np.abs(X) > 0.3, X, 0.0))
    if form == "weighted":
        others["weights"] = np.random.default_rng(2).uniform(0.5, 2.0, ROWS)
    if form == "hessian-of-few":
        pipeline = Pipeline(solver=Newton(C=1e-4), stopping=Stopping(duality_gap=1e-6))
    if form == "gradient-descent":
        rule = CostChange(epsilon=1.0)
        pipeline = Pipeline(solver=GradientDescent(C=1e-3), stopping=Stopping(cost_change=rule))
    expected = bits(train(pipeline, X, labels, **others).result())
    assert bits(spread(pipeline, X, labels, 3, **others)[0].result()) == expected


@pytest.mark.parametrize("seed", range(1))
def test_lost_values_are_made_again(
    rows: tuple[Vector, Vector], expected: dict[str, Any], seed: int
) -> None:
    """Processes that forget all, and others that do their part, change no bit."""
    unrest = np.random.default_rng(seed).random
    training, _ = spread(NEWTON, *rows, 3, unrest)
    assert bits(training.result()) == expected


def test_interrupted_training_continues_elsewhere_or_here(
    rows: tuple[Vector, Vector], expected: dict[str, Any]
) -> None:
    """A checkpoint has values of rows, wherever they were."""

    def given(prepared: Prepared, problem: Problem) -> Processes:
        return Processes(problem, prepared.X, 2)

    first = Training(NEWTON, *rows, seed=0, how=Execution(spread=given))
    for progress in first:
        if progress.epoch == 4:
            break
    checkpoint = first.checkpoint()
    for where in (given, None):
        training = Training(
            NEWTON, *rows, seed=0, checkpoint=checkpoint, how=Execution(spread=where)
        )
        run(training)
        assert bits(training.result()) == expected


def test_solvers_that_need_their_rows_stay_here(rows: tuple[Vector, Vector]) -> None:
    def given(prepared: Prepared, problem: Problem) -> Processes:
        raise AssertionError("not asked")

    pipeline = Pipeline(solver=DualCoordinateDescent(C=1e-3), stopping=Stopping(max_epochs=2))
    train(pipeline, *rows, spread=given)


def test_a_step_is_four_round_trips(rows: tuple[Vector, Vector]) -> None:
    """The rows near the margin, the Hessian, the changes of the scores, and the end of the step
    with the search for it; one more if that search needs another length, and one more if a sample
    of the rows is enough. Passes that only make values of rows are done with the next one."""
    training, others = spread(NEWTON, *rows, 2)
    steps = training.result().epochs
    beside = 3  # the first sums, the last ones, and the number of support vectors
    assert 4 * steps + beside <= others.round_trips <= 6 * steps + beside


def test_little_is_moved(rows: tuple[Vector, Vector]) -> None:
    """Sums and weights, but no values of rows except the labels, once."""
    pipeline = Pipeline(solver=Newton(C=1.0), stopping=Stopping(duality_gap=1e-3))
    training, others = spread(pipeline, rows[0][:, :54].copy(), rows[1], 2)
    moved = sum(process.moved_bytes for process in others.processes)
    # Of few rows: the sums, most of it Hessians, do not grow with their number.
    assert moved < 0.05 * ROWS * 54 * 8
    state: Any = training._pairs[0].state
    assert isinstance(state.scores, RemoteValues)
    assert len(state.scores) == ROWS
