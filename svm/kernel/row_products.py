"""Products and kernel values of rows with fixed vectors; the bits of a row depend on it alone.

One BLAS product for all rows gives a row other bits in another batch. Here every sum has a fixed
order: `RowProducts` computes blocks of rows in compiled code; without preparation, every row is one
matrix-vector product of the same shape.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from svm.data.matrices import Matrix, Vector, is_sparse, matrix_bytes, read_only
from svm.data.stored_rows import stored_values
from svm.kernel.kernels import AnyKernel


class RowProducts:
    """X ↦ X Wᵀ, (n_samples, n_vectors), float64, with vectors W that are prepared once."""

    def __init__(self, W: Matrix) -> None:
        self.n_vectors: int = W.shape[0]
        self._W = W

    @property
    def nbytes(self) -> int:
        """Memory of the prepared vectors, besides W."""
        made = [self.__dict__.get(name) for name in ("_panels", "_transposed")]
        return sum(matrix_bytes(one) for one in made if one is not None)

    def __call__(self, X: Matrix) -> Vector:
        return self.padded(X)[:, : self.n_vectors]

    def padded(self, X: Matrix) -> Vector:
        """The same; there may be more columns, with products of vectors that are 0."""
        if is_sparse(X):
            products: Any = X.astype(np.float64, copy=False) @ self._transposed
            return np.asarray(products.toarray() if is_sparse(products) else products)
        if is_sparse(self._W):
            return row_products(X, self._W)
        from svm.loops.panels import WIDTH, panel_products

        X = np.ascontiguousarray(X, dtype=np.float64)
        out = np.empty((len(X), len(self._panels) * WIDTH))
        panel_products(read_only(X), self._panels, out)
        return out

    @cached_property
    def _panels(self) -> Vector:
        from svm.loops.panels import pack

        assert not is_sparse(self._W)
        return pack(self._W)

    @cached_property
    def _transposed(self) -> Any:
        """Wᵀ by rows, for sparse X."""
        if is_sparse(self._W):
            return self._W.astype(np.float64, copy=False).T.tocsr()
        return np.ascontiguousarray(self._W.T, dtype=np.float64)


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


def kernel_values(kernel: AnyKernel, X: Matrix, Z: Matrix) -> Vector:
    """k(xᵢ, zⱼ), (n_samples, len(Z))."""
    return kernel.of_products(row_products(X, Z), row_norms(X), row_norms(Z))


def row_norms(X: Matrix) -> Vector:
    """‖xᵢ‖², (n_samples,), float64."""
    if is_sparse(X):
        squares = X.multiply(X) if X.dtype == np.float64 else X.astype(np.float64).power(2)
        return np.asarray(squares.sum(axis=1), dtype=np.float64)
    norms: Vector = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    return norms


class KernelEvaluator:
    """X ↦ k(xᵢ, zⱼ), (n_samples, n_vectors). The bits of a row depend on that row alone."""

    def __init__(self, kernel: AnyKernel, Z: Matrix) -> None:
        self._kernel = kernel
        self._vectors = RowProducts(Z)
        self._norms = row_norms(Z)
        self.stored_values = stored_values(Z)
        """About how many multiplications one row needs."""

    @property
    def nbytes(self) -> int:
        """Memory of what is prepared."""
        return self._vectors.nbytes + self._norms.nbytes

    def __call__(self, X: Matrix) -> Vector:
        """X is float64, dense or sparse."""
        products = self._vectors.padded(X)
        norms = np.append(self._norms, np.zeros(products.shape[1] - len(self._norms)))
        values = self._kernel.of_products(products, row_norms(X), norms)
        return values[:, : self._vectors.n_vectors]
