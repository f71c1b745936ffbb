"""Scores of the raw rows of a table by a linear model, which is prepared once."""

from __future__ import annotations

import numpy as np

from svm.data.matrices import Vector, read_only
from svm.encoding import Encoder
from svm.model.linear_scorer import LinearScorer, unscaled_scorer
from svm.transforms.scaling import Scaling


class TableScorer:
    """The scores of the numbers, then one weight for each category, added in column order.

    The bits of a row depend on that row alone. A cell without an output adds 0.
    """

    def __init__(self, encoder: Encoder, numbers: LinearScorer, coefficients: Vector) -> None:
        from svm.loops.table_scores import table_scores

        self._compiled = table_scores
        none = np.zeros((1, len(coefficients)))  # of the output that does not exist
        level_weights = np.concatenate([coefficients.T, none])[encoder.slots]
        self._arguments = (
            encoder.sources,
            encoder.parts,
            encoder.fills,
            numbers.offset,
            numbers.weights,
            encoder.indicated,
            numbers.intercepts,
            encoder.categories,
            encoder.starts,
            encoder.unknown,
            level_weights,
        )
        self._n_problems = len(numbers.intercepts)
        self.nbytes = sum(argument.nbytes for argument in self._arguments)
        """Memory of the prepared arrays."""

    def __call__(self, X: Vector) -> Vector:
        """X, raw values, float64 in C order."""
        scores = np.empty((len(X), self._n_problems))
        self._compiled(read_only(X), *self._arguments, scores)
        return scores


def table_scorer(
    encoder: Encoder, scaling: Scaling, coefficients: Vector, intercepts: Vector
) -> TableScorer | None:
    """A scorer of raw rows; None as `unscaled_scorer`."""
    m = encoder.n_numbers
    numbers = unscaled_scorer(scaling.first(m), coefficients[:, :m], intercepts)
    return None if numbers is None else TableScorer(encoder, numbers, coefficients)
