"""The queue of writing threads: first come, first served; bounded if the database is blocked."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from service.errors import Unavailable

BLOCKED_S = 1.0
"""If no transaction began or ended for this long while others waited, the database is blocked."""
RETRY_S = 2


class WriteQueue:
    """Orders the threads that write. A waiting thread cannot serve other requests, such as reads:
    so only some may wait for a blocked database."""

    def __init__(self, at_once: int, waiting: int, wait_s: float) -> None:
        self._free = at_once
        self._most = waiting
        self._wait_s = wait_s
        self._queue: deque[threading.Event] = deque()
        self._lock = threading.Lock()
        self._moved = time.monotonic()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for a turn and keep it for the block. Raises Unavailable after the timeout, and at
        once if too many threads wait for a blocked database."""
        ticket = threading.Event()
        with self._lock:
            if self._free > 0:
                self._free -= 1
                self._moved = time.monotonic()
                ticket.set()
            elif self._is_blocked() and len(self._queue) >= self._most:
                raise _blocked()
            else:
                self._queue.append(ticket)
        self._wait(ticket)
        try:
            yield
        finally:
            with self._lock:
                self._moved = time.monotonic()
                if self._queue:
                    self._queue.popleft().set()
                else:
                    self._free += 1

    def _wait(self, ticket: threading.Event) -> None:
        deadline = time.monotonic() + self._wait_s
        while not ticket.wait(min(BLOCKED_S, max(0.0, deadline - time.monotonic()))):
            with self._lock:
                if ticket.is_set():
                    return
                position = self._queue.index(ticket)
                too_many = position >= self._most and self._is_blocked()
                if too_many or time.monotonic() >= deadline:
                    del self._queue[position]
                    raise _blocked()

    def _is_blocked(self) -> bool:
        return time.monotonic() - self._moved > BLOCKED_S


def _blocked() -> Unavailable:
    detail = "the database is blocked, and too many requests wait for it"
    return Unavailable("storage-unavailable", detail, retry_after_s=RETRY_S)
