"""Variants that the course documents print, against transcriptions of their text.

The transcriptions get the rows that our solvers draw. They keep w itself, shrink it in every update
and look at one row after the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from svm.data.matrices import Indices, Vector
from svm.hyperparameters import Intercept
from svm.kernel.kernels import GaussianKernel
from svm.kernel.row_products import kernel_values
from svm.problem.objectives import evaluate
from svm.problem.problem import Problem
from svm.solvers import GradientDescent, KernelPegasos, Pegasos, SubGradient
from svm.solvers.options import AverageAfter, InverseTime, RandomStart
from tests.svm.cases.problems import CASES, INTERCEPTS, problem_of

CASE = CASES["noisy"]
X, Y, LAMBDA = CASE.X, CASE.y, CASE.regularization
N = len(Y)
EPOCHS = 3


def trained(solver: Any, problem: Problem, epochs: int = EPOCHS) -> Any:
    """The classifier after some epochs."""
    state = solver.start(problem)
    for _ in range(epochs):
        state = solver.advance(problem, state)
    return solver.classifier(problem, state)


def drawn(problem: Problem, epochs: int = EPOCHS) -> list[Indices]:
    """Independent draws, n in each epoch."""
    return [problem.random(epoch).integers(N, size=N) for epoch in range(epochs)]


def cut(rows: list[Indices], size: int) -> list[Indices]:
    """The rows of each epoch in batches."""
    return [part[k : k + size] for part in rows for k in range(0, len(part), size)]


def agree(actual: Any, w: Vector, b: float = 0.0) -> None:
    """To 1e-12 of the largest weight."""
    size = 1e-12 * max(1.0, float(np.abs(w).max()), abs(b))
    np.testing.assert_allclose(actual.coefficients, w, rtol=0.0, atol=size)
    assert actual.intercept == pytest.approx(b, rel=0.0, abs=size)


@pytest.mark.parametrize("project", [False, True])
@pytest.mark.parametrize("k", [2, 7, 40, 1000])
def test_mini_batches_of_the_paper(k: int, project: bool) -> None:
    """Figure 2: A_t⁺ are the rows of the batch with y⟨w, x⟩ < 1; w ← (1 - ηλ) w + (η/k) Σ y x, then
    a projection."""
    problem = problem_of(CASE, "none")
    w = np.zeros(4)
    for t, batch in enumerate(cut(drawn(problem), k), start=1):
        violating = [i for i in batch if Y[i] * (w @ X[i]) < 1.0]
        eta = 1.0 / (LAMBDA * t)
        w = (1.0 - eta * LAMBDA) * w
        for i in violating:
            w = w + eta / len(batch) * Y[i] * X[i]
        if project and np.linalg.norm(w) > 0.0:
            w = min(1.0, 1.0 / (np.sqrt(LAMBDA) * np.linalg.norm(w))) * w
    agree(trained(Pegasos(order="uniform", batch_size=k, project=project), problem), w)


@pytest.mark.parametrize("intercept", INTERCEPTS)
@pytest.mark.parametrize("averaging", ["last", "suffix"])
def test_batches_across_blocks_of_work(averaging: Any, intercept: Intercept) -> None:
    """A batch may begin in one block of rows and end in the next: to rounding, the same weights and
    bound."""
    whole = problem_of(CASES["weighted"], intercept)
    cut_up = replace(whole)
    cut_up.__dict__["block_rows"] = 5
    solver = Pegasos(batch_size=7, averaging=averaging, project=intercept == "augmented")
    expected, actual = (trained(solver, problem, 5) for problem in (whole, cut_up))
    agree(actual, expected.coefficients, expected.intercept)


def test_bound_of_mini_batches() -> None:
    """The violations are a dual point of the last iterate: with one batch of all rows in an epoch,
    the bound approaches the optimum."""
    problem = problem_of(CASE, "augmented")
    solver, state = Pegasos(batch_size=N, intercept="augmented"), None
    state = solver.start(problem)
    for _ in range(2000):
        state = solver.advance(problem, state)
    assert state.updates == state.epoch == 2000
    reference = Pegasos(intercept="augmented")
    other = reference.start(problem)
    for _ in range(200):
        other = reference.advance(problem, other)
    assert solver.bound(problem, state) == pytest.approx(reference.bound(problem, other), rel=1e-2)


AVERAGES: list[tuple[Any, int]] = [
    ("last", -1),
    ("all", 0),
    (AverageAfter(after_epochs=2), 2),
    (AverageAfter(after_epochs=9), 0),
    ("suffix", 4),
]
"""`averaging`, and after how many of five epochs the average begins."""


def average_of(path: list[tuple[Vector, float]], first: int) -> tuple[Vector, float]:
    """The mean of (w, b) over the iterates of all epochs from `first` on; the last one for -1."""
    if first < 0:
        return path[-1]
    later = path[first * len(path) // 5 :]
    return np.mean([w for w, _ in later], axis=0), float(np.mean([b for _, b in later]))


@pytest.mark.parametrize(("averaging", "first"), AVERAGES, ids=str)
@pytest.mark.parametrize("start", ["zero", RandomStart(random_scale=0.5)], ids=["zero", "random"])
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_pegasos_with_the_intercept_of_its_course(
    intercept: Intercept, start: Any, averaging: Any, first: int
) -> None:
    """b ← b + η y, with the step of the weights; any start, whose weights judge the first row; and
    averages of the iterates."""
    problem = problem_of(CASE, intercept)
    w = np.zeros(4) if start == "zero" else start.weights(problem)
    b, path = 0.0, []
    for t, i in enumerate(np.concatenate(drawn(problem, 5)), start=1):
        eta, violated = 1.0 / (LAMBDA * t), Y[i] * (w @ X[i] + b) < 1.0
        w = (1.0 - eta * LAMBDA) * w
        b = (1.0 - eta * LAMBDA) * b if intercept == "augmented" else b
        if violated:
            w = w + eta * Y[i] * X[i]
            b = b if intercept == "none" else b + eta * Y[i]
        path.append((w, b))
    solver = Pegasos(
        order="uniform",
        intercept=intercept,
        intercept_step="same",
        averaging=averaging,
        initial=start,
    )
    agree(trained(solver, problem, 5), *average_of(path, first))


@pytest.mark.parametrize(("averaging", "first"), AVERAGES, ids=str)
@pytest.mark.parametrize("batch_size", [1, 7, "all"])
def test_averages_of_descents(batch_size: Any, averaging: Any, first: int) -> None:
    """The mean of the weights after each update; the learning rate falls as 1/(1 + t/10)."""
    problem, C = problem_of(CASE, "free"), 1.0 / (N * LAMBDA)
    start, rate = RandomStart(random_scale=0.1), InverseTime(initial=0.05, decay=0.1)
    orders = [np.arange(N)] * 5 if batch_size == "all" else drawn(problem, 5)
    w, b, path = start.weights(problem), 0.0, []
    for t, batch in enumerate(cut(orders, N if batch_size == "all" else batch_size)):
        violating = [i for i in batch if Y[i] * (w @ X[i] + b) < 1.0]
        eta = 0.05 / (1.0 + 0.1 * t)
        w = w - eta * (len(batch) / N * w - C * sum((Y[i] * X[i] for i in violating), np.zeros(4)))
        b = b + eta * C * float(sum(Y[i] for i in violating))
        path.append((w, b))
    solver = GradientDescent(
        order="uniform",
        batch_size=batch_size,
        learning_rate=rate,
        averaging=averaging,
        initial=start,
    )
    agree(trained(solver, problem, 5), *average_of(path, first))


@pytest.mark.parametrize(("averaging", "first"), AVERAGES, ids=str)
@pytest.mark.parametrize("intercept", ["augmented", "free"])
@pytest.mark.parametrize("step", ["continued", "restarted", "doubled", "per-epoch"])
def test_steps_of_the_coursework(step: Any, intercept: Any, averaging: Any, first: int) -> None:
    """η = 1/(λt) with t over all passes or from 1 in each, 2/(λt), or 1/(λ·epoch), at any start. In
    a pass that restarts the step, the weights of the pass before judge the first row."""
    problem, start = problem_of(CASE, intercept), RandomStart(random_scale=0.5)
    w, b, path = start.weights(problem), 0.0, []
    for epoch in range(5):
        for k, i in enumerate(np.arange(N), start=1):
            t = epoch * N + k
            steps = {"continued": 1.0 / t, "restarted": 1.0 / k, "doubled": 2.0 / t}
            eta = steps.get(step, 1.0 / (epoch + 1)) / LAMBDA
            violated = Y[i] * (w @ X[i] + b) < 1.0
            w = (1.0 - eta * LAMBDA) * w
            b = (1.0 - eta * LAMBDA) * b if intercept == "augmented" else b
            if violated:
                w, b = w + eta * Y[i] * X[i], b + eta * Y[i]
            path.append((w, b))
    solver = SubGradient(
        order="given",
        intercept=intercept,
        intercept_step="same",
        step=step,
        averaging=averaging,
        initial=start,
    )
    agree(trained(solver, problem, 5), *average_of(path, first))


def test_a_restart_looks_back_once() -> None:
    """The weights of the pass before matter: without them the second pass ends elsewhere."""
    problem = problem_of(CASE, "augmented")
    solver = SubGradient(step="restarted", order="given")
    first = solver.advance(problem, solver.start(problem))
    # At w = 0 every row violates its margin; here the first row is clear of it.
    clear = replace(first, v=first.v + 100.0 * Y[0] * X[0])
    again = solver.advance(problem, clear)
    assert (again.epoch, again.updates, again.step) == (2, 2 * N, N)
    assert (again.v != first.v).any()


@pytest.mark.parametrize(("averaging", "first"), AVERAGES, ids=str)
@pytest.mark.parametrize("score_step", ["previous", "current"])
@pytest.mark.parametrize("intercept", INTERCEPTS)
def test_kernel_pegasos_of_the_paper(
    intercept: Intercept, score_step: Any, averaging: Any, first: int
) -> None:
    """Figure 3: α_i ← α_i + 1 if y 1/(λt) Σ α_j y_j K(x_j, x) < 1; the model is that of the counts
    divided by λT, or the mean of these functions."""
    kernel = GaussianKernel(gamma=0.5)
    problem = problem_of(CASE, intercept, kernel=kernel)
    K = kernel_values(kernel, X, X) + (1.0 if intercept == "augmented" else 0.0)
    counts, b, path = np.zeros(N), 0.0, []
    for t, i in enumerate(np.concatenate(drawn(problem, 5)), start=1):
        divisor = LAMBDA * (t if score_step == "current" else max(1, t - 1))
        if Y[i] * (K[i] @ (counts * Y) / divisor + b) < 1.0:
            counts = counts + (np.arange(N) == i)
            b += Y[i] / (LAMBDA * t) if intercept == "free" else 0.0
        path.append((counts * Y / (LAMBDA * t), b))
    solver = KernelPegasos(
        kernel=kernel,
        order="uniform",
        intercept=intercept,
        intercept_step="same",
        score_step=score_step,
        averaging=averaging,
    )
    coefficients, b = average_of(path, first)
    scores = evaluate(problem, trained(solver, problem, 5))[2]
    np.testing.assert_allclose(
        scores, K @ coefficients + b, rtol=0.0, atol=1e-12 * np.abs(scores).max()
    )
