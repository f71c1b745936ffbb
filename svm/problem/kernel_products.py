"""Products with the kernel matrix of a problem, a block at a time, never the whole matrix.

Rows are numbered within the problem, 0 … n_samples - 1. If the intercept is `augmented`, the
constant feature adds 1 to every kernel value.
"""

from __future__ import annotations

import numpy as np

from svm.data.matrices import Indices, Matrix, Vector
from svm.kernel.kernels import inner_products
from svm.problem.problem import Problem

BLOCK_VALUES = 1 << 22
"""Kernel values of one block: 32 MiB."""
SIDE = 512
"""Rows and columns of a block that the processor's cache holds."""


def gram(problem: Problem, left: Indices, right: Indices) -> Vector:
    """k(x_left, x_right), (len(left), len(right))."""
    return _values(problem, problem.rows_at(left), left, right)


def _values(problem: Problem, rows: Matrix, left: Indices, right: Indices) -> Vector:
    """The same, if the rows on the left are in memory."""
    assert problem.kernel is not None
    norms = problem.squared_norms
    products = inner_products(rows, problem.rows_at(right))
    values = problem.kernel.of_products(products, norms[left], norms[right])
    if problem.intercept == "augmented":
        values += 1.0
    return values


def sums_over(problem: Problem, left: Indices, coefficients: Vector) -> Vector:
    """Σⱼ coefficientsⱼ k(x_left, xⱼ), (len(left),); rows with coefficient 0 cost nothing."""
    support = np.flatnonzero(coefficients)
    out = np.zeros(len(left))
    width = max(1, min(len(support), 2048))
    height = max(1, BLOCK_VALUES // width)
    for i in range(0, len(left), height):
        some = left[i : i + height]
        rows = problem.rows_at(some)
        for j in range(0, len(support), width):
            problem.interrupted()
            others = support[j : j + width]
            out[i : i + height] += _values(problem, rows, some, others) @ coefficients[others]
    return out


def quadratic_form(problem: Problem, coefficients: Vector) -> float:
    """Σ coefficientsᵢ coefficientsⱼ k(xᵢ, xⱼ): the squared norm of a combination of rows."""
    return float(inner_forms(problem, coefficients[:, None])[0, 0])


def inner_forms(problem: Problem, coefficients: Vector) -> Vector:
    """The inner products of p combinations of rows, (p, p), from coefficients (n_samples, p)."""
    support = np.flatnonzero(coefficients.any(axis=1))
    out = np.zeros((coefficients.shape[1],) * 2)
    for i in range(0, len(support), SIDE):
        problem.interrupted()
        left = support[i : i + SIDE]
        for j in range(0, i + 1, SIDE):  # the matrix is symmetric
            right = support[j : j + SIDE]
            block = coefficients[left].T @ gram(problem, left, right) @ coefficients[right]
            out += block if j == i else block + block.T
    return out
