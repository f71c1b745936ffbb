"""Scores of the raw rows of a table by a linear model, which is prepared once."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from svm.data.columns import UNKNOWN
from svm.data.matrices import Vector
from svm.encoding import Encoder
from svm.model.linear_scorer import LinearScorer, unscaled_weights
from svm.transforms.scaling import Scaling

MISSING = UNKNOWN - 1.0


class TableScorer:
    """The scores of the numbers, and one weight for each category.

    The bits of a row depend on that row alone. A cell without an output adds 0.
    """

    def __init__(self, encoder: Encoder, numbers: LinearScorer, coefficients: Vector) -> None:
        self._encoder = encoder
        self._numbers = numbers
        none = np.zeros((1, len(coefficients)))  # of the output that does not exist
        weights: Vector = np.concatenate([coefficients.T, none])
        # For each category that of a missing cell, of an unknown level, then of its levels: the
        # code of a cell is its place, from `_firsts` on.
        places = [np.arange(*ends) for ends in pairwise([*encoder.starts, len(encoder.slots)])]
        order = [np.concatenate([each[:-3:-1], each[:-2]]) for each in places]
        slots = encoder.slots[np.concatenate([*order, np.empty(0, dtype=np.int64)])]
        self._level_weights: Vector = weights[slots]
        self._firsts = encoder.starts + 2.0
        self._ones = np.ones(len(encoder.categories))

    @property
    def nbytes(self) -> int:
        """Memory of the prepared arrays."""
        return self._numbers.nbytes + self._level_weights.nbytes

    @property
    def values_per_row(self) -> int:
        """Values in memory for each row that is scored."""
        n_categories, n_problems = len(self._ones), self._numbers.intercepts.size
        return self._encoder.n_numbers + n_categories * n_problems

    def __call__(self, X: Vector) -> Vector:
        """X, raw values, float64 in C order."""
        scores = self._numbers(self._encoder.numbers(X))
        if len(self._ones):
            codes = X.take(self._encoder.categories, axis=1)
            np.fmax(codes, MISSING, out=codes)
            codes += self._firsts
            weights = self._level_weights.take(codes.astype(np.int64), axis=0)
            scores += np.vecmat(self._ones, weights)
        return scores


def table_scorer(
    encoder: Encoder, scaling: Scaling, coefficients: Vector, intercepts: Vector
) -> TableScorer | None:
    """A scorer of raw rows; None as `unscaled_scorer`.

    Offsets are subtracted, so that a missing cell that is filled with the offset adds exactly 0.
    """
    m = encoder.n_numbers
    scaling = scaling.first(m)
    weights = unscaled_weights(scaling, coefficients[:, :m])
    if weights is None:
        return None
    return TableScorer(encoder, LinearScorer(scaling.offset, weights, intercepts), coefficients)
