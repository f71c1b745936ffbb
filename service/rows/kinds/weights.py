"""Weights of rows: numbers that training takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from service.rows.faults import Faults, refuse
from service.rows.table.arrays import write_array
from svm.data.matrices import LARGEST

HINT = f"a weight is 0, or a number between {1.0 / LARGEST:g} and {LARGEST:g}"


def write_weights(folder: Path, weights: npt.NDArray[np.float64], column: str | int) -> None:
    """Write the weights (n_samples,), NaN for a missing one. Raises InvalidContent with each that
    is missing or not a weight, or if no row counts."""
    faults = Faults()
    right = (weights == 0) | ((weights >= 1.0 / LARGEST) & (weights <= LARGEST))
    for i in np.flatnonzero(~right).tolist():
        if np.isnan(weights[i]):
            code, message, value = "missing-value", "the weight is missing", None
        else:
            code, message, value = "not-a-number", "is not a weight", f"{weights[i]:g}"
        faults.add(code, message, value, HINT, row=i + 1, column=column)
    faults.check()
    if not weights.any():
        message = f"column {column!r}: every weight is 0, so that no row counts"
        raise refuse("empty-data", message, column=column, hint=HINT)
    write_array(folder / "weights.npy", weights + 0.0)  # -0.0 becomes 0.0
