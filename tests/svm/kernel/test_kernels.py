"""Kernels and feature maps: they compute their formulas, row by row."""

from __future__ import annotations

import math
import tracemalloc
from itertools import combinations, combinations_with_replacement
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.svm import SVC

from svm.data.matrices import Vector
from svm.errors import InvalidData, InvalidHyperparameter
from svm.kernel.kernels import (
    AnyKernel,
    GaussianKernel,
    LinearKernel,
    PolynomialKernel,
    mostly_underflows,
)
from svm.kernel.row_products import kernel_values
from svm.transforms.features import (
    AnyFeatures,
    Identity,
    Interactions,
    Nystroem,
    Polynomial,
    RandomFourier,
    Splines,
    Square,
    Terms,
    fit_features,
)
from tests.svm.cases.stored import stored

KERNELS: list[AnyKernel] = [
    LinearKernel(),
    GaussianKernel(gamma=0.3),
    GaussianKernel(),
    PolynomialKernel(degree=3, gamma=0.5, coef0=1.0),
    PolynomialKernel(degree=2, coef0=0.0),
]
MAPS: list[AnyFeatures] = [
    Identity(),
    Square(),
    Polynomial(degree=3),
    Interactions(),
    Terms(terms=[{"0": 2}, {"3": 1, "1": 3}, {"4": 1}]),
    Splines(),
    RandomFourier(n_components=50),
    Nystroem(n_components=20),
]
X = np.random.default_rng(3).normal(size=(40, 5))
EVERYTHING = np.arange(len(X))


def formula(kernel: AnyKernel, x: Vector, z: Vector) -> float:
    match kernel:
        case LinearKernel():
            return float(x @ z)
        case GaussianKernel(gamma=gamma):
            return math.exp(-float(gamma) * float((x - z) @ (x - z)))
        case PolynomialKernel():
            return float(float(kernel.gamma) * float(x @ z) + kernel.coef0) ** kernel.degree


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_values_are_the_formulas(kernel: AnyKernel, layout: str) -> None:
    """Every value, dense and sparse on either side; the diagonal is k(x, x)."""
    fitted = kernel.fitted(X)
    rows = csr_array(X) if layout == "csr" else X
    expected = [[formula(fitted, x, z) for z in X[:7]] for x in X]
    np.testing.assert_allclose(kernel_values(fitted, rows, X[:7]), expected, rtol=1e-10)
    sparse = kernel_values(fitted, rows, csr_array(X[:7]))
    np.testing.assert_allclose(sparse, expected, rtol=1e-10)
    norms = np.einsum("ij,ij->i", X, X)
    diagonal = [formula(fitted, x, x) for x in X]
    np.testing.assert_allclose(fitted.of_norms(norms), diagonal, rtol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@given(seed=st.integers(0, 1000), n=st.integers(1, 15))
def test_gram_matrices_are_symmetric_and_positive_semi_definite(
    kernel: AnyKernel, seed: int, n: int
) -> None:
    """Otherwise there is no dual bound."""
    Z = np.random.default_rng(seed).normal(size=(n, 3))
    K = kernel_values(kernel.fitted(Z), Z, Z)
    np.testing.assert_allclose(K, K.T, rtol=1e-9, atol=1e-12)
    assert np.linalg.eigvalsh(K).min() >= -1e-9 * max(1.0, float(np.abs(K).max()))


def test_median_gamma() -> None:
    """One over the median squared distance between the rows."""
    distances = [float((x - z) @ (x - z)) for x, z in combinations(X, 2)]
    fitted = GaussianKernel().fitted(X)
    assert float(fitted.gamma) == pytest.approx(1.0 / float(np.median(distances)))
    same = np.ones((5, 2))
    assert GaussianKernel().fitted(same).gamma == 1.0


@pytest.mark.parametrize("kind", [GaussianKernel, PolynomialKernel])
def test_gamma_by_the_rules_of_scikit_learn(kind: type[Any], tmp_path: Path) -> None:
    """As SVC has it, from dense and sparse rows and from files; 1 if all entries are equal."""
    rows = np.where(X > 0.5, 3.0 * X + 2.0, 0.0)
    y = np.arange(len(rows)) % 2
    for rule in ("scale", "auto"):
        expected = SVC(gamma=rule).fit(rows, y)._gamma
        for each in (rows, csr_array(rows), stored(rows, tmp_path)):
            assert kind(gamma=rule).fitted(each).gamma == pytest.approx(expected, rel=1e-12)
    assert kind(gamma="scale").fitted(np.full((9, 3), 0.1)).gamma == 1.0


def test_negative_coef0_is_refused() -> None:
    """It would make the kernel indefinite."""
    with pytest.raises(InvalidHyperparameter, match="coef0"):
        PolynomialKernel(coef0=-1.0)


def test_too_narrow_a_kernel_is_noticed() -> None:
    """For raw pixels 0 … 255 under σ = 0.5 only the diagonal is left; not under the median γ."""
    pixels = np.random.default_rng(0).integers(256, size=(50, 64)).astype(float)
    assert mostly_underflows(GaussianKernel(gamma=2.0), pixels)
    assert not mostly_underflows(GaussianKernel().fitted(pixels), pixels)
    assert not mostly_underflows(LinearKernel(), pixels)


@pytest.mark.parametrize("spec", MAPS, ids=lambda spec: spec.name)
@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_features_of_a_row_do_not_depend_on_other_rows(spec: AnyFeatures, layout: str) -> None:
    """To the bit, alone and in any batch."""
    if layout == "csr" and isinstance(spec, Polynomial | Interactions | Terms | Splines):
        pytest.skip("dense data only")
    rows: Any = csr_array(X) if layout == "csr" else X
    fitted = fit_features(spec, rows, seed=1)
    together: Any = fitted.transform(rows)
    assert together.shape == (40, fitted.n_outputs)
    for size in (1, 3, 17):
        for start in range(0, 40, size):
            part: Any = fitted.transform(rows[start : start + size])
            whole = together[start : start + size]
            if layout == "csr" and hasattr(part, "toarray"):
                part, whole = part.toarray(), whole.toarray()
            assert part.tobytes() == np.ascontiguousarray(whole).tobytes()


def test_products_of_features() -> None:
    """Every product of up to three features once; interactions only of different ones."""
    cubic = np.asarray(fit_features(Polynomial(degree=3), X, 0).transform(X))
    names = [c for k in (1, 2, 3) for c in combinations_with_replacement(range(5), k)]
    expected = np.array([[math.prod(row[list(name)]) for name in names] for row in X])
    order = np.argsort(expected[0]), np.argsort(cubic[0])
    np.testing.assert_allclose(cubic[:, order[1]], expected[:, order[0]], rtol=1e-12)
    pairs = np.asarray(fit_features(Interactions(), X, 0).transform(X))
    expected = np.column_stack([X, *(X[:, i] * X[:, j] for i, j in combinations(range(5), 2))])
    np.testing.assert_allclose(pairs, expected)


def test_random_fourier_features_approach_the_kernel() -> None:
    """Inner products of 20,000 of them are the Gaussian kernel within a few hundredths."""
    fitted = fit_features(RandomFourier(n_components=20_000, gamma=0.3), X, seed=5)
    Z = np.asarray(fitted.transform(X))
    K = kernel_values(GaussianKernel(gamma=0.3), X, X)
    assert np.abs(Z @ Z.T - K).max() < 0.04


def test_nystroem_features_of_all_rows_are_the_kernel() -> None:
    """With every row as a landmark the inner products are exact."""
    kernel = GaussianKernel(gamma=0.3)
    fitted = fit_features(Nystroem(n_components=40, kernel=kernel), X, seed=5)
    Z = np.asarray(fitted.transform(X))
    np.testing.assert_allclose(Z @ Z.T, kernel_values(kernel, X, X), atol=1e-8)


@pytest.mark.parametrize("spec", [Nystroem(n_components=300), RandomFourier(n_components=300)])
def test_approximated_kernels_are_mapped_block_by_block(
    spec: Nystroem | RandomFourier,
) -> None:
    """No second matrix of all rows is in memory, and a row has the same bits alone."""
    rows = np.random.default_rng(3).normal(size=(20_000, 12))
    fitted = fit_features(spec, rows, seed=5)
    alone = np.concatenate([np.asarray(fitted.transform(row[None])) for row in rows[-9:]])
    tracemalloc.start()
    mapped = np.asarray(fitted.transform(rows))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert mapped[-9:].tobytes() == alone.tobytes()
    assert np.asarray(fitted.transform(rows[7:1000])).tobytes() == mapped[7:1000].tobytes()
    assert peak < 1.2 * mapped.nbytes


def test_too_many_features_are_refused() -> None:
    """The error has the number of features."""
    wide = np.ones((2, 784))
    with pytest.raises(InvalidData, match="308504 features") as caught:
        fit_features(Polynomial(degree=2), wide, 0)
    assert caught.value.code == "plan-too-large"
    with pytest.raises(InvalidData) as caught:
        fit_features(Interactions(), csr_array(X), 0)
    assert caught.value.code == "features-unsupported"
