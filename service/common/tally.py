"""Counts requests by their duration, and others by what is measured of them."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Sequence

from service.common.shared import Numbers

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)
"""Upper ends of the durations' buckets, in seconds."""
SUM = 13
"""The place of the sum, after those of at most 12 buckets and one for all that is more."""


class Tally:
    """Requests of one kind: their number by duration, and their total time.

    It has no lock: use it in the event loop only. The library's own counters have one each, and
    would take a tenth of the time of a small prediction.
    """

    __slots__ = ("_bounds", "numbers")

    def __init__(self, numbers: Numbers, bounds: Sequence[float] = BOUNDS) -> None:
        """`numbers` are those of `Shared`."""
        self.numbers = numbers
        self._bounds = bounds

    def count(self, measured: float) -> None:
        """Usually seconds."""
        self.numbers[SUM] += measured
        self.numbers[bisect_left(self._bounds, measured)] += 1


def histogram(
    numbers: Sequence[float], bounds: Sequence[float] = BOUNDS
) -> tuple[list[tuple[str, float]], float]:
    """The numbers of a tally, or a sum of them, as `HistogramMetricFamily` wants them."""
    names = [*map(str, bounds), "+Inf"]
    return list(zip(names, itertools.accumulate(numbers[: len(names)]), strict=True)), numbers[SUM]
