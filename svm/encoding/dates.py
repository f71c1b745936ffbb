"""The parts of a date: year, month, weekday, days since 1970-01-01."""

from __future__ import annotations

import numpy as np

from svm.data.matrices import Vector

PARTS = ("year", "month", "weekday", "days")
"""Months are 1 … 12, weekdays 1 (Monday) … 7."""


def date_parts(days: Vector) -> Vector:
    """(n, 4) of n dates in days since 1970-01-01; the parts of NaN are NaN."""
    missing = np.isnan(days)
    whole = np.floor(np.where(missing, 0.0, days)).astype(np.int64)
    months = whole.view("datetime64[D]").astype("datetime64[M]").view(np.int64)
    parts = np.empty((len(days), len(PARTS)))
    for part, values in enumerate(
        (months // 12 + 1970, months % 12 + 1, (whole + 3) % 7 + 1, days)
    ):
        parts[:, part] = values
    parts[missing] = np.nan
    return parts
