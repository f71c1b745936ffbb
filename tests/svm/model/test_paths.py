"""Terms of kernel models: complete, exact for sums over columns, near Shapley values."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest

from svm.data.matrices import Vector, as_sparse
from svm.kernel.kernels import AnyKernel, GaussianKernel, LinearKernel, PolynomialKernel
from svm.model.paths import STEPS, Paths, path_work
from svm.model.pipeline import FittedPipeline, Pipeline
from svm.solvers import SMO, Newton
from svm.transforms.features import FeatureMap, Identity, Nystroem, RandomFourier, Splines, Square
from svm.transforms.scaling import Scaling
from tests.svm.cases.problems import blobs
from tests.svm.cases.trainings import train

GAUSS = SMO(C=1.0, kernel=GaussianKernel(gamma=0.3))
PIPELINES = {
    "gaussian": Pipeline(solver=GAUSS, scaling="standardize"),
    "polynomial": Pipeline(solver=SMO(C=1.0, kernel=PolynomialKernel()), scaling="min-max"),
    "linear": Pipeline(solver=SMO(C=1.0, kernel=LinearKernel())),
    "of squares": Pipeline(solver=GAUSS, features=Square(), scaling="standardize"),
    "of splines": Pipeline(solver=GAUSS, features=Splines(), scaling="standardize"),
    "nystroem": Pipeline(
        solver=Newton(C=1.0), features=Nystroem(n_components=30), scaling="standardize"
    ),
    "fourier": Pipeline(
        solver=Newton(C=1.0), features=RandomFourier(n_components=50), scaling="standardize"
    ),
}


def kernel_model(kernel: AnyKernel, vectors: Any, coefficients: Any) -> FittedPipeline:
    vectors = np.array(vectors, dtype=np.float64)
    return FittedPipeline(
        classes=np.array(["a", "b"]),
        scaling=Scaling(),
        features=FeatureMap(Identity(), vectors.shape[1]),
        coefficients=np.array([coefficients], dtype=np.float64),
        intercepts=np.array([0.25]),
        kernel=kernel,
        support_vectors=vectors,
    )


def terms_of(fitted: FittedPipeline, X: Any, steps: tuple[int, ...] = STEPS) -> Vector:
    """(n_samples, n_problems, n_terms)"""
    return np.array([row.terms for row in Paths(fitted, steps).rows(X)])


def missed(fitted: FittedPipeline, X: Vector, steps: tuple[int, ...] = STEPS) -> float:
    """How much the terms, the baseline and the intercept are off a score, at most."""
    start = Paths(fitted).baseline + fitted.intercepts
    sums = terms_of(fitted, X, steps).sum(axis=2) + start
    return float(np.abs(sums - fitted.problem_scores(X)).max())


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_terms_sum_to_the_score_less_that_of_the_baseline(name: str, n_classes: int) -> None:
    """And a row has the same bits in any batch."""
    X, labels = blobs(n_classes)
    fitted = train(PIPELINES[name], X, labels).result().fitted
    rows = X[:12]
    assert missed(fitted, rows) <= 1e-9 * np.abs(fitted.problem_scores(rows)).max()
    terms = terms_of(fitted, rows)
    assert terms.shape == (12, len(fitted.intercepts), X.shape[1])
    assert terms.tobytes() == b"".join(terms_of(fitted, row[None]).tobytes() for row in rows)


def test_baseline_is_the_mean_of_the_vectors() -> None:
    vectors = np.random.default_rng(0).normal(size=(9, 3)) + 1.0
    fitted = kernel_model(GaussianKernel(gamma=0.4), vectors, np.linspace(-1.0, 1.0, 9))
    mean = vectors.mean(axis=0)[None]
    score = Paths(fitted).baseline + fitted.intercepts
    np.testing.assert_allclose(score, fitted.problem_scores(mean)[0], rtol=1e-12)
    assert not terms_of(fitted, mean).any()


def test_column_without_effect_has_no_term() -> None:
    """A polynomial in ⟨x, z⟩ does not depend on a column that is 0 in all vectors; a column that is
    as in the baseline explains nothing; and equal columns have equal terms."""
    vectors = [[1.0, 0.0], [-2.0, 0.0], [0.5, 0.0]]
    fitted = kernel_model(PolynomialKernel(degree=3), vectors, [1.0, -0.3, 0.7])
    X = np.array([[2.0, 5.0], [-1.0, -3.0]])
    terms = terms_of(fitted, X)[:, 0]
    assert not terms[:, 1].any()
    expected = fitted.problem_scores(X)[:, 0] - Paths(fitted).baseline - fitted.intercepts
    np.testing.assert_allclose(terms[:, 0], expected, rtol=1e-12)
    gauss = kernel_model(GaussianKernel(gamma=0.5), vectors, [1.0, -0.3, 0.7])
    assert not terms_of(gauss, np.array([[2.0, 0.0]]))[0, 0, 1].any()
    twins = kernel_model(GaussianKernel(gamma=0.5), [[1.0, 1.0], [-2.0, -2.0]], [1.0, -0.3])
    first, second = terms_of(twins, np.array([[0.3, 0.3]]))[0, 0]
    assert first == pytest.approx(second, rel=1e-12)


def test_terms_of_a_sum_over_columns_are_its_parts() -> None:
    """x² + y³: whatever the path, each column has the difference of its own part."""
    squares = np.array([[1.0, 0.0], [-1.0, 0.0], [2.0, 0.0], [-2.0, 0.0]])
    fitted = kernel_model(PolynomialKernel(degree=2, coef0=0.0), squares, [1.0, 1.0, 0.5, 0.5])
    cubes = kernel_model(
        PolynomialKernel(degree=3, coef0=0.0), [[0.0, 1.0], [0.0, 2.0]], [1.0, -0.25]
    )
    X = np.array([[1.5, -0.5]])
    np.testing.assert_allclose(terms_of(fitted, X)[0, 0], [6.0 * 1.5**2, 0.0], atol=1e-13)
    np.testing.assert_allclose(terms_of(cubes, X)[0, 0], [0.0, -((-0.5) ** 3) + 1.5**3], atol=1e-13)


def test_error_shrinks_with_the_steps() -> None:
    """Of a kernel so narrow that few steps miss all that is on the way; and is as small as rounding
    at once for a polynomial of at most twice the degree."""
    random = np.random.default_rng(1)
    vectors, coefficients = random.normal(size=(40, 4)), random.normal(size=40)
    fitted = kernel_model(GaussianKernel(gamma=20.0), vectors, coefficients)
    X = vectors[:6] + 0.1
    errors = [missed(fitted, X, (count,)) for count in (2, 4, 8, 16, 32)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 0.1 > 1e-9 > missed(fitted, X) > 0.0
    smooth = kernel_model(PolynomialKernel(degree=15), vectors / 4.0, coefficients)
    assert missed(smooth, X, (8,)) < 1e-9 < missed(smooth, X, (2,))


def shapley(fitted: FittedPipeline, x: Vector, baseline: Vector) -> Vector:
    """(n_features,) the mean, over all orders, of what changing a column from the baseline's value
    to the row's adds after those before it."""
    values, orders = np.zeros(len(x)), list(permutations(range(len(x))))
    for order in orders:
        steps = np.tile(baseline, (len(x) + 1, 1))
        for k, j in enumerate(order):
            steps[k + 1 :, j] = x[j]
        values[list(order)] += np.diff(fitted.problem_scores(steps)[:, 0])
    return values / len(orders)


@pytest.mark.parametrize("kernel", [GaussianKernel(gamma=0.1), PolynomialKernel(degree=2)], ids=str)
def test_terms_agree_with_shapley_values(kernel: Any) -> None:
    """In the sign and the order of those that matter, by another definition."""
    X, labels = blobs(2)
    X = X[:, :4]
    fitted = train(Pipeline(solver=SMO(C=1.0, kernel=kernel)), X, labels).result().fitted
    vectors: Any = fitted.support_vectors
    for x, (terms,) in zip(X[:20], terms_of(fitted, X[:20]), strict=True):
        expected = shapley(fitted, x, vectors.mean(axis=0))
        assert expected.sum() == pytest.approx(terms.sum(), abs=1e-9)
        largest = np.abs(expected).max()
        assert np.abs(terms - expected).max() < 0.25 * largest
        clear = np.abs(expected) > 0.3 * largest
        assert (np.sign(terms[clear]) == np.sign(expected[clear])).all()
        assert np.argmax(np.abs(terms)) in np.flatnonzero(np.abs(expected) > 0.75 * largest)


def test_sparse_vectors_and_rows_have_the_terms_of_dense_ones() -> None:
    random = np.random.default_rng(2)
    vectors = random.normal(size=(20, 30)) * (random.random((20, 30)) < 0.2)
    fitted = kernel_model(GaussianKernel(gamma=0.2), vectors, random.normal(size=20))
    rows = random.normal(size=(5, 30)) * (random.random((5, 30)) < 0.2)
    sparse = replace(fitted, support_vectors=as_sparse(vectors))
    np.testing.assert_allclose(
        terms_of(sparse, as_sparse(rows)), terms_of(fitted, rows), rtol=1e-9, atol=1e-13
    )


def test_model_without_vectors_has_terms_of_zero() -> None:
    fitted = kernel_model(GaussianKernel(gamma=1.0), np.empty((0, 3)), [])
    assert not terms_of(fitted, np.ones((2, 3))).any()
    assert path_work(fitted) > 0
