"""Which pair is advanced next, if pairs are trained side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

GROWTH = 4.0
"""Total time of a pair after one of its runs, relative to the time before."""


class RoundRobin:
    """A queue of pairs. A pair runs for several slices, until its total time has grown by `GROWTH`.

    The first slice of a run is slow, because nothing of the pair is in the caches. So runs are few,
    but the pairs keep pace with each other within a factor of `GROWTH` (and a slice).
    """

    def __init__(self, pairs: Iterable[int]) -> None:
        self._waiting = deque(pairs)
        self._spent = dict.fromkeys(self._waiting, 0.0)
        self._ends = dict(self._spent)

    def __len__(self) -> int:
        return len(self._waiting)

    def next(self) -> int:
        """Remove and return the pair whose slice is next."""
        return self._waiting.popleft()

    def requeue(self, pair: int, seconds: float) -> None:
        """Put a pair back after a slice that took `seconds`."""
        self._spent[pair] += seconds
        if self._spent[pair] < self._ends[pair]:
            self._waiting.appendleft(pair)
        else:
            self._ends[pair] = GROWTH * self._spent[pair]
            self._waiting.append(pair)
