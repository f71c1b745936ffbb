"""Kernel values of rows with prepared vectors, dense and sparse."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from svm.kernel.kernels import AnyKernel, GaussianKernel, LinearKernel, PolynomialKernel
from svm.kernel.row_products import KernelEvaluator, kernel_values

KERNELS: list[AnyKernel] = [
    LinearKernel(),
    GaussianKernel(gamma=0.3),
    PolynomialKernel(degree=2, gamma=0.5),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("sparse_vectors", [False, True])
@pytest.mark.parametrize("sparse_rows", [False, True])
@pytest.mark.parametrize(("n_vectors", "d"), [(1, 1), (31, 5), (32, 64), (100, 7)])
def test_values_are_those_of_the_kernel(
    kernel: AnyKernel, sparse_vectors: bool, sparse_rows: bool, n_vectors: int, d: int
) -> None:
    random = np.random.default_rng(n_vectors)
    Z, X = random.normal(size=(n_vectors, d)), random.normal(size=(9, d))
    evaluator = KernelEvaluator(kernel, csr_array(Z) if sparse_vectors else Z)
    result = evaluator(csr_array(X) if sparse_rows else X)
    np.testing.assert_allclose(result, kernel_values(kernel, X, Z), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("n_vectors", "d"), [(1, 1), (33, 3), (1000, 64), (64, 300)])
def test_a_row_has_the_same_bits_in_any_batch(n_vectors: int, d: int) -> None:
    random = np.random.default_rng(d)
    Z, X = random.normal(size=(n_vectors, d)), random.normal(size=(23, d))
    evaluator = KernelEvaluator(GaussianKernel(gamma=1 / d), Z)
    together = evaluator(X)
    for size in (1, 2, 3, 4, 5, 6, 7, 22):
        parts = [evaluator(X[i : i + size]) for i in range(0, len(X), size)]
        assert np.concatenate(parts).tobytes() == together.tobytes()


def test_products_of_small_whole_numbers_are_exact() -> None:
    """For each position in a panel and each number of rows."""
    random = np.random.default_rng(0)
    Z = random.integers(-9, 10, size=(75, 11)).astype(np.float64)
    evaluator = KernelEvaluator(LinearKernel(), Z)
    for n in range(1, 10):
        X = random.integers(-9, 10, size=(n, 11)).astype(np.float64)
        assert (evaluator(X) == X @ Z.T).all()
