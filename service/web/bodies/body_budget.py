"""Limits the memory for request bodies of all connections of a process.

A body counts against one budget while it is received and answered; a request beyond the budget is
refused. A small body that arrives complete with its header does not count, because a slow sender
cannot keep it in memory.
"""

from __future__ import annotations

import asyncio
import sys
from types import TracebackType
from typing import Self

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from service.common.malloc import return_free_memory
from service.errors import Unavailable

STATE = "body_share"
"""Attribute of the request's state: its `Share`."""
RETRY_S = 1
DETAIL = "the memory for request bodies is full; retry shortly"
LARGE_USE_BYTES = 8 * 1024**2
"""After more than this was in use at once, free memory is returned to the system."""
QUIET_S = 1.0
"""Delay before that, because the next bodies may need the memory again."""


class BodyBudget:
    """Counts bytes. Use it in one event loop only."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._used = 0
        self._peak = 0
        """Largest number in use since memory was last returned."""
        self._timer: asyncio.TimerHandle | None = None

    def share(self) -> Share:
        """An empty share, for one body."""
        return Share(self)

    def use(self, n_bytes: int) -> bool:
        """Use `n_bytes` more; False, and nothing changes, if that exceeds the limit."""
        if self._used + n_bytes > self._limit_bytes:
            return False
        self._used += n_bytes
        self._peak = max(self._peak, self._used)
        return True

    def free(self, n_bytes: int) -> None:
        """Free `n_bytes`."""
        self._used -= n_bytes
        if self._peak > LARGE_USE_BYTES >= self._used and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(QUIET_S, self._return_memory, loop)

    def _return_memory(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._used <= LARGE_USE_BYTES:
            self._peak = self._used
            loop.run_in_executor(None, return_free_memory)


class Share:
    """The part of a budget that one body uses."""

    __slots__ = ("_budget", "n_bytes")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self.n_bytes = 0

    def reserve(self, n_bytes: int) -> bool:
        """Use at least `n_bytes`; False, and nothing changes, if there is no room."""
        more = n_bytes - self.n_bytes
        if more > 0:
            if not self._budget.use(more):
                return False
            self.n_bytes = n_bytes
        return True

    def release(self) -> None:
        """Free all bytes."""
        if self.n_bytes:
            self._budget.free(self.n_bytes)
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
    """A middleware that gives each request a share until it is answered."""

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
    """The request's share, without a limit if the middleware is not installed."""
    share: Share | None = getattr(request.state, STATE, None)
    return BodyBudget(sys.maxsize).share() if share is None else share


def overloaded() -> Unavailable:
    """The error for a request whose body exceeds the budget."""
    return Unavailable("overloaded", DETAIL, retry_after_s=RETRY_S)
