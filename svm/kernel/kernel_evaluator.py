"""Kernel values of rows with fixed vectors, which are prepared once."""

from __future__ import annotations

from typing import Any

import numpy as np

from svm.data.matrices import Matrix, Vector, is_sparse, read_only
from svm.data.stored_rows import stored_values
from svm.kernel.kernels import AnyKernel
from svm.kernel.row_products import row_norms, row_products


class KernelEvaluator:
    """X ↦ k(xᵢ, zⱼ), (n_samples, n_vectors). The bits of a row depend on that row alone.

    Dense vectors are packed into panels for compiled code; sparse ones are transposed.
    """

    def __init__(self, kernel: AnyKernel, Z: Matrix) -> None:
        self._kernel = kernel
        self._n_vectors = Z.shape[0]
        self.stored_values = stored_values(Z)
        """About how many multiplications one row needs."""
        self._panels: Vector | None = None
        self._transposed: Any = None
        self._Z: Any = None
        norms = row_norms(Z)
        if is_sparse(Z):
            self._Z = Z
            self._transposed = Z.astype(np.float64, copy=False).T.tocsr()
        else:
            from svm.loops.panels import pack

            self._panels = pack(Z)
            norms = np.append(norms, np.zeros(-len(norms) % self._panels.shape[2]))
        self._norms = norms

    @property
    def nbytes(self) -> int:
        """Memory of the prepared vectors."""
        if self._panels is not None:
            return self._panels.nbytes
        transposed = self._transposed
        return int(transposed.data.nbytes + transposed.indices.nbytes + transposed.indptr.nbytes)

    def __call__(self, X: Matrix) -> Vector:
        """X is float64, dense or sparse like the rows of the model."""
        products = self._products(X)  # with those of the padding of the last panel
        values = self._kernel.of_products(products, row_norms(X), self._norms)
        return values[:, : self._n_vectors]

    def _products(self, X: Matrix) -> Vector:
        if self._panels is None:
            if not is_sparse(X):
                return row_products(X, self._Z)
            products: Any = X.astype(np.float64, copy=False) @ self._transposed
            return np.asarray(products.toarray())
        from svm.loops.panels import WIDTH, panel_products

        X = X.toarray() if is_sparse(X) else X
        out = np.empty((X.shape[0], len(self._panels) * WIDTH))
        X = np.ascontiguousarray(X, dtype=np.float64)
        panel_products(read_only(X), self._panels, out)
        return out
