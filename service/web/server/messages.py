"""Rules of RFC 9112 that neither the parser nor uvicorn applies.

A request with an invalid header is refused before anything else is done; header and trailers
together have a limit; an offer to upgrade the connection is ignored. A refusal is sent after the
replies to earlier requests, and then the connection is closed.

The headers that all connections keep, half-sent ones and those of requests that are not answered
yet, count against one budget. What is kept of a small header is counted, too, but never refused.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from service.common.answerer import RawHeaders
from service.web.server.connections import LimitedProtocol
from service.web.server.header_rules import (
    HEADER_BYTES,
    HEADER_LINES,
    SMALL_BYTES,
    Refusal,
    check_header,
    field_bytes,
    memory_of,
    no_memory,
    origin_form,
    refusal_of,
    too_large,
    too_many_lines,
    wrong_request_line,
)

WAITING_BYTES = 4096
"""Memory of a request, without its header, that waits for the reply to an earlier one."""
_LENGTHS = (b"content-length", b"transfer-encoding")


class MessageProtocol(LimitedProtocol):
    """One connection."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
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
        """Size of the lines of this message's header and trailers."""
        self._packet_bytes = 0
        """Size of what certainly belongs to them, even to a line without end."""
        self._packet_size = 0
        self._fields_only = False
        self._in_trailers = False
        """No byte of a chunk was received since its size."""
        self._has_cycle = False
        """`self.cycle` belongs to the message that is being read."""
        self._refusal: Refusal | None = None
        """Sent after earlier requests are answered."""

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
            self._end_with(refusal_of(error))
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
        if self._packet_bytes > HEADER_BYTES:
            self._end_with(self._too_large())
        elif half_sent:
            if len(self.headers) > HEADER_LINES:
                self._end_with(too_many_lines())
            elif not self._has_room(memory_of(2 * len(self._raw), self.headers)):
                self._end_with(no_memory())
        elif self._in_trailers and not self._has_room(self._packet_bytes):
            self._end_with(no_memory())

    def _has_room(self, n_bytes: int) -> bool:
        """Count `n_bytes` besides the headers of earlier requests; False if there is no room."""
        kept = self._kept_bytes + n_bytes
        return self._header_share.reserve(kept) or kept <= SMALL_BYTES

    def _should_upgrade(self) -> bool:
        return False

    def _await_more(self) -> None:
        """A message is not complete."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._header_share.release()
        super().connection_lost(exc)

    # What the parser reports

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._field_bytes = self._packet_bytes = 0
        self._has_cycle = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_header:
            super().on_header(name, value)
            return
        # A trailer is not a header of the request (RFC 9110, section 6.5.1).
        self._field_bytes += field_bytes(name, value)
        if self._field_bytes > HEADER_BYTES:
            raise self._too_large()

    def on_headers_complete(self) -> None:
        self._fields_only = False
        # The parser skips any number of spaces around the target.
        line = b"%b %b HTTP/" % (self.parser.get_method(), self.url)
        at = self._raw.find(line, self._line_end)
        if at < 0:
            raise wrong_request_line(self.parser.get_http_version())
        self._line_end = at + len(line)
        self._header_complete()

    def _header_complete(self) -> None:
        """The header, or what was kept of it until now, is complete."""
        version = self.parser.get_http_version()
        self._field_bytes = check_header(version, self.url, self.headers)
        self.url = origin_form(self.url, self.headers)
        memory = memory_of(self._field_bytes, self.headers)
        if self._busy():
            memory += WAITING_BYTES
        if not self._has_room(memory):
            raise no_memory()
        self._kept.append(memory)
        self._kept_bytes += memory
        super().on_headers_complete()
        self._has_cycle = True

    def on_chunk_header(self) -> None:
        self._in_trailers = True
        self._fields_only = False

    def on_body(self, body: bytes) -> None:
        self._in_trailers = False
        self._fields_only = False
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():  # else another parser reads its body
            self._in_trailers = False
            super().on_message_complete()

    # Refusals

    def _too_large(self) -> Refusal:
        trailers = self._in_message and not self._in_header
        return too_large("header and trailers have" if trailers else "the header has")

    def _end_with(self, refusal: Refusal) -> None:
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
            self._refuse(refusal.status, refusal.code, refusal.detail)
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
            refusal = self._refusal
            self._refuse(refusal.status, refusal.code, refusal.detail)
            self.transport.close()

    def _drop_request(self, last: bool) -> None:
        """Keep nothing of a request that was answered while the connection waits for another."""
        if self._running is not None:
            self._running.scope = {}  # type: ignore[typeddict-item]
            self._running.body.clear()
        if last:
            self.headers, self.scope = [], {}  # type: ignore[typeddict-item]


class Reports(Protocol):
    """Receives the results of a parser."""

    def on_message_begin(self) -> None: ...
    def on_url(self, url: bytes) -> None: ...
    def on_header(self, name: bytes, value: bytes) -> None: ...
    def on_headers_complete(self) -> None: ...
    def on_body(self, body: bytes) -> None: ...
    def on_chunk_header(self) -> None: ...
    def on_message_complete(self) -> None: ...


def new_parser(reports: Reports) -> HttpRequestParser:
    """A parser that, as uvicorn's, continues after a request with `Connection: close`."""
    parser = HttpRequestParser(reports)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def parser_after_header(reports: Reports) -> HttpRequestParser:
    """A parser for the rest of a request that offers to upgrade the connection (RFC 9110, section
    7.8), where the first parser stops, as if another protocol followed. Feed it `length_only`
    first."""
    return new_parser(_AfterHeader(reports))


def length_only(headers: RawHeaders) -> bytes:
    """A header with the length of the body, and nothing else."""
    lines = [b"%b: %b\r\n" % header for header in headers if header[0] in _LENGTHS]
    return b"".join((b"POST / HTTP/1.1\r\n", *lines, b"\r\n"))


class _AfterHeader:
    """Passes on everything except the first header, which was reported already."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._open = False
        self.on_body = reports.on_body
        self.on_chunk_header = reports.on_chunk_header
        self.on_message_complete = reports.on_message_complete

    def on_message_begin(self) -> None:
        if self._open:
            self._reports.on_message_begin()

    def on_url(self, url: bytes) -> None:
        if self._open:
            self._reports.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._open:
            self._reports.on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._open:
            self._reports.on_headers_complete()
        self._open = True
