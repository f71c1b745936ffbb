"""Assembling the classifiers of binary problems: the arrays of a model, and scores of new rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from svm.classifiers import Classifier, KernelClassifier, LinearClassifier
from svm.data.matrices import Matrix, Vector, is_sparse
from svm.kernel.kernels import dense_rows, inner_products
from svm.problem import Problem

BLOCK_ROWS = 1024


def stack_classifiers(
    classifiers: Sequence[Classifier], problems: Sequence[Problem]
) -> tuple[Vector, Matrix | None]:
    """(coefficients of all problems, support vectors).

    Linear: (n_problems, n_features), None. Kernel: (n_problems, n_vectors), and the support vectors
    of all problems, each once.
    """
    supports = [
        problem.rows[classifier.support]
        for classifier, problem in zip(classifiers, problems, strict=True)
        if isinstance(classifier, KernelClassifier)
    ]
    if not supports:
        return np.array([classifier.coefficients for classifier in classifiers]), None
    union = np.unique(np.concatenate(supports))
    coefficients = np.zeros((len(classifiers), len(union)))
    for row, rows, classifier in zip(coefficients, supports, classifiers, strict=True):
        row[np.searchsorted(union, rows)] = classifier.coefficients
    X = problems[0].matrix
    vectors = X[union].astype(np.float64) if is_sparse(X) else dense_rows(X, union)
    return coefficients, vectors


def scores_on(problem: Problem, classifier: Classifier, watched: Problem) -> Vector:
    """The classifier's scores on the rows of `watched`, (n_samples,)."""
    if isinstance(classifier, LinearClassifier):
        return watched.scores(classifier.coefficients, classifier.intercept)
    assert problem.kernel is not None
    rows = problem.rows[classifier.support]
    X, others = problem.matrix, watched.matrix
    vectors = X[rows] if is_sparse(X) else dense_rows(X, rows)
    norms = problem.squared_norms[classifier.support]
    out = np.empty(watched.n_samples)
    for start in range(0, watched.n_samples, BLOCK_ROWS):
        watched.interrupted()
        part = slice(start, start + BLOCK_ROWS)
        products = inner_products(others[watched.rows[part]], vectors)
        values = problem.kernel.of_products(products, watched.squared_norms[part], norms)
        out[part] = values @ classifier.coefficients + classifier.intercept
    return out
