"""Compares the predictions of an exported file with the service's, on the training rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from service.models.sources import Sources
from svm.data.matrices import Vector, is_sparse

MOST_ROWS = 100_000
BLOCK_VALUES = 4_000_000
"""Values of the dense rows that are compared at once."""

Predict: TypeAlias = Callable[[Vector], tuple[Any, Vector]]
"""Labels (n,) and decision values of dense rows (n, n_features)."""


def parity_of(sources: Sources, predict: Predict, measured_with: str) -> dict[str, Any] | None:
    """None without data.

    `labels_equal`: the share of rows with the same label. `max_score_difference`: the largest
    |a - b| / max(1, |b|) of decision values; 1 is the margin.
    """
    fitted = sources.fitted
    equal, largest, count = 0, 0.0, 0
    step = max(1, BLOCK_VALUES // max(fitted.n_features, fitted.features.n_inputs))
    for X in sources.blocks(MOST_ROWS, step):
        rows = X.toarray() if is_sparse(X) else X
        labels, decision = predict(rows)
        expected = fitted.decision_function(X)
        equal += int((np.asarray(labels) == fitted.labels_from_decision(expected)).sum())
        differences = np.abs(decision - expected) / np.maximum(1.0, np.abs(expected))
        largest = max(largest, float(differences.max()))
        count += len(rows)
    if count == 0:
        return None
    return {
        "rows": count,
        "labels_equal": equal / count,
        "max_score_difference": largest,
        "measured_with": measured_with,
    }
