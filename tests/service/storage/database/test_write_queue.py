"""Who writes next."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from service.errors import Unavailable
from service.storage.database.write_queue import BLOCKED_S, Turns


class Writers:
    """Threads that take a turn, and keep it until they are let go."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._pool = ThreadPoolExecutor(20)
        self.began: list[int] = []
        self.let_go = threading.Semaphore(0)

    def add(self, number: int) -> Future[None]:
        added = self._pool.submit(self._write, number)
        time.sleep(0.02)  # so that it stands behind the one before
        return added

    def close(self) -> None:
        self.let_go.release(100)
        self._pool.shutdown()

    def _write(self, number: int) -> None:
        with self._turns.turn():
            self.began.append(number)
            self.let_go.acquire()


@pytest.fixture
def writers(request: pytest.FixtureRequest) -> Callable[[Turns], Writers]:
    def make(turns: Turns) -> Writers:
        made = Writers(turns)
        request.addfinalizer(made.close)
        return made

    return make


def test_first_come_is_first_served(writers: Callable[[Turns], Writers]) -> None:
    """Any number waits while they go on."""
    some = writers(Turns(at_once=1, waiting=1, wait_s=30))
    added = [some.add(number) for number in range(8)]
    assert some.began == [0]
    some.let_go.release(8)
    for each in added:
        each.result(10)
    assert some.began == list(range(8))


def test_several_write_at_once(writers: Callable[[Turns], Writers]) -> None:
    """If the database lets them."""
    some = writers(Turns(at_once=2, waiting=1, wait_s=30))
    for number in range(3):
        some.add(number)
    assert set(some.began) == {0, 1}


def test_few_wait_while_nobody_goes_on(writers: Callable[[Turns], Writers]) -> None:
    """Those beyond leave after a second, and who comes then is refused at once."""
    some = writers(Turns(at_once=1, waiting=2, wait_s=30))
    added = [some.add(number) for number in range(5)]
    for refused in added[3:]:
        with pytest.raises(Unavailable):
            refused.result(BLOCKED_S + 5)
    begun = time.monotonic()
    with pytest.raises(Unavailable):
        some.add(5).result(10)
    assert time.monotonic() - begun < BLOCKED_S
    some.let_go.release(3)
    for each in added[:3]:
        each.result(10)
    some.add(6)
    assert some.began == [0, 1, 2, 6]


def test_turn_that_does_not_come_is_given_up(writers: Callable[[Turns], Writers]) -> None:
    """After as long as a writer waits for another one; the others keep their places."""
    some = writers(Turns(at_once=1, waiting=5, wait_s=0.3))
    first, second = some.add(0), some.add(1)
    with pytest.raises(Unavailable):
        second.result(10)
    third = some.add(2)
    some.let_go.release(2)
    first.result(10)
    third.result(10)
    assert some.began == [0, 2]
