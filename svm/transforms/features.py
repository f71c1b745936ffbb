"""Feature maps: new features for a linear solver, made from the scaled ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, combinations_with_replacement
from typing import Annotated, Literal, TypeAlias

import numpy as np
from annotated_types import Ge, Le

from svm.data.columns import Column
from svm.data.matrices import Floats, Matrix, Vector, is_sparse
from svm.data.randomness import generator
from svm.data.stored_rows import Rows, is_csr
from svm.errors import InvalidData
from svm.hyperparameters import Checked, Positive, PositiveInt, by_name
from svm.kernel import MEDIAN_GAUSSIAN, AnyKernel, GaussianKernel
from svm.kernel.kernel_evaluator import KernelEvaluator
from svm.kernel.kernels import dense_rows, require_moderate_values, require_spread_rows
from svm.kernel.row_products import RowProducts
from svm.transforms.terms import Terms, check_terms, factors_of, products, term_names

MAX_OUTPUTS = 20_000
"""Most features that a map may make."""
BLOCK_VALUES = 1 << 16
"""Of the rows that are mapped at a time: 512 KiB."""


@dataclass(frozen=True, kw_only=True)
class Identity(Checked):
    """The features, unchanged."""

    name: Literal["identity"] = "identity"


@dataclass(frozen=True, kw_only=True)
class Square(Checked):
    """x ↦ x², entry by entry: enough for classes inside and outside of an ellipse."""

    name: Literal["square"] = "square"


@dataclass(frozen=True, kw_only=True)
class Polynomial(Checked):
    """All products of at most `degree` features, without the constant."""

    name: Literal["polynomial"] = "polynomial"
    degree: Annotated[int, Ge(2), Le(5)] = 2
    """Most factors of a product."""


@dataclass(frozen=True, kw_only=True)
class Interactions(Checked):
    """The features and all products of two different ones."""

    name: Literal["interactions"] = "interactions"


@dataclass(frozen=True, kw_only=True)
class RandomFourier(Checked):
    """√(2/D) cos(Wx + b): inner products approach the Gaussian kernel (Rahimi and Recht, 2007)."""

    name: Literal["random-fourier"] = "random-fourier"
    n_components: PositiveInt = 1000
    """D, the number of features made."""
    gamma: Positive | Literal["median"] = "median"
    """γ of exp(-γ ‖x - z‖²), which is 1/(2σ²) for a width σ."""


@dataclass(frozen=True, kw_only=True)
class Nystroem(Checked):
    """The kernel's feature space, spanned by a sample of the rows (Williams and Seeger, 2001)."""

    name: Literal["nystroem"] = "nystroem"
    n_components: PositiveInt = 500
    """Rows drawn to span it; at most the number of training rows."""
    kernel: AnyKernel = MEDIAN_GAUSSIAN
    """Inner products in the space to span."""


AnyFeatures: TypeAlias = (
    Identity | Square | Polynomial | Interactions | Terms | RandomFourier | Nystroem
)

FEATURES: dict[str, type[Checked]] = by_name(AnyFeatures)


@dataclass(frozen=True)
class FeatureMap:
    """A fitted map. Every row's result depends on that row alone, to the bit."""

    spec: AnyFeatures
    n_inputs: int
    directions: Vector | None = None
    """Random Fourier: W (n_components, n_inputs). Nyström: the rows drawn, likewise."""
    weights: Vector | None = None
    """Random Fourier: b (n_components,). Nyström: K^(-1/2) of the rows drawn, symmetric. Terms: the
    features that each multiplies (`svm.transforms.terms`)."""

    @property
    def n_outputs(self) -> int:
        """Number of output features."""
        if self.directions is not None:
            return len(self.directions)
        return n_outputs(self.spec, self.n_inputs)

    def output_names(self, names: Sequence[str]) -> list[str] | None:
        """Names of the output features from those of the input features, such as `a*b`.

        None for features without names: random Fourier features, kernel values with rows.
        """
        match self.spec:
            case Identity():
                return list(names)
            case Square():
                return [f"{name}*{name}" for name in names]
            case Polynomial(degree=degree):
                return _product_names(names, degree, 0)
            case Interactions():
                return _product_names(names, 2, 1)
            case Terms():
                assert self.weights is not None
                return term_names(self.weights, names)
        return None

    def transform(self, X: Matrix) -> Matrix:
        """The output features of the rows of X, in the precision of X."""
        match self.spec:
            case Identity():
                return X
            case Square():
                return X.power(2) if is_sparse(X) else X * X
            case Polynomial(degree=degree):
                return _products(X, degree, 0)
            case Interactions():
                return _products(X, 2, 1)
            case Terms():
                assert self.weights is not None
                assert not is_sparse(X)  # see `check_features`
                return products(X, self.weights)
            case RandomFourier() | Nystroem():
                return self._approximated(X)

    @property
    def prepared_bytes(self) -> int:
        """Memory of what the first rows left prepared."""
        made = self.__dict__.get("_directions"), self.__dict__.get("_roots")
        return sum(one.nbytes for one in made if one is not None)

    def _approximated(self, X: Matrix) -> Vector:
        """A block of rows after the other, so that their values stay in the processor's cache."""
        out = np.empty((X.shape[0], self.n_outputs), dtype=X.dtype)
        widest = self.n_outputs if is_sparse(X) else max(self.n_outputs, X.shape[1])
        size = max(1, BLOCK_VALUES // widest)
        for start in range(0, len(out), size):
            part = slice(start, start + size)
            values = self._directions(X[part])
            match self.spec:
                case RandomFourier():
                    assert self.weights is not None
                    values += self.weights
                    np.cos(values, out=values)
                    values *= math.sqrt(2.0 / len(self.weights))
                case Nystroem():
                    values = self._roots(values)
            out[part] = values
        return out

    @cached_property
    def _directions(self) -> RowProducts | KernelEvaluator:
        assert self.directions is not None
        if isinstance(self.spec, Nystroem):
            return KernelEvaluator(self.spec.kernel, self.directions)
        return RowProducts(self.directions)

    @cached_property
    def _roots(self) -> RowProducts:
        assert self.weights is not None
        return RowProducts(self.weights)


def check_features(spec: AnyFeatures, n_features: int, sparse: bool) -> None:
    """Raises InvalidData (`plan-too-large`, `features-unsupported`) for unsupported data."""
    if isinstance(spec, Identity | Square):
        return
    if sparse and isinstance(spec, Polynomial | Interactions | Terms):
        raise InvalidData(
            "features-unsupported",
            f"{spec.name} features of sparse data would be dense; use square, random-fourier or "
            "nystroem",
        )
    count = n_outputs(spec, n_features)
    if count > MAX_OUTPUTS:
        raise InvalidData(
            "plan-too-large",
            f"the feature map would make {count} features, at most {MAX_OUTPUTS} are allowed; "
            "use random-fourier or nystroem, or a lower degree",
        )


def fit_features(
    spec: AnyFeatures, X: Rows, seed: int, places: Mapping[str, int] | None = None
) -> FeatureMap:
    """Learn what the map needs from the scaled training rows. `places` are the features that names
    in terms mean; by default each is called by its position.

    Raises InvalidData: `plan-too-large` for more than 20,000 output features,
    `features-unsupported` for products of sparse features.
    """
    n, d = X.shape
    check_features(spec, d, is_csr(X))
    random = generator("features", seed)
    match spec:
        case Terms():
            if places is None:
                places = {str(j): j for j in range(d)}
            check_terms(spec, tuple(Column(name) for name in places))
            return FeatureMap(spec, d, None, factors_of(spec, places))
        case RandomFourier():
            gamma = GaussianKernel(gamma=spec.gamma).fitted(X).gamma
            scale = math.sqrt(2.0 * float(gamma))
            directions = scale * random.normal(size=(spec.n_components, d))
            phases = random.uniform(0.0, 2.0 * math.pi, size=spec.n_components)
            return FeatureMap(spec, d, directions, phases)
        case Nystroem():
            kernel = spec.kernel.fitted(X)
            count = min(spec.n_components, n)
            rows = np.sort(random.permutation(n)[:count])
            landmarks = dense_rows(X, rows)
            norms = np.einsum("ij,ij->i", landmarks, landmarks)
            require_moderate_values(kernel, norms)
            require_spread_rows(landmarks)
            K = kernel.of_products(landmarks @ landmarks.T, norms, norms)
            values, vectors = np.linalg.eigh(K)
            # Directions without extent: their inverse root is noise.
            roots = np.where(values > 1e-10 * values[-1], np.abs(values), np.inf) ** -0.5
            fixed = Nystroem(n_components=spec.n_components, kernel=kernel)
            return FeatureMap(
                fixed, d, landmarks, np.ascontiguousarray((vectors * roots) @ vectors.T)
            )
    return FeatureMap(spec, d)


def n_outputs(spec: AnyFeatures, d: int) -> int:
    """Number of output features for d input features."""
    match spec:
        case Polynomial(degree=degree):
            return math.comb(d + degree, degree) - 1
        case Interactions():
            return d + d * (d - 1) // 2
        case Terms(terms=terms):
            return len(terms)
        case RandomFourier(n_components=count) | Nystroem(n_components=count):
            return count
        case _:
            return d


def _products(X: Matrix, degree: int, step: int) -> Floats:
    """All products of up to `degree` columns; of different ones if `step` is 1."""
    assert not is_sparse(X)  # see `check_features`
    columns: list[Floats] = [X[:, j] for j in range(X.shape[1])]
    last: list[tuple[int, Floats]] = list(enumerate(columns))
    for _ in range(degree - 1):
        last = [(j, product * X[:, j]) for i, product in last for j in range(i + step, X.shape[1])]
        columns += [product for _, product in last]
    return np.ascontiguousarray(np.stack(columns, axis=1))


def _product_names(names: Sequence[str], degree: int, step: int) -> list[str]:
    """In the order of `_products`."""
    choose = combinations if step else combinations_with_replacement
    return ["*".join(factors) for k in range(1, degree + 1) for factors in choose(names, k)]
