"""Who writes next: first come, first served; and few wait while the database does not move."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from service.errors import Unavailable

BLOCKED_S = 1.0
"""So long no transaction began or ended while others waited: the database is blocked."""
RETRY_S = 2


class Turns:
    """Turns of threads that write. Every thread that waits for one answers no other request, reads
    among them: so only some may wait for a database that is blocked."""

    def __init__(self, at_once: int, waiting: int, wait_s: float) -> None:
        self._free = at_once
        self._most = waiting
        self._wait_s = wait_s
        self._queue: deque[threading.Event] = deque()
        self._lock = threading.Lock()
        self._moved = time.monotonic()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """A turn for the length of the block. Raises Unavailable if it does not come, and at once
        if too many wait for a database that is blocked."""
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
                place = self._queue.index(ticket)
                too_many = place >= self._most and self._is_blocked()
                if too_many or time.monotonic() >= deadline:
                    del self._queue[place]
                    raise _blocked()

    def _is_blocked(self) -> bool:
        return time.monotonic() - self._moved > BLOCKED_S


def _blocked() -> Unavailable:
    detail = "the database is blocked, and other requests wait for it already"
    return Unavailable("storage-unavailable", detail, retry_after_s=RETRY_S)
