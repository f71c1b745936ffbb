"""Scores of the raw rows of a table; the order of operations depends on the row alone."""

from __future__ import annotations

import math

from svm.data.matrices import Indices, Vector
from svm.loops import compiled
from svm.loops.tables import part_of, slot_of


@compiled
def table_scores(
    X: Vector,
    sources: Indices,
    parts: Indices,
    fills: Vector,
    offset: Vector,
    weights: Vector,
    indicated: Indices,
    intercepts: Vector,
    categories: Indices,
    starts: Indices,
    unknown: Indices,
    level_weights: Vector,
    out: Vector,
) -> None:
    """out[i, k] = ⟨numbersᵢ - offset, weightsₖ⟩ + interceptsₖ, plus one weight for each category.

    The numbers are these parts of the columns `sources`, with `fills` for NaN, then 1 for NaN and
    0 otherwise in each of the columns `indicated`. Level c of category j is row `starts[j]` + c of
    `level_weights`, another level row `unknown[j]`, a missing cell the row after that.
    """
    for i in range(len(X)):
        x = X[i]
        for k in range(len(weights)):
            w = weights[k]
            total = 0.0
            for j in range(len(sources)):
                value = x[sources[j]]
                value = fills[j] if math.isnan(value) else part_of(value, parts[j])
                total += (value - offset[j]) * w[j]
            for j in range(len(indicated)):
                if math.isnan(x[indicated[j]]):
                    total += w[len(sources) + j]
            total += intercepts[k]
            for j in range(len(categories)):
                row = slot_of(x[categories[j]], starts[j], unknown[j])
                total += level_weights[row, k]
            out[i, k] = total
