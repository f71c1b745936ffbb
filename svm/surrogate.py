"""A linear problem in place of a kernel problem, for the certifier.

Rows φ(xᵢ) with ⟨φ(xᵢ), φ(xⱼ)⟩ ≈ k(xᵢ, xⱼ): from a Cholesky factor of the kernel matrix where it is
small, from its columns at some landmarks (Nyström) where it is not. A dual point of the linear
problem is one of the kernel problem too; its value there is computed with the kernel itself, so
the bound is sound however rough the approximation.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from svm.kernel_products import gram
from svm.matrices import Indices
from svm.problem import Problem

EXACT_ROWS = 2000
"""Most rows for which the whole kernel matrix is factored."""
LANDMARKS = 1000
"""Rows whose columns of the kernel matrix stand for it beyond that."""
JITTER = 1e-10
"""Added to the diagonal, relative to its largest entry, so that the factor exists."""


def n_surrogate_features(problem: Problem) -> int:
    """Length of φ(x)."""
    if problem.kernel is None:
        return problem.n_features
    return problem.n_samples if problem.n_samples <= EXACT_ROWS else LANDMARKS


def linear_surrogate(problem: Problem) -> Problem:
    """The problem itself where it is linear, else one with φ(x) for x."""
    if problem.kernel is None:
        return problem
    from scipy.linalg import cholesky, solve_triangular

    landmarks = _landmarks(problem)
    K = gram(problem, landmarks, landmarks)
    diagonal = np.einsum("ii->i", K)
    diagonal += JITTER * diagonal.max()
    factor = cholesky(K, lower=True, overwrite_a=True, check_finite=False)
    features = factor
    if len(landmarks) < problem.n_samples:
        features = np.empty((problem.n_samples, len(landmarks)))
        for start in range(0, problem.n_samples, 2048):
            problem.interrupted()
            rows = np.arange(start, min(start + 2048, problem.n_samples))
            columns = gram(problem, landmarks, rows)
            features[rows] = solve_triangular(factor, columns, lower=True, check_finite=False).T
    return replace(
        problem,
        X=np.ascontiguousarray(features),
        rows=np.arange(problem.n_samples),
        kernel=None,
        # The constant feature of an augmented intercept is in the kernel values already.
        intercept="free" if problem.intercept == "free" else "none",
    )


def _landmarks(problem: Problem) -> Indices:
    return np.linspace(0, problem.n_samples - 1, n_surrogate_features(problem)).astype(np.int64)
