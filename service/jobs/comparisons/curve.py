"""Cost against time, in a number of points that grows with the logarithm of the time."""

from __future__ import annotations

from typing import Any

COLUMNS = ("elapsed_s", "primal", "dual", "gap")
GROWTH = 1.1
"""Of the time between two points: a curve from a millisecond to an hour has 160 of them."""


def add_point(curve: list[list[float]], elapsed_s: float, primal: float, dual: float) -> None:
    """Add a point; the latest one is always the last, and stays if it is far from those before."""
    point = [elapsed_s, primal, dual, primal - dual]
    if len(curve) > 1 and curve[-1][0] < GROWTH * curve[-2][0]:
        curve[-1] = point
    else:
        curve.append(point)


def as_table(curve: list[list[float]]) -> dict[str, Any]:
    return {"columns": list(COLUMNS), "rows": curve}
