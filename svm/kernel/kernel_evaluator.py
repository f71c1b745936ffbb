"""Kernel values of rows with fixed vectors, which are prepared once."""

from __future__ import annotations

import numpy as np

from svm.data.matrices import Matrix, Vector
from svm.data.stored_rows import stored_values
from svm.kernel.kernels import AnyKernel
from svm.kernel.row_products import RowProducts, row_norms


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
        """Memory of the prepared vectors."""
        return self._vectors.nbytes

    def __call__(self, X: Matrix) -> Vector:
        """X is float64, dense or sparse."""
        products = self._vectors.padded(X)
        norms = np.append(self._norms, np.zeros(products.shape[1] - len(self._norms)))
        values = self._kernel.of_products(products, row_norms(X), norms)
        return values[:, : self._vectors.n_vectors]
