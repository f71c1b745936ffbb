"""What each column adds to a score of a kernel model, along a line from a baseline to the row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from svm.data.matrices import Matrix, Vector, dense
from svm.kernel.kernels import AnyKernel, GaussianKernel
from svm.kernel.row_products import row_norms, row_products
from svm.model.explanations import by_column, term_columns
from svm.model.pipeline import FittedPipeline, quietly
from svm.transforms.features import Nystroem

STEPS = (8, 16, 32, 64, 128)
TOLERANCE = 1e-9
BLOCK_VALUES = 1 << 16
PRODUCTS_PER_SLOPE = 8
"""Multiplications that take as long as one slope, or fewer."""


class RowTerms(NamedTuple):
    """What a row's scores are made of, in two ways."""

    terms: Vector
    """(n_problems, n_terms) what each term adds between the baseline and the row."""
    vectors: Vector | None
    """(n_problems, n_vectors) what each vector adds; None if these are random directions."""


@dataclass(frozen=True)
class _Waves:
    """The features of `RandomFourier`, as a kernel: √(2/D) cos(⟨x, zᵢ⟩ + bᵢ)."""

    phases: Vector

    def of_products(self, products: Vector, x_norms: Vector, z_norms: Vector) -> Vector:
        return math.sqrt(2.0 / len(self.phases)) * np.cos(products + self.phases)

    def slopes(self, products: Vector, x_norms: Vector, z_norms: Vector) -> Vector:
        return -math.sqrt(2.0 / len(self.phases)) * np.sin(products + self.phases)


class Paths:
    """Terms of a model with the score f(x) = Σ cᵢ k(x, zᵢ): with a kernel, on Nyström or on random
    Fourier features.

    The term of a value xⱼ is what it adds along the line from a baseline b to the row,
    (xⱼ - bⱼ) ∫ ∂f/∂xⱼ(b + t (x - b)) dt over 0 … 1, and all of them sum to f(x) - f(b)
    (Sundararajan, Taly and Yan, "Axiomatic attribution for deep networks", 2017). A model of sums
    over columns gets the terms of these, and a column that f does not depend on gets 0.

    The nodes of the integral are those of Gauss and Legendre, twice as many until no term changes
    by more than `TOLERANCE` of the largest one, or the last of `STEPS`. Products with the zᵢ are
    linear in t, so that a node costs one slope for each vector.

    The baseline is the mean of the zᵢ, which are training rows; of random Fourier features it is 0,
    the mean of standardized features.
    """

    def __init__(self, fitted: FittedPipeline, steps: Sequence[int] = STEPS) -> None:
        """Of a model that has `path_work`."""
        self._steps = steps
        features = fitted.features
        vectors: Matrix | None = features.directions
        kernel: AnyKernel | _Waves
        self._coefficients = fitted.coefficients
        if fitted.kernel is not None:
            kernel, vectors = fitted.kernel, fitted.support_vectors
        else:
            assert features.weights is not None
            kernel = _Waves(features.weights)
            if isinstance(features.spec, Nystroem):
                kernel = features.spec.kernel
                self._coefficients = fitted.coefficients @ features.weights
        assert vectors is not None
        self._fitted, self._kernel, self._vectors = fitted, kernel, vectors
        self._columns, self._norms = term_columns(fitted), row_norms(vectors)
        self._origin = np.zeros(vectors.shape[1])
        if not isinstance(kernel, _Waves):
            self._origin += np.asarray(vectors.sum(axis=0)).ravel() / max(1, vectors.shape[0])
        self._products, values = self._values(self._origin)
        self.baseline: Vector = np.vecdot(self._coefficients, values)
        """(n_problems,) the scores of the baseline, less the intercepts."""

    def rows(self, X: Matrix) -> Iterator[RowTerms]:
        """Of each finite row. A term may overflow."""
        X = self._fitted.scaled(X)
        if self._fitted.kernel is not None:
            X = self._fitted.features.transform(X)
        for i in range(X.shape[0]):
            yield quietly(self._row, dense(X[i : i + 1])[0])

    def _row(self, x: Vector) -> RowTerms:
        products, values = self._values(x)
        terms = by_column(self._fitted, self._terms(x, products), self._columns)
        is_random = isinstance(self._kernel, _Waves)
        return RowTerms(terms, None if is_random else self._coefficients * values)

    def _values(self, x: Vector) -> tuple[Vector, Vector]:
        """⟨x, zᵢ⟩ and k(x, zᵢ), (n_vectors,)."""
        products, norms = row_products(x[None], self._vectors), row_norms(x[None])
        return products[0], self._kernel.of_products(products.copy(), norms, self._norms)[0]

    def _terms(self, x: Vector, products: Vector) -> Vector:
        """(n_problems, n_values)"""
        way = x - self._origin
        terms = np.full((len(self._coefficients), len(x)), np.nan)
        for count in self._steps:
            before, terms = terms, way * self._mean_gradients(way, products, count)
            change, largest = np.abs(terms - before).max(), np.abs(terms).max()
            if change <= TOLERANCE * largest:
                break
        return terms

    def _mean_gradients(self, way: Vector, products: Vector, count: int) -> Vector:
        """(n_problems, n_values) the gradients along the line, on average over `count` nodes.

        They are Σ cᵢ sᵢ zᵢ, with the slopes sᵢ in ⟨x, zᵢ⟩, and of a Gaussian kernel
        Σ cᵢ sᵢ (zᵢ - x).
        """
        nodes, weights = _nodes(count)
        here, across = np.vecdot(self._origin, [self._origin, 2.0 * way])
        lengths = here + nodes * (across + nodes * np.vecdot(way, way))
        slopes, moments = np.empty((2, len(products)))
        size = max(1, BLOCK_VALUES // count)
        for start in range(0, len(products), size):
            some = slice(start, start + size)
            along = self._products[some] + nodes[:, None] * (products - self._products)[some]
            found = self._kernel.slopes(along, lengths, self._norms[some])
            slopes[some], moments[some] = weights @ found, (weights * nodes) @ found
        shares = self._coefficients * slopes
        gradients: Vector = np.asarray((self._vectors.T @ shares.T).T)
        if isinstance(self._kernel, GaussianKernel):
            gradients = gradients - shares.sum(axis=1)[:, None] * self._origin
            gradients -= np.vecdot(self._coefficients, moments)[:, None] * way
        return gradients


@cache
def _nodes(count: int) -> tuple[Vector, Vector]:
    """Nodes in 0 … 1, and their weights."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1.0) / 2.0, weights / 2.0


def path_work(fitted: FittedPipeline) -> int:
    """About the most slopes that `Paths` needs for one row; 0 for a model without them, which has
    `contributions`."""
    if fitted.kernel is None and fitted.features.directions is None:
        return 0
    n_problems, n_vectors = map(int, fitted.coefficients.shape)
    width = fitted.features.n_inputs if fitted.kernel is None else fitted.features.n_outputs
    return max(1, n_vectors) * (sum(STEPS) + n_problems * width // PRODUCTS_PER_SLOPE)
