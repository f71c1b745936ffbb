"""Which pair is advanced next, if pairs are trained side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

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

    def in_parallel(
        self, slice_: Callable[[int], float], is_finished: Callable[[int], bool], threads: int
    ) -> Iterator[int]:
        """The pairs after each of their slices, of which as many run at once as there are threads.

        `slice_` gives the seconds that it took; finished pairs leave the queue.
        """
        with ThreadPoolExecutor(threads, thread_name_prefix="svm-pair") as pool:
            running: dict[Future[float], int] = {}
            done: list[Future[float]] = []
            try:
                while self or running:
                    while self and len(running) < threads:
                        k = self.next()
                        running[pool.submit(slice_, k)] = k
                    done = list(wait(running, return_when=FIRST_COMPLETED).done)
                    while done:
                        k, seconds = running.pop(done[-1]), done.pop().result()
                        if not is_finished(k):
                            self.requeue(k, seconds)
                        yield k
            finally:
                # An exception refers to this frame; a future in the frame would make a cycle.
                running.clear()
                done.clear()
