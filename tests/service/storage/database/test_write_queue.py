"""The queue of writing threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from service.errors import Unavailable
from service.storage.database.database import BLOCKED_S, WriteQueue


class Writers:
    """Threads that take a turn and keep it until they are released."""

    def __init__(self, queue: WriteQueue) -> None:
        self._queue = queue
        self._pool = ThreadPoolExecutor(20)
        self.began: list[int] = []
        self.released = threading.Semaphore(0)

    def add(self, number: int) -> Future[None]:
        """Returns when it has its turn, is queued, or is refused."""
        before = len(self._queue._queue)
        added = self._pool.submit(self._write, number)
        while not (number in self.began or added.done() or len(self._queue._queue) > before):
            time.sleep(0.001)
        return added

    def close(self) -> None:
        self.released.release(100)
        self._pool.shutdown()

    def _write(self, number: int) -> None:
        with self._queue.turn():
            self.began.append(number)
            self.released.acquire()


@pytest.fixture
def writers(request: pytest.FixtureRequest) -> Callable[[WriteQueue], Writers]:
    def make(queue: WriteQueue) -> Writers:
        made = Writers(queue)
        request.addfinalizer(made.close)
        return made

    return make


def test_first_come_is_first_served(writers: Callable[[WriteQueue], Writers]) -> None:
    """Any number can wait while writers make progress."""
    some = writers(WriteQueue(at_once=1, waiting=1, wait_s=30))
    added = [some.add(number) for number in range(8)]
    assert some.began == [0]
    some.released.release(8)
    for each in added:
        each.result(10)
    assert some.began == list(range(8))


def test_several_write_at_once(writers: Callable[[WriteQueue], Writers]) -> None:
    """If the database allows it."""
    some = writers(WriteQueue(at_once=2, waiting=1, wait_s=30))
    for number in range(3):
        some.add(number)
    assert set(some.began) == {0, 1}


def test_blocked_queue_is_bounded(
    writers: Callable[[WriteQueue], Writers],
) -> None:
    """Threads beyond the bound fail after a second, new ones at once."""
    some = writers(WriteQueue(at_once=1, waiting=2, wait_s=30))
    added = [some.add(number) for number in range(5)]
    for refused in added[3:]:
        with pytest.raises(Unavailable):
            refused.result(BLOCKED_S + 5)
    begun = time.monotonic()
    with pytest.raises(Unavailable):
        some.add(5).result(10)
    assert time.monotonic() - begun < BLOCKED_S
    some.released.release(3)
    for each in added[:3]:
        each.result(10)
    some.add(6)
    assert some.began == [0, 1, 2, 6]


def test_wait_times_out(writers: Callable[[WriteQueue], Writers]) -> None:
    """The others keep their positions."""
    some = writers(WriteQueue(at_once=1, waiting=5, wait_s=0.6))
    first, second = some.add(0), some.add(1)
    with pytest.raises(Unavailable):
        second.result(10)
    third = some.add(2)
    some.released.release(2)
    first.result(10)
    third.result(10)
    assert some.began == [0, 2]
