"""What a worker process does beside its jobs."""

from __future__ import annotations

import os
import threading

from service.jobs.engine.worker_process import NICENESS, step_back


def test_threads_that_train_come_after_requests() -> None:
    """A thread steps back once; the others keep their place."""
    found = []

    def work() -> None:
        step_back()
        step_back()
        thread = threading.get_native_id()
        found.append(os.getpriority(os.PRIO_PROCESS, thread))

    before = os.getpriority(os.PRIO_PROCESS, 0)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [max(before, NICENESS)]
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
