"""Rules of RFC 9112 that neither the parser nor uvicorn applies, and timeouts, which uvicorn lacks.

A request with an invalid header is refused before anything else is done; header and trailers
together have a limit; an offer to upgrade the connection is ignored. A refusal is sent after the
replies to earlier requests, and then the connection is closed.

The headers that all connections keep, half-sent ones and those of requests that are not answered
yet, count against one budget, and so does what the application needs to receive a body. What is
kept of a small header is counted, too, but never refused.

A header that is not complete after `header_s`, and a body with too little progress in
`body_idle_s`, end with 408. Connections beyond `most` receive 503. If a client does not read a
reply, its connection is aborted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from starlette.datastructures import MutableHeaders
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from service.common.answerer import RawHeaders
from service.errors import ServiceError
from service.web.http.headers import add_headers
from service.web.problems import problem_bytes, status_of
from service.web.server import limits
from service.web.server.observability import request_id_of

WAITING_BYTES = 4096
"""Memory of a request, without its header, that waits for the reply to an earlier one."""
RECEIVING_BYTES = 16 * 1024
"""Memory that the application needs to receive a body, in addition to that of its connection."""
_LENGTHS = (b"content-length", b"transfer-encoding")
LINGER_S = 2.0
PROGRESS_BYTES = 4096
"""A body must progress by this much within the timeout. Otherwise a client that sends a byte now
and then could keep its connection open forever."""
UNREAD_S = 60.0
"""Timeout for a client that does not read; some 50 kB of the reply are in memory."""
RETRY_S = 5
LAST_REQUEST_S = 1.0
"""Time for a request that the client sent before it noticed the shutdown."""
_ignored = memoryview(bytearray(64 * 1024))


class MessageProtocol(HttpToolsProtocol):
    """One connection."""

    __slots__ = (
        *("_bytes", "_complete", "_field_bytes", "_fields_only", "_has_cycle", "_header_share"),
        *("_in_header", "_in_message", "_in_trailers", "_kept", "_kept_bytes", "_limits"),
        *("_line_end", "_packet_bytes", "_packet_size", "_progress_at", "_raw", "_refusal"),
        *("_running", "_unread_since"),
    )
    """A dictionary of all these would be enlarged several times for each connection."""

    def __init__(self, shared: limits.ConnectionLimits, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._limits = shared
        self._in_header = True
        self._in_message = False
        self._progress_at = 0.0
        self._bytes = 0
        self._unread_since: float | None = None
        self._running: RequestResponseCycle | None = None
        """The request that is being answered; `cycle` is the one that came last."""
        self._raw = b""
        """The packet that is being parsed, after what may be the beginning of a header; between two
        packets only the latter."""
        self._line_end = 0
        """The end of the last request line in it that was checked."""
        self._header_share = self._limits.headers.share()
        self._kept: deque[int] = deque()
        """Memory of each request that is not answered yet: of its header, and if it waits."""
        self._kept_bytes = 0
        """Their sum."""
        self._field_bytes = 0
        """Size of this message's header and trailers; 0 until the header is checked."""
        self._packet_bytes = 0
        """Size of what certainly belongs to them, even to a line without end."""
        self._packet_size = 0
        self._fields_only = False
        self._in_trailers = False
        """No byte of a chunk was received since its size."""
        self._has_cycle = False
        """`self.cycle` belongs to the message that is being read."""
        self._complete = False
        """The message was received before the application gets it."""
        self._refusal: ServiceError | None = None
        """Sent after earlier requests are answered."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._progress_at = self.loop.time()
        self._limits.watch(self.server_state, self.loop)
        self._limits.opened.own = len(self.connections)
        if self._limits.opened.total > self._limits.most:
            detail = "too many open connections; retry later"
            self._refuse(ServiceError("too-many-connections", detail))
            transport.close()
        elif self._limits.ending:
            self.shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        self._header_share.release()
        if self._running is not None:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)
        self._limits.opened.own = len(self.connections)

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

    def data_received(self, data: bytes) -> None:
        if self._refusal is not None:
            return
        self._packet_size = len(data)
        self._raw += data
        self._line_end = 0
        if self.timeout_keep_alive_task is not None:
            self._unset_keepalive_if_required()
        self._fields_only = self._in_header or self._in_trailers or not self._in_message
        rest: bytes | memoryview = data
        try:
            while rest:
                try:
                    self.parser.feed_data(rest)
                    break
                except HttpParserUpgrade as upgrade:
                    rest = memoryview(rest)[upgrade.args[0] :]
                    self.parser = parser_after_header(self)
                    self.parser.feed_data(length_only(self.headers))
        except HttpParserError as error:
            self._raw = b""
            self._end_with(limits.refusal_of(error))
            return
        if not (self._in_message or self._fields_only):  # as usual: it ends with a request
            self._raw = b""
            return
        if self._in_message:
            self._await_more()
        half_sent = self._in_message and self._in_header
        self._raw = self._raw[self._line_end :] if half_sent else b""
        if self.transport.is_closing():
            return
        if self._fields_only:
            self._packet_bytes += self._packet_size
        elif self._in_header or self._in_trailers:
            self._packet_bytes = len(data) - data.rfind(b"\n") - 1  # of a line without end
        if self._packet_bytes > limits.HEADER_BYTES:
            self._end_with(self._too_large())
        elif half_sent:
            if len(self.headers) > limits.HEADER_LINES:
                self._end_with(limits.too_many_lines())
            elif not self._has_room(limits.memory_of(2 * len(self._raw), self.headers)):
                self._end_with(limits.no_memory())
        elif self._in_trailers and not self._has_room(self._packet_bytes):
            self._end_with(limits.no_memory())

    def _has_room(self, n_bytes: int) -> bool:
        """Count `n_bytes` besides the headers of earlier requests; False if there is no room."""
        kept = self._kept_bytes + n_bytes
        return self._header_share.reserve(kept) or kept <= limits.SMALL_BYTES

    def _should_upgrade(self) -> bool:
        return False

    def _await_more(self) -> None:
        """A message is not complete."""

    # What the parser reports

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_header = self._in_message = True
        self._progress_at = self.loop.time()
        self._field_bytes = self._packet_bytes = 0
        self._has_cycle = self._complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_header:
            super().on_header(name, value)
            return
        # A trailer is not a header of the request (RFC 9110, section 6.5.1).
        self._field_bytes += limits.field_bytes(name, value)
        if self._field_bytes > limits.HEADER_BYTES:
            raise self._too_large()

    def on_headers_complete(self) -> None:
        self._fields_only = False
        # The parser skips any number of spaces around the target.
        line = b"%b %b HTTP/" % (self.parser.get_method(), self.url)
        at = self._raw.find(line, self._line_end)
        if at < 0:
            raise limits.wrong_request_line(self.parser.get_http_version())
        self._line_end = at + len(line)
        self._header_complete()

    def _header_complete(self) -> None:
        """The header, or what was kept of it until now, is complete."""
        if not self._field_bytes:
            self._check_header()
        self.url = limits.origin_form(self.url, self.headers)
        memory = limits.memory_of(self._field_bytes, self.headers)
        if self._busy():
            memory += WAITING_BYTES
        if not self._complete and limits.has_body(self.headers):
            memory += RECEIVING_BYTES
        if not self._has_room(memory):
            raise limits.no_memory()
        self._kept.append(memory)
        self._kept_bytes += memory
        self._in_header = False
        self._progress_at = self.loop.time()
        super().on_headers_complete()
        self._has_cycle = True
        if self._limits.ending:
            self.cycle.keep_alive = False

    def _check_header(self) -> None:
        version = self.parser.get_http_version()
        self._field_bytes = limits.check_header(version, self.url, self.headers)

    def on_chunk_header(self) -> None:
        self._in_trailers = True
        self._fields_only = False

    def on_body(self, body: bytes) -> None:
        self._in_trailers = False
        self._fields_only = False
        self._count_bytes(len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():  # else another parser reads its body
            self._in_trailers = self._in_message = False
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
            detail = f"{reason}; send the whole request again"
            self._refuse(ServiceError("request-timeout", detail))
        self.transport.close()

    # Refusals

    def _too_large(self) -> ServiceError:
        trailers = self._in_message and not self._in_header
        return limits.too_large("header and trailers have" if trailers else "the header has")

    def _end_with(self, refusal: ServiceError) -> None:
        """Reply with a problem, after earlier replies, and close."""
        cycle = self.cycle if self._has_cycle else None
        if cycle is not None:
            if self.pipeline and self.pipeline[0][0] is cycle:
                self.pipeline.popleft()
                cycle.response_complete = True
                self._refusal = refusal
                return
            answered = cycle.response_started
            cycle.disconnected = True  # its application ends
            cycle.message_event.set()
        else:
            if self._busy():
                self._refusal = refusal
                return
            answered = False
        if not answered:
            self._refuse(refusal)
            if refusal.code == "overloaded" and limits.has_body(self.headers):
                self._in_header = False
                LingeringClose(self, self.transport)
                return
        self.transport.close()

    def on_response_complete(self) -> None:
        self._kept_bytes -= self._kept.popleft()
        if not self._kept:
            self._header_share.release()
        last = not self.pipeline
        self._drop_request(last and not self._in_header)
        super().on_response_complete()
        if last and self._refusal is not None and not self.transport.is_closing():
            self._has_cycle = False
            self._refuse(self._refusal)
            self.transport.close()

    def _drop_request(self, last: bool) -> None:
        """Keep nothing of a request that was answered while the connection waits for another."""
        if self._running is not None:
            self._running.scope = {}  # type: ignore[typeddict-item]
            self._running.body.clear()
        if last:
            self.headers, self.scope = [], {}  # type: ignore[typeddict-item]

    def _refuse(self, error: ServiceError) -> None:
        url = self.url if self.headers else b""
        path = url.partition(b"?")[0].decode("latin-1")
        request_id = request_id_of(self.headers or [])
        status = status_of(error.code)
        body, media_type = problem_bytes(error, path, request_id)
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


def parser_after_header(connection: MessageProtocol) -> HttpRequestParser:
    """A parser for the rest of a request that offers to upgrade the connection (RFC 9110, section
    7.8), where the first parser stops, as if another protocol followed. Feed it `length_only`
    first."""
    parser = HttpRequestParser(_AfterHeader(connection))
    parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
    return parser


def length_only(headers: RawHeaders) -> bytes:
    """A header with the length of the body, and nothing else."""
    lines = [b"%b: %b\r\n" % header for header in headers if header[0] in _LENGTHS]
    return b"".join((b"POST / HTTP/1.1\r\n", *lines, b"\r\n"))


class _AfterHeader:
    """Passes on what a parser reports, except the first header, which was reported already."""

    def __init__(self, connection: MessageProtocol) -> None:
        self._connection = connection
        self._open = False

    def __getattr__(self, name: str) -> Callable[..., None]:
        report = getattr(self._connection, name)

        def pass_on(*content: bytes) -> None:
            if self._open:
                report(*content)

        return pass_on

    def on_headers_complete(self) -> None:
        if self._open:
            self._connection.on_headers_complete()
        self._open = True


class LingeringClose(asyncio.BufferedProtocol):
    """A connection after its last reply was written, while its client is still sending.

    If a connection is closed with unread bytes, the system resets it, and the client may never see
    the reply. So the connection reads for a while after the reply, and ignores what it reads.
    """

    def __init__(self, connection: asyncio.Protocol, transport: asyncio.Transport) -> None:
        self._connection = connection
        self._transport = transport
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(LINGER_S, transport.close)
        # uvloop checks the type of the protocol when it starts to read.
        transport.pause_reading()
        transport.set_protocol(self)
        transport.resume_reading()
        transport.write_eof()

    def get_buffer(self, sizehint: int) -> memoryview:
        return _ignored

    def buffer_updated(self, nbytes: int) -> None:
        pass

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()
