"""Products of rows with fixed vectors; the bits of each row depend on that row alone.

One matrix product for all rows would be faster for large batches, but then the bits of a row depend
on the other rows. Here every row is one matrix-vector product of the same shape.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from svm.data.matrices import Matrix, Vector, is_sparse
from svm.kernel.kernels import AnyKernel


def row_products(X: Matrix, W: Matrix) -> Vector:
    """X Wᵀ, (n_samples, len(W)), float64."""
    if is_sparse(X):
        some: Any = X.astype(np.float64, copy=False) @ W.T
        return np.asarray(some.toarray() if is_sparse(some) else some)
    X = np.ascontiguousarray(X, dtype=np.float64)
    if is_sparse(W):
        return np.array([W @ x for x in X]).reshape(len(X), W.shape[0])
    products: Vector = np.matvec(np.ascontiguousarray(W, dtype=np.float64), X)
    return products


def kernel_values(kernel: AnyKernel, X: Matrix, Z: Matrix, z_norms: Vector | None = None) -> Vector:
    """k(xᵢ, zⱼ), (n_samples, len(Z)); `z_norms` are the `row_norms` of Z, if known."""
    norms = row_norms(Z) if z_norms is None else z_norms
    return kernel.of_products(row_products(X, Z), row_norms(X), norms)


def row_norms(X: Matrix) -> Vector:
    """‖xᵢ‖², (n_samples,), float64."""
    if is_sparse(X):
        squares = X.multiply(X) if X.dtype == np.float64 else X.astype(np.float64).power(2)
        return np.asarray(squares.sum(axis=1), dtype=np.float64)
    norms: Vector = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    return norms
