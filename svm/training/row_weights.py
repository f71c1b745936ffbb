"""Weights of the training rows; rows of weight 0 are left out."""

from __future__ import annotations

from typing import Any

import numpy as np

from svm.data.matrices import LARGEST, Indices, Vector
from svm.errors import InvalidData
from svm.training.warm_start import WarmStart


def row_weights(weights: Any, n_samples: int) -> Vector:
    """(n_samples,) float64. Raises InvalidData (`bad-shape`, `bad-weights`)."""
    try:
        given = np.ascontiguousarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidData("bad-weights", "the weights of rows must be numbers") from error
    if given.shape != (n_samples,):
        raise InvalidData("bad-shape", f"expected {n_samples} weights of rows, got {given.shape}")
    bad = ~((given == 0.0) | ((given >= 1.0 / LARGEST) & (given <= LARGEST)))
    if bad.any():
        i = int(np.argmax(bad))
        raise InvalidData(
            "bad-weights",
            f"row {i} (counted from 0) has the weight {given[i]:g}; weights are 0, or between "
            f"{1.0 / LARGEST:g} and {LARGEST:g}",
        )
    if not given.any():
        raise InvalidData("empty-data", "all rows have weight 0: there are none to train on")
    return given


def renumbered(warm_start: WarmStart, kept: Indices) -> WarmStart:
    """The warm start with the numbers of rows among the rows `kept`; others are left out."""
    numbers = np.full(max(kept.max(), warm_start.rows.max(initial=-1)) + 1, -1)
    numbers[kept] = np.arange(len(kept))
    return warm_start.with_rows(numbers)
