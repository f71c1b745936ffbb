"""Scaling of features: x ↦ (x - offset) / scale, column by column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from svm.errors import InvalidData
from svm.matrices import Floats, Matrix, Vector, is_sparse

ScalingName = Literal["none", "standardize", "min-max", "max-abs"]

BLOCK_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Scaling:
    """A fitted scaling; `None` stands for offset 0 and scale 1."""

    name: ScalingName = "none"
    offset: Vector | None = None
    """(n_features,)"""
    scale: Vector | None = None
    """(n_features,) positive; 1 for a constant column."""

    def transform(self, X: Matrix) -> Matrix:
        """The scaled X in its own precision: a new matrix, or X itself where nothing changes.

        Entry by entry, so a row's result does not depend on the other rows. Raises InvalidData
        (`scaling-unsupported`) for a sparse X where the scaling has an offset.
        """
        if self.scale is None:
            return X
        if is_sparse(X):
            if self.offset is not None:
                raise InvalidData(
                    "scaling-unsupported",
                    f"a model with {self.name} scaling needs dense rows: zeros do not stay zeros",
                )
            scaled = X.copy()
            scaled.data = scaled.data / self.scale.astype(X.dtype)[scaled.indices]
            return scaled
        result: Floats = X - self.offset.astype(X.dtype) if self.offset is not None else X.copy()
        result /= self.scale.astype(X.dtype)
        return result


def fit_scaling(name: ScalingName, X: Matrix) -> Scaling:
    """Learn offset and scale from the rows of X.

    `standardize`: mean 0, standard deviation 1 (divisor n). `min-max`: to 0 … 1. `max-abs`: to
    -1 … 1 without an offset, the one that keeps a sparse matrix sparse.
    Raises InvalidData (`scaling-unsupported`) for the other two on sparse data, and where the
    squares or differences of a column's values overflow.
    """
    if name == "none":
        return Scaling()
    if is_sparse(X):
        if name != "max-abs":
            raise InvalidData(
                "scaling-unsupported",
                f"{name} would turn sparse data into dense data; use max-abs",
            )
        largest = np.zeros(X.shape[1])
        np.maximum.at(largest, X.indices, np.abs(X.data))
        return Scaling(name, None, _nonzero(largest))
    with np.errstate(over="ignore", invalid="ignore"):  # found below
        scaling = _fit_dense(name, X)
    learnt = [v for v in (scaling.offset, scaling.scale) if v is not None]
    if not all(np.isfinite(v).all() for v in learnt):
        raise InvalidData(
            "scaling-unsupported", f"{name}: the values of a column are too large to be scaled"
        )
    return scaling


def _fit_dense(name: ScalingName, X: Floats) -> Scaling:
    if name == "standardize":
        mean = X.mean(axis=0, dtype=np.float64)
        squares = np.zeros(X.shape[1])
        for start in range(0, len(X), BLOCK_ROWS):
            centered = X[start : start + BLOCK_ROWS] - mean
            squares += np.einsum("ij,ij->j", centered, centered)
        deviation = np.sqrt(squares / len(X))
        # Rounding leaves a constant column a tiny deviation; dividing by it would blow up noise.
        deviation[deviation <= 1e-12 * np.abs(mean)] = 0.0
        return Scaling(name, mean, _nonzero(deviation))
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    if name == "min-max":
        return Scaling(name, low, _nonzero(high - low))
    return Scaling(name, None, _nonzero(np.maximum(np.abs(low), np.abs(high))))


def _nonzero(scale: Vector) -> Vector:
    """1 instead of 0: a constant column stays what it is."""
    return np.where(scale == 0.0, 1.0, scale)
