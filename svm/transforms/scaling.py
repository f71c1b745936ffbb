"""Scaling of features: x ↦ (x - offset) / scale, column by column."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from svm.data.matrices import Floats, Matrix, Vector, is_sparse
from svm.data.stored_rows import Rows, is_csr, pieces
from svm.errors import InvalidData

ScalingName = Literal["none", "standardize", "min-max", "max-abs"]


@dataclass(frozen=True, slots=True)
class Scaling:
    """A fitted scaling; `None` means offset 0 or scale 1."""

    name: ScalingName = "none"
    offset: Vector | None = None
    """(n_features,)"""
    scale: Vector | None = None
    """(n_features,) positive; 1 for a constant column."""

    def transform(self, X: Matrix, *, in_place: bool = False) -> Matrix:
        """The scaled X in its own precision: a new matrix, or X itself if nothing changes, or if a
        dense X is overwritten `in_place`.

        Entry by entry, so a row's result does not depend on the other rows. Raises InvalidData
        (`scaling-unsupported`) for a sparse X if the scaling has an offset.
        """
        if self.scale is None:
            return X
        if is_sparse(X):
            if self.offset is not None:
                raise InvalidData(
                    "scaling-unsupported",
                    f"a model with {self.name} scaling needs dense rows: zeros do not stay zeros",
                )
            from scipy.sparse import csr_array

            values = self.scale.astype(X.dtype)[X.indices]
            np.divide(X.data, values, out=values)
            return csr_array((values, X.indices, X.indptr), shape=X.shape)
        result: Floats = X if in_place else X.copy() if self.offset is None else np.empty_like(X)
        if self.offset is not None:
            np.subtract(X, self.offset.astype(X.dtype), out=result)
        result /= self.scale.astype(X.dtype)
        return result

    def first(self, n: int) -> Scaling:
        """The scaling of the first n columns."""
        offset = None if self.offset is None else self.offset[:n]
        return Scaling(self.name, offset, None if self.scale is None else self.scale[:n])


NO_SCALING = Scaling()


def fit_scaling(
    name: ScalingName, X: Rows, interrupted: Callable[[], None] = lambda: None
) -> Scaling:
    """Learn offset and scale from the rows of X.

    `standardize`: mean 0, standard deviation 1 (divisor n). `min-max`: to 0 … 1. `max-abs`: to
    -1 … 1 without an offset; only this keeps a sparse matrix sparse.
    Raises InvalidData (`scaling-unsupported`) for the other two on sparse data, and if the
    squares or differences of a column's values overflow.
    """
    if name == "none":
        return Scaling()
    if is_csr(X) and name != "max-abs":
        raise InvalidData(
            "scaling-unsupported", f"{name} would turn sparse data into dense data; use max-abs"
        )

    def watched() -> Iterator[Any]:
        for piece in pieces(X):
            interrupted()
            yield piece

    with np.errstate(over="ignore", invalid="ignore"):  # reported below
        scaling = _LEARN[name](X.shape, watched)
    learned = [v for v in (scaling.offset, scaling.scale) if v is not None]
    if not all(np.isfinite(v).all() for v in learned):
        raise InvalidData(
            "scaling-unsupported", f"{name}: the values of a column are too large to be scaled"
        )
    return scaling


Pieces: TypeAlias = Callable[[], Iterator[Any]]


def _standardize(shape: tuple[int, int], pieces: Pieces) -> Scaling:
    n, d = shape
    mean, squares = np.zeros(d), np.zeros(d)
    for X in pieces():
        mean += X.sum(axis=0, dtype=np.float64)
    mean /= n
    for X in pieces():
        centered = X - mean
        squares += np.einsum("ij,ij->j", centered, centered)
    deviation = np.sqrt(squares / n)
    # Rounding leaves a constant column a tiny deviation; dividing by it would amplify noise.
    deviation[deviation <= 1e-12 * np.abs(mean)] = 0.0
    return Scaling("standardize", mean, _nonzero(deviation))


def _min_max(shape: tuple[int, int], pieces: Pieces) -> Scaling:
    low, high = np.full(shape[1], np.inf), np.full(shape[1], -np.inf)
    for X in pieces():
        np.minimum(low, X.min(axis=0), out=low)
        np.maximum(high, X.max(axis=0), out=high)
    return Scaling("min-max", low, _nonzero(high - low))


def _max_abs(shape: tuple[int, int], pieces: Pieces) -> Scaling:
    largest = np.zeros(shape[1])
    for X in pieces():
        if is_sparse(X):
            np.maximum.at(largest, X.indices, np.abs(X.data))
        else:
            np.maximum(largest, np.abs(X).max(axis=0), out=largest)
    return Scaling("max-abs", None, _nonzero(largest))


_LEARN = {"standardize": _standardize, "min-max": _min_max, "max-abs": _max_abs}


def _nonzero(scale: Vector) -> Vector:
    """1 instead of 0: a constant column is not divided."""
    return np.where(scale == 0.0, 1.0, scale)
