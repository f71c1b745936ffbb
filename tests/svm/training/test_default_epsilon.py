"""ε of numeric targets without a given one, against fits without each row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from svm import SMO, LinearKernel, Newton, Pipeline, PolynomialKernel, Training
from svm.kernel.kernels import AnyKernel
from svm.kernel.row_products import kernel_values
from svm.solvers import AnySolver

RANDOM = np.random.default_rng(3)
X = RANDOM.normal(size=(40, 6))
Y = X @ RANDOM.normal(size=6) + RANDOM.standard_t(3, size=40)
WIDE = RANDOM.normal(size=(40, 50))
C = 0.7


def epsilon_of(solver: AnySolver, rows: Any, targets: Any, weights: Any = None) -> float:
    pipeline = Pipeline(solver=solver).for_numbers()
    training = Training(pipeline, rows, targets, weights=weights, seed=0)
    next(iter(training))
    target = training.result().fitted.target
    assert target is not None
    return target.epsilon


def slow_epsilon(kernel: AnyKernel, rows: Any) -> float:
    """Ridge regression on all rows but one, for each row; the penalty stays."""
    targets = (Y - np.median(Y)) / Y.std()
    gram, errors = kernel_values(kernel, rows, rows) + 1.0, np.empty(len(Y))
    for i in range(len(Y)):
        others = np.delete(np.arange(len(Y)), i)
        ridge = 0.5 / C * np.eye(len(others))
        beta = np.linalg.solve(gram[np.ix_(others, others)] + ridge, targets[others])
        errors[i] = targets[i] - gram[i, others] @ beta
    spread = np.median(np.abs(errors - np.median(errors)))
    return float(0.5 * 1.4826 * spread * Y.std())


@pytest.mark.parametrize("form", [np.asarray, csr_array])
@pytest.mark.parametrize("rows", [X, WIDE], ids=["few", "many"])
def test_errors_are_those_without_each_row(rows: Any, form: Any) -> None:
    """With few features and with many, dense and sparse, and with a kernel."""
    expected = slow_epsilon(LinearKernel(), rows)
    assert epsilon_of(Newton(C=C), form(rows), Y) == pytest.approx(expected, rel=1e-9)
    kernel = PolynomialKernel(degree=2)
    expected = slow_epsilon(kernel, rows)
    assert epsilon_of(SMO(C=C, kernel=kernel), form(rows), Y) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("rows", [X, WIDE], ids=["few", "many"])
def test_weights_are_repeated_rows(rows: Any) -> None:
    """A row of weight 3 is there three times, and one of the three is left out."""
    weights = np.arange(len(Y)) % 4
    one = epsilon_of(Newton(C=C), rows, Y, weights)
    repeated = np.repeat(rows, weights, axis=0), np.repeat(Y, weights)
    assert one == pytest.approx(epsilon_of(Newton(C=C), *repeated), rel=1e-9)
