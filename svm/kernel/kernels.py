"""Kernels: inner products of rows in a feature space that is never built.

Only positive semi-definite ones: others have no dual bound and no certificate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from annotated_types import Ge, Le

from svm.data.matrices import Matrix, Vector, is_sparse
from svm.data.stored_rows import Rows, StoredRows, pieces, stored_values
from svm.errors import InvalidData
from svm.hyperparameters import ByName, Checked, NonNegative, Positive, by_name

MEDIAN_ROWS = 1000
"""Rows for the median distance."""
ROUNDING = 3e-14
"""A squared distance that may be pure rounding error, relative to ‖x‖²."""
LARGEST_VALUE = 1e300
"""Of a kernel: sums of larger values leave float64."""
UNDERFLOW = 1e-10
"""A kernel value that adds nothing, relative to k(x, x)."""
UNDERFLOW_ROWS = 200
"""Rows for the test of kernel values."""
FAR = 1e-30, 1e-8
"""Mean squared distance of rows from their mean, relative to the mean ‖x‖²: equal rows have less
than the first, by rounding; with less than the second, kernel values lose half of their digits."""

Gamma: TypeAlias = Positive | Literal["median", "scale", "auto"]
"""γ, or a rule: scikit-learn's `scale` is 1 / (d · variance of all entries), its `auto` 1 / d."""
OTHER_NAMES = {"rbf": "gaussian", "poly": "polynomial"}
"""What scikit-learn calls kernels."""


@dataclass(frozen=True, kw_only=True)
class LinearKernel(Checked):
    """⟨x, z⟩"""

    name: Literal["linear"] = "linear"

    def fitted(self, X: Rows) -> LinearKernel:
        """This kernel: it learns nothing from the data."""
        return self

    def of_products(self, products: Vector, x_norms: Vector, z_norms: Vector) -> Vector:
        """Kernel values from inner products (n, m) and squared norms (n,), (m,); overwrites."""
        return products

    def slopes(self, products: Vector, x_norms: Vector, z_norms: Vector) -> Vector:
        """∂k/∂⟨x, z⟩ from the same; overwrites."""
        return np.ones_like(products)

    def of_norms(self, norms: Vector) -> Vector:
        """k(x, x) from ‖x‖², (n,)."""
        return norms

    def steepness(self, norms: Vector) -> Vector:
        """(n,) by what factor two rows are farther apart in the kernel's space, at most, if their
        ‖x‖² are at most these."""
        return np.ones_like(norms)


@dataclass(frozen=True, kw_only=True)
class GaussianKernel(Checked):
    """exp(-γ ‖x - z‖²), which is exp(-‖x - z‖²/(2σ²)) with γ = 1/(2σ²)."""

    name: Literal["gaussian"] = "gaussian"
    gamma: Gamma = "median"
    """γ > 0, which is 1/(2σ²) for a kernel given by its width σ: 0.5 for σ = 1, 2 for σ = 0.5. Or
    `median`: one over the median squared distance between rows, a good first choice. Or
    scikit-learn's `scale`, 1/(d · variance of all entries), or `auto`, 1/d."""

    def fitted(self, X: Rows) -> GaussianKernel:
        """With γ as a number; `median`: from the distances between at most 1,000 rows, evenly
        spread."""
        if self.gamma != "median":
            return replace(self, gamma=_gamma(self.gamma, X))
        Z = _spread_rows(X, MEDIAN_ROWS)
        norms = np.einsum("ij,ij->i", Z, Z)
        distances = norms[:, None] + norms - 2.0 * (Z @ Z.T)
        upper = distances[np.triu_indices(len(Z), 1)]
        # Equal rows have distances like -1e-16 by rounding, which carry no information about the
        # scale. Nor do distances that are subnormal numbers.
        upper = upper[upper > max(1e-12 * norms.max(initial=0.0), np.finfo(np.float64).tiny)]
        return replace(self, gamma=1.0 / float(np.median(upper)) if len(upper) else 1.0)

    def of_products(self, products: Vector, x_norms: Vector, z_norms: Vector) -> Vector:
        """Kernel values from inner products (n, m) and squared norms (n,), (m,); overwrites."""
        products *= -2.0
        products += x_norms[:, None]
        products += z_norms
        # A row has distance 0 from itself: a large γ must not amplify the rounding error.
        np.putmask(products, products <= ROUNDING * x_norms[:, None], 0.0)
        with np.errstate(over="ignore", under="ignore"):
            products *= -float(self.gamma)
            return np.exp(products, out=products)

    def slopes(self, products: Vector, x_norms: Vector, z_norms: Vector) -> Vector:
        """∂k/∂⟨x, z⟩ = 2γ k from the same; overwrites. The gradient in x is 2γ k (z - x)."""
        return 2.0 * float(self.gamma) * self.of_products(products, x_norms, z_norms)

    def of_norms(self, norms: Vector) -> Vector:
        """k(x, x) = 1."""
        return np.ones_like(norms)

    def steepness(self, norms: Vector) -> Vector:
        """√(2γ): ‖φ(x) - φ(z)‖² = 2 - 2 exp(-γ ‖x - z‖²) ≤ 2γ ‖x - z‖²."""
        return np.full_like(norms, np.sqrt(2.0 * float(self.gamma)))


@dataclass(frozen=True, kw_only=True)
class PolynomialKernel(Checked):
    """(γ ⟨x, z⟩ + coef0)^degree"""

    name: Literal["polynomial"] = "polynomial"
    degree: Annotated[int, Ge(1), Le(20)] = 3
    """The exponent."""
    gamma: Positive | Literal["scale", "auto"] = 1.0
    """Weight of the inner product, or `scale` or `auto` as of the Gaussian kernel."""
    coef0: NonNegative = 1.0
    """At least 0: with less the kernel is not positive semi-definite."""

    def fitted(self, X: Rows) -> PolynomialKernel:
        """With γ as a number."""
        return replace(self, gamma=_gamma(self.gamma, X))

    def of_products(self, products: Vector, x_norms: Vector, z_norms: Vector) -> Vector:
        """Kernel values from inner products (n, m) and squared norms (n,), (m,); overwrites."""
        with np.errstate(over="ignore", under="ignore"):
            products *= float(self.gamma)
            products += self.coef0
            products **= self.degree
        return products

    def slopes(self, products: Vector, x_norms: Vector, z_norms: Vector) -> Vector:
        """∂k/∂⟨x, z⟩ = p γ (γ ⟨x, z⟩ + coef0)^(p - 1) from the same; overwrites."""
        lower = replace(self, degree=self.degree - 1) if self.degree > 1 else None
        if lower is None:
            return np.full_like(products, float(self.gamma))
        return (self.degree * float(self.gamma)) * lower.of_products(products, x_norms, z_norms)

    def of_norms(self, norms: Vector) -> Vector:
        """k(x, x) from ‖x‖², (n,)."""
        with np.errstate(over="ignore", under="ignore"):
            powers: Vector = (float(self.gamma) * norms + self.coef0) ** self.degree
        return powers

    def steepness(self, norms: Vector) -> Vector:
        """p √γ (γ‖x‖² + coef0)^((p - 1)/2), from the derivative of φ."""
        with np.errstate(over="ignore", under="ignore"):
            gamma = float(self.gamma)
            root = (gamma * norms + self.coef0) ** (0.5 * (self.degree - 1))
            steepness: Vector = self.degree * np.sqrt(gamma) * root
        return steepness


MEDIAN_GAUSSIAN = GaussianKernel()
"""The default kernel."""
LINEAR = LinearKernel()
"""What a problem without a kernel has."""

_Kernel: TypeAlias = LinearKernel | GaussianKernel | PolynomialKernel
AnyKernel: TypeAlias = Annotated[_Kernel, ByName(OTHER_NAMES)]

KERNELS: dict[str, type[Checked]] = by_name(_Kernel)


def _gamma(gamma: float | str, X: Rows) -> float:
    """γ as a number; 1 by `scale` if all entries are equal, up to rounding."""
    if not isinstance(gamma, str):
        return gamma
    n, d = X.shape
    if gamma == "auto":
        return 1.0 / float(d)
    mean = sum(float(_values(piece).sum(dtype=np.float64)) for piece in pieces(X)) / (n * d)
    squares = (n * d - stored_values(X)) * mean * mean
    for piece in pieces(X):
        squares += float(np.square(_values(piece).astype(np.float64) - mean).sum())
    variance = squares / (n * d)
    return 1.0 / float(d * variance) if variance > max(1e-24 * mean * mean, 1e-300) else 1.0


def _values(X: Matrix) -> Any:
    return X.data if is_sparse(X) else X


def require_moderate_values(kernel: AnyKernel, norms: Vector) -> None:
    """Raises InvalidData (`non-finite-value`) if sums of kernel values of rows with these ‖x‖²
    would overflow: no value is larger than the largest k(x, x)."""
    largest = float(kernel.of_norms(norms).max())
    if not largest <= LARGEST_VALUE:
        raise InvalidData(
            "non-finite-value",
            f"a kernel value of size {largest:g} is too large to train on: scale the features, or "
            "give a kernel with smaller parameters",
        )


def dense_rows(X: Rows, rows: Any) -> Vector:
    """Some rows as a float64 array, (len(rows), n_features)."""
    chosen = X.read(rows) if isinstance(X, StoredRows) else X[rows]
    dense = chosen.toarray() if is_sparse(chosen) else chosen
    return np.ascontiguousarray(dense, dtype=np.float64)


def inner_products(X: Matrix, Z: Matrix) -> Vector:
    """⟨xᵢ, zⱼ⟩ of rows, both dense or both sparse, (len(X), len(Z)), in float64."""
    if is_sparse(X):
        sparse: Any = X.astype(np.float64, copy=False) @ Z.T.astype(np.float64, copy=False)
        products: Vector = sparse.toarray()
        return products
    left, right = (np.ascontiguousarray(rows, dtype=np.float64) for rows in (X, Z))
    return left @ right.T


def mostly_underflows(kernel: AnyKernel, X: Rows) -> bool:
    """Whether most values between different rows are almost 0: a kernel far too narrow.

    Such a model fits its training rows, and may predict new ones by chance. Raw pixels 0 … 255
    with γ = 2 do that.
    """
    Z = _spread_rows(X, UNDERFLOW_ROWS)
    norms = np.einsum("ij,ij->i", Z, Z)
    values = kernel.of_products(Z @ Z.T, norms, norms)
    off_diagonal = values[np.triu_indices(len(Z), 1)]
    scale = float(np.median(kernel.of_norms(norms)))
    return len(off_diagonal) > 0 and float(np.median(np.abs(off_diagonal))) < UNDERFLOW * scale


def require_spread_rows(X: Rows) -> None:
    """Raises InvalidData (`rounded-kernel`) if rows are so near each other, compared with their
    distance from 0, that the rounding of kernel values matters: no certificate would be true."""
    Z = _spread_rows(X, UNDERFLOW_ROWS)
    centered = Z - Z.mean(axis=0)
    size = float(np.vdot(Z, Z))
    if FAR[0] * size < float(np.vdot(centered, centered)) < FAR[1] * size:
        raise InvalidData(
            "rounded-kernel",
            "kernel values would be rounded to few digits: compared with their distance from 0, "
            "the rows are too near each other; standardize the features",
        )


def _spread_rows(X: Rows, count: int) -> Vector:
    """At most `count` rows of X, evenly spread, as `dense_rows`."""
    n = X.shape[0]
    return dense_rows(X, np.linspace(0, n - 1, min(n, count)).astype(np.int64))
