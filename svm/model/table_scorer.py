"""Scores of the raw rows of a table by a linear model, which is prepared once."""

from __future__ import annotations

import numpy as np

from svm.data.matrices import Vector
from svm.encoding import Encoder
from svm.model.linear_scorer import LinearScorer, unscaled_scorer
from svm.transforms.scaling import Scaling


class TableScorer:
    """The scores of the numbers, then one weight for each category, added in column order.

    The bits of a row depend on that row alone. A cell without an output adds 0.
    """

    def __init__(self, encoder: Encoder, numbers: LinearScorer, coefficients: Vector) -> None:
        self._encoder, self._numbers = encoder, numbers
        none = np.zeros((1, len(coefficients)))  # of the output that does not exist
        self._weights = np.concatenate([coefficients.T, none])[encoder.slots]
        self.nbytes = numbers.nbytes + self._weights.nbytes
        """Memory of the prepared arrays."""

    def __call__(self, X: Vector) -> Vector:
        """X, raw values in float64."""
        scores = self._numbers(self._encoder.numbers(X))
        with np.errstate(over="ignore", invalid="ignore"):
            for slots in self._encoder.level_slots(X).T:
                scores += self._weights[slots]
        return scores


def table_scorer(
    encoder: Encoder, scaling: Scaling, coefficients: Vector, intercepts: Vector
) -> TableScorer | None:
    """A scorer of raw rows; None as `unscaled_scorer`."""
    m = encoder.n_numbers
    numbers = unscaled_scorer(scaling.first(m), coefficients[:, :m], intercepts)
    return None if numbers is None else TableScorer(encoder, numbers, coefficients)
