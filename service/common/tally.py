"""Counts requests by their duration."""

from __future__ import annotations

import itertools
from bisect import bisect_left

BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10.0, 60.0)
"""Upper ends of the durations' buckets, in seconds."""
_NAMES = [*map(str, BOUNDS), "+Inf"]


class Tally:
    """Requests of one kind: their number by duration, and their total time.

    It has no lock: use it in the event loop only. The library's own counters have one each, and
    would take a tenth of the time of a small prediction.
    """

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.seconds = 0.0
        self.buckets = [0] * (len(BOUNDS) + 1)

    def count(self, seconds: float) -> None:
        self.seconds += seconds
        self.buckets[bisect_left(BOUNDS, seconds)] += 1

    def cumulative(self) -> list[tuple[str, float]]:
        """The buckets as a histogram has them."""
        return list(zip(_NAMES, itertools.accumulate(self.buckets), strict=True))
