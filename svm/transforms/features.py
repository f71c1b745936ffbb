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

from svm.data.columns import Column, Columns
from svm.data.matrices import Floats, Indices, Matrix, Vector, is_sparse
from svm.data.randomness import generator
from svm.data.stored_rows import Rows, is_csr
from svm.errors import InvalidData, InvalidHyperparameter
from svm.hyperparameters import Checked, PositiveInt, by_name
from svm.kernel import kernels
from svm.kernel.kernels import MEDIAN_GAUSSIAN, AnyKernel, Gamma, GaussianKernel
from svm.kernel.row_products import KernelEvaluator, RowProducts
from svm.transforms.splines import FEWEST, fit_knots, splines, widths_of

MAX_OUTPUTS = 20_000
"""Most features that a map may make."""
BLOCK_VALUES = 1 << 16
"""Of the rows that are mapped at a time: 512 KiB."""
KNOT_ROWS = 10_000
"""Rows that knots are learned from."""
MOST_TERMS = 1000
MOST_FACTORS = 20
"""Of one term, each power counted."""
NO_FACTOR = -1.0
Power = Annotated[int, Ge(1), Le(10)]


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
class Terms(Checked):
    """The products of powers that are listed, and nothing else: of `{"x": 2}` and
    `{"x": 1, "y": 1}` the features x² and x·y.

    The powers are those of the scaled features. A feature that should stay has a term of its own,
    `{"x": 1}`.
    """

    name: Literal["terms"] = "terms"
    terms: list[dict[str, Power]]
    """The terms, at most 1,000: each has names of columns with their powers, together at most 20.
    Columns without names are called by their position: `"0"`, `"1"`, …"""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= len(self.terms) <= MOST_TERMS:
            raise InvalidHyperparameter("terms", f"{len(self.terms)} terms", f"1 … {MOST_TERMS}")
        seen = set()
        for term in self.terms:
            shown = "*".join(factor_names(term))[:64]
            if not 1 <= sum(term.values()) <= MOST_FACTORS:
                expected = f"terms of 1 … {MOST_FACTORS} factors"
                raise InvalidHyperparameter("terms", shown, expected)
            key = frozenset(term.items())
            if key in seen:
                raise InvalidHyperparameter("terms", shown, "every term once")
            seen.add(key)

    def __hash__(self) -> int:
        return hash(repr(self.terms))


@dataclass(frozen=True, kw_only=True)
class RandomFourier(Checked):
    """√(2/D) cos(Wx + b): inner products approach the Gaussian kernel (Rahimi and Recht, 2007)."""

    name: Literal["random-fourier"] = "random-fourier"
    n_components: PositiveInt = 1000
    """D, the number of features made."""
    gamma: Gamma = "median"
    """γ of exp(-γ ‖x - z‖²), which is 1/(2σ²) for a width σ; or `median`, `scale` or `auto`, as of
    the Gaussian kernel."""


@dataclass(frozen=True, kw_only=True)
class Nystroem(Checked):
    """The kernel's feature space, spanned by a sample of the rows (Williams and Seeger, 2001)."""

    name: Literal["nystroem"] = "nystroem"
    n_components: PositiveInt = 500
    """Rows drawn to span it; at most the number of training rows."""
    kernel: AnyKernel = MEDIAN_GAUSSIAN
    """Inner products in the space to span, or the name of a kernel, such as `rbf`."""


@dataclass(frozen=True, kw_only=True)
class Splines(Checked):
    """A smooth curve of each feature: quadratic B-splines between quantiles of the training rows.
    The model stays a sum over features, without their products."""

    name: Literal["splines"] = "splines"
    n_knots: Annotated[int, Ge(FEWEST), Le(100)] = 6
    """Quantiles, the smallest and the largest value among them. A feature with fewer than three
    different ones stays as it is; another one becomes at most `n_knots` + 1 features."""


AnyFeatures: TypeAlias = (
    Identity | Square | Polynomial | Interactions | Terms | Splines | RandomFourier | Nystroem
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
    features that each multiplies, and their powers (`Terms`). Splines: the knots of each feature
    (`svm.transforms.splines`)."""

    @property
    def n_outputs(self) -> int:
        """Number of output features."""
        if self.directions is not None:
            return len(self.directions)
        if isinstance(self.spec, Splines):
            assert self.weights is not None
            return int(widths_of(self.weights).sum())
        return n_outputs(self.spec, self.n_inputs)

    @property
    def n_weights(self) -> int:
        """Rows of `weights`, if there are any."""
        return self.n_inputs if isinstance(self.spec, Splines) else self.n_outputs

    @property
    def sources(self) -> Indices | None:
        """(n_outputs,) the input feature that each output depends on; None if it is not one."""
        match self.spec:
            case Identity() | Square():
                return np.arange(self.n_inputs)
            case Splines():
                assert self.weights is not None
                return np.repeat(np.arange(self.n_inputs), widths_of(self.weights))
        return None

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
            case Splines():
                assert self.weights is not None
                widths = zip(names, widths_of(self.weights).tolist(), strict=True)
                return [f"{n} curve {k}" if w > 1 else n for n, w in widths for k in range(w)]
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
            case Splines():
                assert self.weights is not None
                assert not is_sparse(X)
                return splines(X, self.weights)
            case RandomFourier() | Nystroem():
                return self._approximate(X)

    @property
    def prepared_bytes(self) -> int:
        """Memory of what the first rows left prepared."""
        made = self.__dict__.get("_directions"), self.__dict__.get("_roots")
        return sum(one.nbytes for one in made if one is not None)

    def _approximate(self, X: Matrix) -> Vector:
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
    if sparse and isinstance(spec, Polynomial | Interactions | Terms | Splines):
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
        case Splines():
            return FeatureMap(spec, d, None, _knots(X, spec.n_knots))
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
            landmarks = kernels.dense_rows(X, rows)
            norms = np.einsum("ij,ij->i", landmarks, landmarks)
            kernels.require_moderate_values(kernel, norms)
            kernels.require_spread_rows(landmarks)
            K = kernel.of_products(landmarks @ landmarks.T, norms, norms)
            values, vectors = np.linalg.eigh(K)
            # Directions without extent: their inverse root is noise.
            roots = np.where(values > 1e-10 * values[-1], np.abs(values), np.inf) ** -0.5
            fixed = Nystroem(n_components=spec.n_components, kernel=kernel)
            return FeatureMap(
                fixed, d, landmarks, np.ascontiguousarray((vectors * roots) @ vectors.T)
            )
    return FeatureMap(spec, d)


def _knots(X: Rows, count: int) -> Vector:
    """Of the rows, or of at most 10,000, evenly spread."""
    some = np.linspace(0, X.shape[0] - 1, min(X.shape[0], KNOT_ROWS)).astype(np.int64)
    return fit_knots(kernels.dense_rows(X, some), count)


def n_outputs(spec: AnyFeatures, d: int) -> int:
    """Number of output features for d input features."""
    match spec:
        case Polynomial(degree=degree):
            return math.comb(d + degree, degree) - 1
        case Interactions():
            return d + d * (d - 1) // 2
        case Terms(terms=terms):
            return len(terms)
        case Splines(n_knots=count):
            return d * (count + 1)
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


def factor_names(term: Mapping[str, int]) -> list[str]:
    """Each name as often as its power says, in the order of the term."""
    return [name for name, power in term.items() for _ in range(power)]


def check_terms(spec: Terms, columns: Columns) -> None:
    """Raises InvalidData (`features-unsupported`) for a name that is not that of a column of
    numbers."""
    kinds = {column.name: column.kind for column in columns}
    for name in dict.fromkeys(name for term in spec.terms for name in term):
        kind = kinds.get(name)
        if kind is None:
            shown = ", ".join(repr(column.name[:64]) for column in columns[:5])
            more = ", …" if len(columns) > 5 else ""
            raise InvalidData(
                "features-unsupported",
                f"terms: there is no column {name[:64]!r}; columns are {shown}{more}",
            )
        if kind not in ("number", "boolean"):
            raise InvalidData(
                "features-unsupported",
                f"terms: column {name[:64]!r} has the kind {kind}, and only columns of the kinds "
                "number and boolean have powers; leave it out, or upload the data with another "
                "kind in `schema`",
            )


def factors_of(spec: Terms, places: Mapping[str, int]) -> Vector:
    """(n_terms, most factors) the features that each term multiplies, by the place of their names;
    -1 where it has fewer."""
    rows = [[float(places[name]) for name in factor_names(term)] for term in spec.terms]
    out = np.full((len(rows), max(map(len, rows))), NO_FACTOR)
    for row, factors in zip(out, rows, strict=True):
        row[: len(factors)] = factors
    return out


def products(X: Floats, factors: Vector) -> Floats:
    """(n_samples, n_terms) the terms of every row, factor by factor, in the precision of X."""
    out = np.empty((X.shape[0], len(factors)), dtype=X.dtype)
    for k, row in enumerate(factors.astype(np.int64).tolist()):
        made = X[:, row[0]]
        for j in row[1:]:
            if j >= 0:
                made = made * X[:, j]
        out[:, k] = made
    return out


def term_names(factors: Vector, names: Sequence[str]) -> list[str]:
    """Such as `x*x` and `x*y`."""
    rows = factors.astype(np.int64).tolist()
    return ["*".join(names[j] for j in row if j >= 0) for row in rows]


def are_factors(factors: Vector | None, n_terms: int, n_inputs: int) -> bool:
    """Whether an array from elsewhere can be the result of `factors_of`."""
    if factors is None or factors.ndim != 2 or len(factors) != n_terms:
        return False
    whole = factors == np.floor(factors)
    inside = (factors >= NO_FACTOR) & (factors < n_inputs)
    return bool(whole.all() and inside.all() and (factors[:, :1] >= 0).all())
