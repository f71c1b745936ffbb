"""Memory for the bodies of requests, over all connections of a process.

What a body holds in memory while it is coming, or while it is being answered, counts against one
budget; a request beyond it is refused. A small body that came whole with its head does not count:
no sender can hold it half-sent.
"""

from __future__ import annotations

import asyncio
import sys
from types import TracebackType
from typing import Self

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import Unavailable
from service.web.bodies.malloc import give_back_memory

STATE = "body_share"
"""Where the request's state holds its `Share`."""
RETRY_S = 1
DETAIL = "the memory for request bodies is full; retry shortly"
LARGE_USE_BYTES = 8 * 1024**2
"""After more than this in use at once, memory is given back to the system."""
QUIET_S = 1.0
"""How long less must be in use first: the next bodies would take the memory again."""


class BodyBudget:
    """Counts bytes. Belongs to one event loop."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._used = 0
        self._most = 0
        """In use at once since memory was given back."""
        self._timer: asyncio.TimerHandle | None = None

    def share(self) -> Share:
        """A share of one body, still empty."""
        return Share(self)

    def take(self, n_bytes: int) -> bool:
        """Whether there is room for so many bytes more; then they are in use."""
        if self._used + n_bytes > self._limit_bytes:
            return False
        self._used += n_bytes
        self._most = max(self._most, self._used)
        return True

    def give(self, n_bytes: int) -> None:
        """So many bytes are not in use any more."""
        self._used -= n_bytes
        if self._most > LARGE_USE_BYTES >= self._used and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(QUIET_S, self._give_back, loop)

    def _give_back(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._used <= LARGE_USE_BYTES:
            self._most = self._used
            loop.run_in_executor(None, give_back_memory)


class Share:
    """What one body takes of a budget."""

    __slots__ = ("_budget", "n_bytes")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self.n_bytes = 0
        """In bytes."""

    def reserve(self, n_bytes: int) -> bool:
        """Hold at least so many bytes; False, and nothing changes, if there is no room."""
        more = n_bytes - self.n_bytes
        if more > 0:
            if not self._budget.take(more):
                return False
            self.n_bytes = n_bytes
        return True

    def release(self) -> None:
        """Hold nothing."""
        if self.n_bytes:
            self._budget.give(self.n_bytes)
            self.n_bytes = 0

    def another(self) -> Share:
        """An empty share of the same budget."""
        return self._budget.share()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.release()


class BodyShares:
    """A middleware: each request has a share, until it is answered."""

    def __init__(self, app: ASGIApp, budget: BodyBudget) -> None:
        self._app = app
        self._budget = budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with self._budget.share() as share:
            scope["state"][STATE] = share
            await self._app(scope, receive, send)


def share_of(request: Request) -> Share:
    """The request's share; without `BodyShares` there is no limit."""
    share: Share | None = getattr(request.state, STATE, None)
    return BodyBudget(sys.maxsize).share() if share is None else share


def overloaded() -> Unavailable:
    """The error for a request whose body has no room."""
    return Unavailable("overloaded", DETAIL, retry_after_s=RETRY_S)
