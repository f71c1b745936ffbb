"""The ε of numeric targets if none is given: half the robust spread of a first fit's errors."""

from __future__ import annotations

import numpy as np

from svm.data.matrices import is_sparse
from svm.data.stored_rows import StoredRows
from svm.kernel.kernels import LINEAR, inner_products
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

    The first fit is ridge regression with the same λ and kernel, in its dual: its errors when each
    row is left out are βᵢ/(G⁻¹)ᵢᵢ with G = K + 1 + ridge and β = G⁻¹t (Allen's PRESS, 1974), so
    that a model that fits its own rows perfectly gives a true spread, too. A row of weight s has
    ridge/s in G, and one of s > 1 equal rows is left out: ridge βᵢ/(s - 1 + ridge (G⁻¹)ᵢᵢ/s).
    """
    assert prepared.targets is not None
    X, n = prepared.X, len(prepared.targets)
    m = min(n, MOST_ROWS)
    some = np.arange(m) * n // m
    rows = X.read(some) if isinstance(X, StoredRows) else X[some]
    rows = rows.astype(np.float64)
    squares = rows.multiply(rows) if is_sparse(rows) else np.square(rows)
    norms = np.asarray(squares.sum(axis=1)).ravel()
    gram = (prepared.kernel or LINEAR).of_products(inner_products(rows, rows), norms, norms) + 1.0
    weights = np.ones(m) if prepared.weights is None else prepared.weights[some]
    least = JITTER * float(np.average(np.diag(gram), weights=weights))
    ridge = max(0.5 * regularization * float(weights.sum()), least)
    gram[np.diag_indices(m)] += ridge / weights
    inverse = np.linalg.inv(gram)
    left = ridge * np.diag(inverse)
    left = np.where(weights > 1.0, weights - 1.0 + left / weights, left)
    errors = ridge * (inverse @ prepared.targets[some]) / left
    deviations = np.abs(errors - median(errors, weights))
    return 0.5 * TO_DEVIATION * median(deviations, weights)
