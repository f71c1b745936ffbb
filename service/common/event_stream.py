"""Server-sent events (WHATWG HTML, section 9.2): their format, and a limit of open streams."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from service.common.callers import is_still_known
from service.common.shared import Count
from service.errors import Unavailable

MEDIA_TYPE = "text/event-stream"
HEARTBEAT = b": still here\n\n"
"""A comment that shows proxies and clients that the connection works."""
RECONNECT = b"retry: 1000\n\n"
"""Clients reconnect a second after they lost the connection."""
RETRY_AFTER_S = 5
ENDING_S = 1
"""Until another process, or the next one, answers."""


def message(id: int, event: str, data: dict[str, Any]) -> bytes:
    """One event. `json.dumps` writes no line breaks, so `data` is one line."""
    return f"id: {id}\nevent: {event}\ndata: {json.dumps(data)}\n\n".encode()


class Health:
    """Whether this process is shutting down; long requests check it and end early."""

    draining = False

    def __init__(self) -> None:
        self.on_draining: Callable[[], None] = lambda: None

    def drain(self) -> None:
        """Begin to shut down."""
        self.draining = True
        self.on_draining()


def shutting_down(**extra: Any) -> Unavailable:
    """The error of a process that begins nothing more; `extra` are members of the problem."""
    return Unavailable(
        "shutting-down", "the service is shutting down", extra=extra, retry_after_s=ENDING_S
    )


class EventStreams:
    """The open streams of all processes, at most `limit`. Use it in one event loop only."""

    def __init__(self, limit: int, count: Count) -> None:
        self._limit = limit
        self._open = count

    def reply(self, request: Request, messages: AsyncGenerator[bytes]) -> Response:
        """A reply that ends with `messages`, or if the client disconnects or its key is revoked.

        Raises Unavailable `too-many-streams`.
        """
        if self._open.total >= self._limit:
            raise Unavailable(
                "too-many-streams",
                f"{self._limit} event streams are open; "
                "ask for pages of application/json, or poll the job with wait_s",
                retry_after_s=RETRY_AFTER_S,
            )
        self._open.own += 1
        return _EventStream(_while_key_is_valid(request, messages), self._closed)

    def _closed(self) -> None:
        self._open.own -= 1


async def _while_key_is_valid(
    request: Request, messages: AsyncGenerator[bytes]
) -> AsyncIterator[bytes]:
    async with aclosing(messages):
        async for content in messages:
            if not is_still_known(request):
                return
            yield content


class _EventStream(StreamingResponse):
    media_type = MEDIA_TYPE

    def __init__(self, messages: AsyncIterator[bytes], closed: Callable[[], None]) -> None:
        # X-Accel-Buffering: proxies must pass on each event at once.
        super().__init__(messages, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._closed = closed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._closed()
