"""The processors of a machine, shared by its workers with jobs."""

from __future__ import annotations

import os

import pytest

from service.jobs.engine.processors import Processors
from svm.training.memory import THREADS

COUNT = len(os.sched_getaffinity(0))


def test_a_job_alone_has_all_processors_and_gives_them_back() -> None:
    """Seen by another process, too; the supervisor frees those of a dead worker."""
    processors = Processors(COUNT)
    assert processors.threads() == min(THREADS, COUNT)
    for number in range(COUNT):
        pid = os.fork()
        if pid == 0:  # and dies without a word
            processors.note(number, busy=True)
            os._exit(0)
        os.waitpid(pid, 0)
        assert processors.threads() == max(1, min(THREADS, COUNT // (number + 1)))
    processors.note(0, busy=False)
    assert processors.threads() == max(1, min(THREADS, COUNT // max(1, COUNT - 1)))


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_there_is_always_a_thread(workers: int) -> None:
    processors = Processors(workers)
    for number in range(max(1, workers)):
        processors.note(number, busy=True)
    assert processors.threads() >= 1
