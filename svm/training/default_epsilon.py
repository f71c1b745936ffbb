"""The ε of numeric targets if none is given: half the robust spread of a first fit's errors."""

from __future__ import annotations

from functools import partial

import numpy as np

from svm.data.matrices import Matrix, Vector, is_sparse
from svm.data.stored_rows import StoredRows
from svm.kernel.kernels import LINEAR, AnyKernel, inner_products
from svm.model.target import median
from svm.training.preparation import Prepared

MOST_ROWS = 1024
"""Of the first fit, evenly spaced among all."""
TO_DEVIATION = 1.4826
"""From the median absolute deviation to the standard deviation, if errors are normal."""
JITTER = 1e-10
"""Least ridge, as a share of the mean diagonal value of the kernel matrix."""


def default_epsilon(prepared: Prepared, regularization: float) -> float:
    """ε in the scale of the solvers.

    The first fit is ridge regression with the same λ and kernel. Its errors are those when each row
    is left out, e/(1 - h) with the errors e and the leverages h of the fit to all (Allen's PRESS,
    1974), so that a model that fits its own rows perfectly gives a true spread, too. A row of
    weight s > 1 counts as s equal rows, of which one is left out.
    """
    assert prepared.targets is not None
    X, n = prepared.X, len(prepared.targets)
    m = min(n, MOST_ROWS)
    some = np.arange(m) * n // m
    rows = (X.read(some) if isinstance(X, StoredRows) else X[some]).astype(np.float64)
    weights = np.ones(m) if prepared.weights is None else prepared.weights[some]
    ridge = 0.5 * regularization * float(weights.sum())
    few = prepared.kernel is None and 2 * (rows.shape[1] + 1) < m
    fit = _primal if few else partial(_dual, prepared.kernel or LINEAR)
    errors, rest = fit(rows, prepared.targets[some], weights, ridge)
    errors /= rest + np.maximum(0.0, 1.0 - 1.0 / weights) * (1.0 - rest)
    deviations = np.abs(errors - median(errors, weights))
    return 0.5 * TO_DEVIATION * median(deviations, weights)


def _primal(X: Matrix, targets: Vector, weights: Vector, ridge: float) -> tuple[Vector, Vector]:
    """(m,) errors, and 1 - s h of each row, by a factorization of the rows and a constant."""
    dense = X.toarray() if is_sparse(X) else X
    design = np.column_stack([dense, np.ones(len(targets))])
    roots = np.sqrt(weights)
    least = JITTER * float((weights @ np.square(design)).sum()) / float(weights.sum())
    penalty = np.sqrt(max(ridge, least)) * np.eye(design.shape[1])
    Q = np.linalg.qr(np.vstack([roots[:, None] * design, penalty]))[0][: len(targets)]
    errors = targets - Q @ (Q.T @ (roots * targets)) / roots
    return errors, 1.0 - np.einsum("ij,ij->i", Q, Q)


def _dual(
    kernel: AnyKernel, X: Matrix, targets: Vector, weights: Vector, ridge: float
) -> tuple[Vector, Vector]:
    """The same by the inverse of G = K + 1 + ridge/s: e = ridge β/s of β = G⁻¹t, and
    1 - s h = ridge (G⁻¹)ᵢᵢ/s."""
    squares = X.multiply(X) if is_sparse(X) else np.square(X)
    norms = np.asarray(squares.sum(axis=1)).ravel()
    gram = kernel.of_products(inner_products(X, X), norms, norms) + 1.0
    least = JITTER * float(np.average(np.diag(gram), weights=weights))
    each = max(ridge, least) / weights
    gram[np.diag_indices(len(weights))] += each
    inverse = np.linalg.inv(gram)
    return each * (inverse @ targets), each * np.diag(inverse)
