"""Limits of connections: uvicorn has no timeout for receiving a header or a body.

A header that is not complete after `header_s`, and a body with too little progress in
`body_idle_s`, end with 408. Connections beyond `most` receive 503. If a client does not read a
reply, its connection is aborted.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from starlette.datastructures import MutableHeaders
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from service.common.malloc import return_free_memory
from service.web.bodies.body_budget import BodyBudget
from service.web.http.headers import add_headers
from service.web.problems import problem_bytes
from service.web.server.observability import Metrics, request_id_of

PROGRESS_BYTES = 4096
"""A body must progress by this much within the timeout. Otherwise a client that sends a byte now
and then could keep its connection open forever."""
UNREAD_S = 60.0
"""Timeout for a client that does not read; some 50 kB of the reply are in memory."""
RETRY_S = 5
MANY = 1000
"""When half of more connections than this are gone, free memory is returned to the system."""
HEADERS_BYTES = 16 * 1024**2
"""Memory for requests besides their bodies."""
LAST_REQUEST_S = 1.0
"""Time for a request that the client sent before it noticed the shutdown."""


@dataclass
class ConnectionLimits:
    """Limits and state of all connections of one server."""

    header_s: float
    body_idle_s: float
    most: int
    """Open at once."""
    metrics: Metrics
    """Counts refused connections."""
    bodies: BodyBudget
    headers: BodyBudget = field(default_factory=partial(BodyBudget, HEADERS_BYTES), init=False)
    """Of requests that are half sent or not answered yet."""
    ending: bool = field(default=False, init=False)
    """Each reply is the last of its connection."""
    _watch: asyncio.TimerHandle | None = field(default=None, init=False)
    _peak: int = field(default=0, init=False)
    """Most connections since memory was last returned."""

    def watch(self, state: ServerState, loop: asyncio.AbstractEventLoop) -> None:
        """Check all connections regularly, with one timer, as long as there are any."""
        if self._watch is None:
            pause = min(1.0, self.header_s / 4, self.body_idle_s / 4)
            self._watch = loop.call_later(pause, self._check, state, loop)

    def _check(self, state: ServerState, loop: asyncio.AbstractEventLoop) -> None:
        self._watch = None
        now = loop.time()
        for connection in list(state.connections):
            if isinstance(connection, LimitedProtocol):
                connection.check_time(now)
        n_open = len(state.connections)
        self._peak = max(self._peak, n_open)
        if self._peak > max(MANY, 2 * n_open):
            self._peak = n_open
            loop.run_in_executor(None, return_free_memory)
        if n_open:
            self.watch(state, loop)


class LimitedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, limits: ConnectionLimits, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = limits
        self._in_header = True
        self._in_message = False
        self._progress_at = 0.0
        self._bytes = 0
        self._unread_since: float | None = None
        self._running: RequestResponseCycle | None = None
        """The request that is being answered; `cycle` is the one that came last."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._progress_at = self.loop.time()
        self._limits.watch(self.server_state, self.loop)
        if len(self.server_state.connections) > self._limits.most:
            self._refuse(503, "too-many-connections", "too many open connections; retry later")
            transport.close()
        elif self._limits.ending:
            self.shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._running is not None:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def shutdown(self) -> None:
        """Close after the current reply, or after the reply to a request that arrives soon."""
        self._limits.ending = True
        if self._busy():
            super().shutdown()
        else:
            self.loop.call_later(LAST_REQUEST_S, self._close_unused)

    def _close_unused(self) -> None:
        if not self._in_message and not self._busy():
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread_since = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread_since = None

    # What the parser reports

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_header = True
        self._in_message = True
        self._progress_at = self.loop.time()

    def on_headers_complete(self) -> None:
        self._in_header = False
        self._progress_at = self.loop.time()
        super().on_headers_complete()
        if self._limits.ending:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._count_bytes(len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_message = False
        super().on_message_complete()

    def _count_bytes(self, n_bytes: int) -> None:
        self._bytes += n_bytes
        if self._bytes >= PROGRESS_BYTES:
            self._bytes = 0
            self._progress_at = self.loop.time()

    # Timeouts

    def check_time(self, now: float) -> None:
        """End the connection if its client has stopped sending a request, or reading a reply."""
        if self._unread_since is not None and now - self._unread_since > UNREAD_S:
            self.transport.abort()
        else:
            self._check_sender(now - self._progress_at)

    def _check_sender(self, silent_s: float) -> None:
        if not self._in_message and not self._in_header and not self._busy():
            # Between two requests. uvicorn's own timer runs only after requests that it has parsed.
            if self.timeout_keep_alive_task is None and silent_s > self.timeout_keep_alive:
                self.transport.close()
        elif self._in_header:
            if silent_s > self._limits.header_s and not self._busy():
                # If nothing was sent there is no request to answer.
                self._end(
                    "timeout: the header was not complete" if self.headers is not None else None
                )
        elif (
            self.cycle is not None
            and self.cycle.more_body
            and not self.flow.read_paused
            and silent_s > self._limits.body_idle_s
        ):
            if not self.cycle.response_started:
                self._end("timeout: the body was not complete")
            elif self.cycle.response_complete:
                self.transport.close()  # the reply did not need the body

    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _end(self, reason: str | None) -> None:
        if reason is not None and not self.transport.is_closing():
            self._refuse(408, "request-timeout", f"{reason}; send the whole request again")
        self.transport.close()

    # Replies without a request

    def _refuse(self, status: int, code: str, detail: str, url: bytes | None = None) -> None:
        url = url or (self.url if self.headers else b"")
        path = url.partition(b"?")[0].decode("latin-1")
        request_id = request_id_of(self.headers or [])
        body, media_type = problem_bytes(status, code, detail, path, request_id)
        headers = MutableHeaders(
            {
                "content-type": media_type,
                "content-length": str(len(body)),
                "x-request-id": request_id,
                "connection": "close",
            }
        )
        if status == 503:
            headers["retry-after"] = str(RETRY_S)
        add_headers(headers)
        lines = (b"%b: %b\r\n" % header for header in headers.raw)
        self.transport.write(b"".join((STATUS_LINE[status], *lines, b"\r\n", body)))
        self._limits.metrics.record("none", "none", status, 0.0)
