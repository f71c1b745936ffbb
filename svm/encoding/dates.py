"""The parts of a date: year, month, weekday, days since 1970-01-01."""

from __future__ import annotations

import numpy as np

from svm.data.matrices import Vector

PARTS = ("year", "month", "weekday", "days")
"""Months are 1 … 12, weekdays 1 (Monday) … 7."""
PART_NUMBERS = (1, 2, 3, 0)
"""What `svm.loops.tables` calls them."""


def date_parts(days: Vector) -> Vector:
    """(n, 4) of n dates in days since 1970-01-01; the parts of NaN are NaN."""
    missing = np.isnan(days)
    whole = np.floor(np.where(missing, 0.0, days)).astype(np.int64)
    dates = whole.astype("datetime64[D]")
    months = dates.astype("datetime64[M]").astype(np.int64)
    years = dates.astype("datetime64[Y]").astype(np.int64) + 1970
    parts = np.stack([years, months % 12 + 1, (whole + 3) % 7 + 1, days], axis=-1)
    parts[missing] = np.nan
    return parts
