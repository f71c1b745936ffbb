"""The processors of one machine, shared by those of its workers that have a job."""

from __future__ import annotations

import mmap
import os

from svm.training.memory import THREADS


class Processors:
    """Memory that forked workers share: a byte for each, 1 while it has a job.

    The only worker with a job may use all processors; it gives them back when another one takes a
    job.
    """

    def __init__(self, workers: int) -> None:
        self._busy = mmap.mmap(-1, max(1, workers))
        self._count = len(os.sched_getaffinity(0))

    def note(self, worker: int, *, busy: bool) -> None:
        """Say whether worker 0, 1, … has a job."""
        self._busy[worker] = int(busy)

    def threads(self) -> int:
        """That each worker with a job may use now; memory is planned for this many at most."""
        return max(1, min(THREADS, self._count // max(1, sum(self._busy[:]))))
