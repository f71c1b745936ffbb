"""Whose slice of work is next, among pairs that are trained side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

GROWTH = 4.0
"""All the work of a pair after a turn, relative to what it was before."""


class Turns:
    """Pairs that wait. A turn is as many slices as make a few times the work of all turns before.

    In its first slice a pair finds nothing of its own in the caches; so it has few turns, and yet
    the pairs keep pace with each other, within a factor of `GROWTH` (and a slice).
    """

    def __init__(self, pairs: Iterable[int]) -> None:
        self._waiting = deque(pairs)
        self._spent = dict.fromkeys(self._waiting, 0.0)
        self._ends = dict(self._spent)

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting)

    def next(self) -> int:
        """The pair whose slice is next; it waits no longer."""
        return self._waiting.popleft()

    def go_on(self, pair: int, seconds: float) -> None:
        """After a slice of so many seconds the pair waits for its next one."""
        self._spent[pair] += seconds
        if self._spent[pair] < self._ends[pair]:
            self._waiting.appendleft(pair)
        else:
            self._ends[pair] = GROWTH * self._spent[pair]
            self._waiting.append(pair)
