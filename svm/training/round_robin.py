"""Which pair is advanced next, if pairs are trained side by side; many small ones at once."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace

import numpy as np

from svm.solvers.protocol import SolvedPair, SolvesTogether
from svm.solvers.working_sets import LONG
from svm.stopping import StopReason
from svm.training.binary_training import BinaryTraining, PairProgress

GROWTH = 4.0
"""Total time of a pair after one of its runs, relative to the time before."""


def train_together(
    pairs: Sequence[BinaryTraining], own: Collection[int]
) -> Iterator[dict[int, BinaryTraining]]:
    """Those of the `own` pairs that have not begun and that the solver can solve many at once, some
    at a time: each as it would be at the end of its own training."""
    new = [k for k in own if pairs[k].progress == PairProgress()]
    first = pairs[new[0] if new else 0]  # in others another solver may have taken over
    solver, stopping = first.solver, first.stopping
    gap, other_rules = stopping.duality_gap, (stopping.cost_change, stopping.max_updates)
    if not isinstance(solver, SolvesTogether) or gap is None or other_rules != (None, None):
        return
    if stopping.patience is not None:
        return
    most = stopping.max_epochs or sys.maxsize, sys.maxsize if first.successor is None else LONG
    with np.errstate(over="ignore", invalid="ignore"):
        starts = [pairs[k].problem for k in new], [pairs[k].state for k in new]
        for part in solver.solve_together(*starts, gap, *most):
            yield {new[i]: _end(pairs[new[i]], solved) for i, solved in part.items()}


def _end(pair: BinaryTraining, solved: SolvedPair) -> BinaryTraining:
    progress = PairProgress(
        advances=solved.state.epoch,
        next_evaluation=solved.state.updates + 1,
        evaluated_at=solved.state.epoch,
        evaluated_updates=solved.state.updates,
        primal=solved.primal,
        best_primal=solved.best_primal,
        train_error=solved.train_error,
        dual=solved.dual,
        stop_reason=StopReason.GAP_REACHED,
        finished=True,
    )
    return replace(pair, state=solved.state, progress=progress, inside=solved.inside)


class RoundRobin:
    """A queue of pairs. A pair runs for several slices, until its total time has grown by `GROWTH`.

    The first slice of a run is slow, because nothing of the pair is in the caches. So runs are few,
    but the pairs keep pace with each other within a factor of `GROWTH` (and a slice).
    """

    def __init__(self, pairs: Iterable[int]) -> None:
        self._waiting = deque(pairs)
        self._spent = dict.fromkeys(self._waiting, 0.0)
        self._ends = dict(self._spent)
        self.running: set[int] = set()
        """Those that threads train now."""

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

    def run(
        self,
        slice_: Callable[[int], float],
        is_over: Callable[[int], bool],
        threads: Callable[[], int],
    ) -> Iterator[int]:
        """The pairs after each of their slices, of which as many run at once as `threads` says when
        one begins: a single one in this thread.

        `slice_` gives the seconds that it took; pairs that are over leave the queue.
        """
        with ThreadPoolExecutor(len(self) or 1, thread_name_prefix="svm-pair") as pool:
            running: dict[Future[float], int] = {}
            done: list[Future[float]] = []
            try:
                while self or running:
                    while self and len(running) < (most := threads()):
                        k = self.next()
                        if is_over(k):
                            continue
                        if most == 1:
                            yield self._after(k, slice_(k), is_over)
                        else:
                            self.running.add(k)
                            running[pool.submit(slice_, k)] = k
                    done = list(wait(running, return_when=FIRST_COMPLETED).done) if running else []
                    while done:
                        k, seconds = running.pop(done[-1]), done.pop().result()
                        self.running.remove(k)
                        yield self._after(k, seconds, is_over)
            finally:
                # An exception refers to this frame; a future in the frame would make a cycle.
                running.clear()
                done.clear()
                self.running.clear()

    def _after(self, pair: int, seconds: float, is_over: Callable[[int], bool]) -> int:
        if not is_over(pair):
            self.requeue(pair, seconds)
        return pair
