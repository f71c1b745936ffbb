"""Gradient descent: batches, starts and regularizers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from svm.errors import InvalidHyperparameter
from svm.model.pipeline import Pipeline
from svm.problem.objectives import primal
from svm.problem.problem import Problem
from svm.solvers import GradientDescent
from svm.solvers.gradient_descent import GradientDescentState
from svm.solvers.options import InverseTime, RandomStart
from svm.stopping import CostChange, Stopping
from svm.training.training import Training
from tests.svm.cases.problems import CASES, FORMS, INTERCEPTS, Form, blobs, problem_of
from tests.svm.cases.trainings import bits, train

CASE = CASES["weighted"]
X, LABELS = blobs(2)
N = len(CASE.y)


def after(solver: GradientDescent, problem: Problem, epochs: int) -> GradientDescentState:
    state = solver.start(problem)
    for _ in range(epochs):
        state = solver.advance(problem, state)
    return state


@pytest.mark.parametrize("regularizer", ["share", "whole"])
@pytest.mark.parametrize("batch_size", [N, N + 1, 10**9])
@pytest.mark.parametrize("form", FORMS)
def test_batch_of_all_rows_or_more_is_batch_descent(
    form: Form, batch_size: int, regularizer: Any
) -> None:
    """b ≥ n is "all" to the bit: one update per epoch, rows in the order of the data."""
    problem = problem_of(CASE, "free", form)
    named = GradientDescent(batch_size="all", learning_rate=0.01, regularizer=regularizer)
    counted = GradientDescent(batch_size=batch_size, learning_rate=0.01, regularizer=regularizer)
    expected, actual = (after(solver, problem, 5) for solver in (named, counted))
    assert actual.updates == expected.updates == 5
    assert actual.w.tobytes() == expected.w.tobytes()
    assert actual.intercept == expected.intercept


@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_whole_and_share_are_one_for_batch_descent(intercept: Any) -> None:
    """With all rows in a batch, its share of ½‖w‖² is all of it (n/n may round)."""
    problem = problem_of(CASE, intercept)
    share, whole = (
        after(GradientDescent(learning_rate=0.01, regularizer=each), problem, 20)
        for each in ("share", "whole")
    )
    np.testing.assert_allclose(share.w, whole.w, rtol=1e-13)


def test_first_batches_are_blocks_of_the_permutation() -> None:
    """Batches are consecutive blocks of the epoch's permutation: block 0 first, the short rest
    last."""
    size, rate = 16, 0.01
    problem = problem_of(CASE, "none")
    state = after(GradientDescent(batch_size=size, learning_rate=rate), problem, 1)
    w, order = np.zeros(4), problem.permutation(0)
    C = 1.0 / (N * CASE.regularization)
    assert [len(order[first : first + size]) for first in range(0, N, size)] == [16, 16, 8]
    for first in range(0, N, size):
        batch = order[first : first + size]
        inside = batch[CASE.y[batch] * (CASE.X[batch] @ w) < 1.0]
        signed_sum = (CASE.weights[inside] * CASE.y[inside]) @ CASE.X[inside]
        w = w - rate * (len(batch) / N * w - C * signed_sum)
    np.testing.assert_allclose(state.w, w, rtol=1e-12)
    assert state.updates == 3


def test_share_of_a_short_batch() -> None:
    """If no row violates its margin, one epoch shrinks w by Π (1 - η b_k/n), the short last batch
    by its own smaller share; `whole` shrinks by 1 - η in every update."""
    rate, scale = 0.1, 1e6
    labels = np.where(CASE.X[:, 0] > 0, 1.0, -1.0)
    rows = np.column_stack([labels, CASE.X[:, 1:]])
    for regularizer, factor in (
        ("share", (1.0 - rate * 16 / N) ** 2 * (1.0 - rate * 8 / N)),
        ("whole", (1.0 - rate) ** 3),
    ):
        problem = Problem(
            X=rows,
            some_rows=np.arange(N),
            y=labels,
            unequal_weights=np.ones(N),
            regularization=1.0,
            intercept="none",
        )
        solver = GradientDescent(batch_size=16, learning_rate=rate, regularizer=regularizer)  # type: ignore[arg-type]
        start = GradientDescentState(
            w=np.array([scale, 0.0, 0.0, 0.0]), intercept=0.0, cost=0.0, change=0.0
        )
        state = solver.advance(problem, start)
        assert state.w[0] == pytest.approx(factor * scale, rel=1e-14)


@pytest.mark.parametrize("batch_size", [1, 8])
def test_whole_solves_the_problem_with_less_loss(batch_size: int) -> None:
    """`whole` descends on ½‖w‖² + C b/n Σ hinge: its path is that of `share` with C b/n and a
    learning rate n/b times as large."""
    part = batch_size / N
    problem = problem_of(CASE, "augmented")
    smaller = Problem(
        X=problem.X,
        some_rows=problem.rows,
        y=problem.y,
        unequal_weights=problem.weights,
        regularization=problem.regularization / part,
        intercept="augmented",
    )
    whole = GradientDescent(batch_size=batch_size, learning_rate=0.01, regularizer="whole")
    share = GradientDescent(batch_size=batch_size, learning_rate=0.01 / part)
    actual, expected = after(whole, problem, 3), after(share, smaller, 3)
    np.testing.assert_allclose(actual.w, expected.w, rtol=1e-10)
    assert actual.intercept == pytest.approx(expected.intercept, rel=1e-10)


def test_random_start() -> None:
    """Weights of the given spread, a function of seed and pair; the intercept starts at 0."""
    solver = GradientDescent(initial=RandomStart(random_scale=0.01))

    def start(seed: int, pair: int, n_features: int = 400) -> GradientDescentState:
        return solver.start(
            Problem(
                X=np.zeros((2, n_features)),
                some_rows=np.arange(2),
                y=np.array([-1.0, 1.0]),
                unequal_weights=np.ones(2),
                regularization=1.0,
                intercept="free",
                seed=seed,
                pair=pair,
            )
        )

    first = start(0, 0)
    assert first.intercept == 0.0
    assert 0.008 < first.w.std() < 0.012
    assert abs(first.w.mean()) < 0.002
    assert start(0, 0).w.tobytes() == first.w.tobytes()
    assert (start(1, 0).w != first.w).any()
    assert (start(0, 1).w != first.w).any()


def test_random_start_needs_a_size() -> None:
    """The spread is a positive number."""
    for bad in (0.0, -1.0, float("nan"), float("inf"), True, "1"):
        with pytest.raises(InvalidHyperparameter, match="random_scale"):
            RandomStart(random_scale=bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("batch_size", ["all", 8, 1])
def test_cost_change_rule_changes_no_update(batch_size: Any) -> None:
    """Computing the cost after every update does not change the path."""
    solver = GradientDescent(batch_size=batch_size, learning_rate=0.001)
    plain = Pipeline(solver=solver, stopping=Stopping(max_epochs=7))
    watched = Stopping(max_epochs=7, cost_change=CostChange(epsilon=1e-15))
    first, second = (
        train(Pipeline(solver=solver, stopping=stopping), X, LABELS).result()
        for stopping in (plain.stopping, watched)
    )
    assert first.updates == second.updates
    assert bits(first) == bits(second)


@pytest.mark.parametrize("size", [0.001, 1.0, 1000.0])
@pytest.mark.parametrize("batch_size", ["all", 8, 1])
def test_default_learning_rate_fits_the_data(batch_size: Any, size: float) -> None:
    """The default learning rate brings the cost below that of w = 0 for data of any size."""
    pipeline = Pipeline(
        solver=GradientDescent(batch_size=batch_size), stopping=Stopping(max_epochs=100)
    )
    result = train(pipeline, size * X, LABELS).result()
    assert result.certificate.worst.primal < 1.0


def test_default_learning_rate() -> None:
    """η = 1 / (b/n + C b R²), R² the mean squared norm of a row."""
    problem, C = problem_of(CASE, "none"), 1.0 / (N * CASE.regularization)
    rate = 1.0 / (8 / N + C * 8 * float((CASE.X**2).sum(axis=1).mean()))
    default, given = (
        after(GradientDescent(batch_size=8, learning_rate=each), problem, 2)
        for each in (None, rate)
    )
    np.testing.assert_allclose(default.w, given.w, rtol=1e-12)


@pytest.mark.parametrize("batch_size", ["all", 8, 1])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("regularizer", ["share", "whole"])
def test_default_learning_rate_knows_the_regularizer(
    regularizer: Any, C: float, batch_size: Any
) -> None:
    """With `whole` each update shrinks w by 1 - η: η = 1 / (1 + C b R²) stays below 1, while that
    of `share` was 2,000 for C = 0.001 and batches of one row. The cost that is descended on, with
    C b/n, ends below that of w = 0."""
    solver = GradientDescent(C=C, batch_size=batch_size, regularizer=regularizer)
    training = train(Pipeline(solver=solver, stopping=Stopping(max_epochs=100)), X, LABELS)
    [problem] = training.problems
    n = problem.n_samples
    part = 1.0 if batch_size == "all" or regularizer == "share" else batch_size / n
    descended = replace(problem, regularization=problem.regularization / part)
    fitted = training.result().fitted
    cost = primal(descended, fitted.coefficients[0], float(fitted.intercepts[0]))
    assert cost < 1.0


def test_advice_after_a_divergence_names_the_rate() -> None:
    """As a number to try: of the default, of a number, and of the first one of a schedule."""
    problem = problem_of(CASE, "free")
    size = 8
    steepest = size / N + size / (N * CASE.regularization) * problem.squared_norms.mean()
    for rate, text in (
        (None, f"give a smaller learning_rate: {0.1 / steepest:.3g} is a tenth of the current "),
        (50.0, "give a smaller learning_rate: 5 is a tenth of the current 50"),
        (InverseTime(initial=0.5), "initial learning rate: 0.05 is a tenth of the current 0.5"),
    ):
        assert text in GradientDescent(batch_size=size, learning_rate=rate).advice(problem)


def test_count_of_single_updates() -> None:
    """The count of updates is exact: epochs times batches, also if the last one is short."""
    solver = GradientDescent(batch_size=7)  # 30 rows: 5 batches
    training = Training(Pipeline(solver=solver, stopping=Stopping(max_epochs=4)), X, LABELS, seed=0)
    evaluations = [now.evaluation for now in training if now.evaluation is not None]
    assert [(each.epoch, each.updates) for each in evaluations][-1] == (4, 20)
    assert {each.updates / each.epoch for each in evaluations} == {5.0}
