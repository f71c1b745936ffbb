"""Workers and jobs that are stopped in mid-training."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from starlette.testclient import TestClient

from service.jobs.engine.worker_process import Worker
from tests.service.jobs.data import read


class StopAfter(threading.Event):
    """A service that stops in mid-training: after the worker has checked this many times."""

    def __init__(self, looks: int = 300) -> None:
        super().__init__()
        self._looks, self.looked = looks, 0

    def is_set(self) -> bool:
        self.looked += 1
        return self.looked > self._looks


def some_epochs(progress: dict[str, Any]) -> bool:
    return bool(progress["epoch"] >= 20)


def carry_out_until(
    client: TestClient,
    worker: Worker,
    job_id: str,
    then: Callable[[], Any],
    reached: Callable[[dict[str, Any]], bool] = some_epochs,
) -> dict[str, Any]:
    """Run the job in another thread, call `then` once its progress has `reached` something;
    returns how it was left."""
    thread = threading.Thread(target=worker.take_next_job)
    thread.start()
    while not reached(read(client, job_id)["progress"]):
        assert thread.is_alive()
    then()
    thread.join(timeout=30)
    assert not thread.is_alive()
    return read(client, job_id)
