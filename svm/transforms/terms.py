"""Chosen products of powers of named features, such as x² and x·y."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Le

from svm.data.columns import Columns
from svm.data.matrices import Floats, Vector
from svm.errors import InvalidData, InvalidHyperparameter
from svm.hyperparameters import Checked

MOST_TERMS = 1000
MOST_FACTORS = 20
"""Of one term, each power counted."""
NO_FACTOR = -1.0

Power = Annotated[int, Ge(1), Le(10)]


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
