"""The work of linear solvers, in multiplications of a pass over the data.

Choices between solvers depend on such estimates, never on times, so that the bits of a result do
not depend on the machine.
"""

from __future__ import annotations

from typing import Any

from svm.problem.problem import Problem

ROW = 16.0
"""Cost of a row beside its values: its label, weight, score and number."""
BLAS = 8.0
"""Multiplications of a matrix product in the time of one in a pass over the data."""
PASSES = 4.0
"""Passes of a first Newton step beside the products with its Hessian."""
PRODUCTS = 20.0
"""Products with the Hessian in a step, if it is not built: a first guess."""


def row_work(problem: Problem) -> float:
    """Of one inner product with a row, on average over all of X."""
    if not problem.sparse:
        return ROW + problem.n_features
    X: Any = problem.X
    return ROW + float(X.indptr[-1]) / (len(X.indptr) - 1)


def rows_work(problem: Problem, n: int) -> float:
    """Of one inner product with each of this number of rows."""
    return n * row_work(problem)


def pass_work(problem: Problem) -> float:
    """Of one inner product with each row."""
    return rows_work(problem, problem.n_samples)


def hessian_work(problem: Problem, active: int) -> float:
    """Of building the Hessian of this number of rows, and factoring it."""
    d = problem.n_features + 1
    return active * row_work(problem) + (active * d * d / 2.0 + d * d * d / 6.0) / BLAS


def product_work(problem: Problem, active: int) -> float:
    """Of a product with the Hessian of this number of rows."""
    return 2.0 * active * row_work(problem) + ROW * problem.n_features
