"""What a search expects of a model on new rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def expected_beside(search: Any, measured: Mapping[str, Any]) -> float | None:
    """The score that a search expects on new rows, if these metrics are too good because all rows
    of their folds chose the setting; else None."""
    if not search or search["score"] is None or not measured.get("folds"):
        return None
    counts = map(sum, measured.get("confusion_matrix") or ())
    n = measured.get("n_samples") or sum(counts)
    score: float | None = search["score"] if search["n_samples"] >= n else None
    return score
