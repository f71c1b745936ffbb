"""The orders in which rows are visited, against slow versions of the solvers fed with them."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

from svm.data.matrices import Indices
from svm.errors import InvalidHyperparameter
from svm.kernel.kernels import GaussianKernel
from svm.kernel.row_products import kernel_values
from svm.problem.problem import Order, OrderInMemory, Problem
from svm.solvers import GradientDescent, KernelPegasos, Pegasos, SubGradient
from tests.svm.cases import twins
from tests.svm.cases.problems import CASES, problem_of

CASE = CASES["weighted"]
N = len(CASE.y)
EPOCHS = 3
ORDERS: tuple[OrderInMemory, ...] = get_args(OrderInMemory)


def visited(problem: Problem, order: OrderInMemory) -> list[Indices]:
    """The rows of each epoch, as the option describes them."""
    epochs = range(EPOCHS)
    match order:
        case "each-epoch":
            return [problem.permutation(epoch) for epoch in epochs]
        case "shuffled-once":
            return [problem.permutation(0) for _ in epochs]
        case "given":
            return [np.arange(N) for _ in epochs]
        case "uniform":
            return [problem.random(epoch).integers(N, size=N) for epoch in epochs]


def after_epochs(solver: Any, problem: Problem) -> Any:
    """The classifier after all epochs."""
    state = solver.start(problem)
    for _ in range(EPOCHS):
        state = solver.advance(problem, state)
    return solver.classifier(problem, state)


@pytest.mark.parametrize("order", get_args(Order))
def test_rows_of_an_epoch(order: Order) -> None:
    """Every row once, except for independent draws; new ones each epoch if the order is random each
    time."""
    problem = problem_of(CASE, "none")
    epochs = [
        np.concatenate([rows for _, _, rows in problem.visits(epoch, order)]).tolist()
        for epoch in range(EPOCHS)
    ]
    assert all(len(rows) == N for rows in epochs)
    if order == "uniform":
        assert all(len(set(rows)) < N for rows in epochs)
    else:
        assert all(sorted(rows) == list(range(N)) for rows in epochs)
    same = order in ("given", "shuffled-once")
    assert (epochs[0] == epochs[1] == epochs[2]) == same
    assert (epochs[0] == list(range(N))) == (order == "given")


@pytest.mark.parametrize("order", ORDERS)
def test_pegasos_in_each_order(order: OrderInMemory) -> None:
    """Update by update the textbook's, with the same rows."""
    problem = problem_of(CASE, "none")
    result = after_epochs(Pegasos(order=order), problem)
    w, _, _ = twins.pegasos(
        CASE.X, CASE.y, CASE.weights, CASE.regularization, "none", visited(problem, order)
    )
    np.testing.assert_allclose(result.coefficients, w, rtol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_subgradient_in_each_order(order: OrderInMemory) -> None:
    """The same updates, with the intercept as the weight of a constant feature."""
    problem = problem_of(CASE, "augmented")
    result = after_epochs(SubGradient(order=order), problem)
    w, b, _ = twins.pegasos(
        CASE.X, CASE.y, CASE.weights, CASE.regularization, "augmented", visited(problem, order)
    )
    np.testing.assert_allclose(result.coefficients, w, rtol=1e-12)
    assert result.intercept == pytest.approx(b, rel=1e-12)


@pytest.mark.parametrize("batch_size", [1, 7])
@pytest.mark.parametrize("order", ORDERS)
def test_descents_in_each_order(order: OrderInMemory, batch_size: int) -> None:
    """Batches are consecutive visits; the last one of an epoch may be short."""
    problem, rate = problem_of(CASE, "free"), 0.01
    solver = GradientDescent(order=order, batch_size=batch_size, learning_rate=rate)
    result = after_epochs(solver, problem)
    batches = [
        rows[first : first + batch_size]
        for rows in visited(problem, order)
        for first in range(0, N, batch_size)
    ]
    w, b, _ = twins.gradient_descent(
        *(CASE.X, CASE.y, CASE.weights, 1.0 / (N * CASE.regularization), "free", rate, batches),
        *(False, np.zeros(4)),
    )[-1]
    np.testing.assert_allclose(result.coefficients, w, rtol=1e-12)
    assert result.intercept == pytest.approx(b, rel=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_kernel_pegasos_in_each_order(order: OrderInMemory) -> None:
    """The counts are those of the textbook on the whole kernel matrix."""
    kernel = GaussianKernel(gamma=0.5)
    problem = problem_of(CASE, "none", kernel=kernel)
    solver = KernelPegasos(kernel=kernel, order=order)
    K, counts, lam = kernel_values(kernel, CASE.X, CASE.X), np.zeros(N), CASE.regularization
    signed = CASE.weights * CASE.y
    for t, i in enumerate(np.concatenate(visited(problem, order)), start=1):
        score = (K[i] @ (counts * signed)) / (lam * (t - 1)) if t > 1 else 0.0
        counts[i] += CASE.y[i] * score < 1.0
    result = after_epochs(solver, problem)
    support = np.flatnonzero(counts)
    np.testing.assert_array_equal(result.support, support)
    expected = (signed * counts)[support] / (lam * EPOCHS * N)
    np.testing.assert_allclose(result.coefficients, expected, rtol=1e-12)


def test_batch_descent_has_one_order() -> None:
    """All rows, in the order of the data, whatever is asked for."""
    problem = problem_of(CASE, "free")
    results = [
        after_epochs(GradientDescent(order=order, learning_rate=0.01), problem) for order in ORDERS
    ]
    assert len({result.coefficients.tobytes() for result in results}) == 1


@pytest.mark.parametrize("solver", [Pegasos, SubGradient, GradientDescent, KernelPegasos])
def test_unknown_order(solver: Any) -> None:
    """The message has the orders that there are; blocks of neighbors are not for kernels."""
    for order in ("sorted", "blocks")[: 2 if solver is KernelPegasos else 1]:
        with pytest.raises(InvalidHyperparameter, match="shuffled-once"):
            solver(order=order)
