"""The server's HTTP protocol class: predictions are answered when their last byte has arrived.

uvicorn makes a scope, a cycle and a task for every request. Here, what its parser reports of a
message is kept until the message is complete, and a prediction is then answered directly. What is
kept of anything else (another request, a fault, half a header) is passed on to uvicorn, as if the
parser reported it only now: of another request with a small body when it is complete, because the
application takes much more memory to wait for it. So all bytes are parsed once, by one parser, and
whatever is not answered here takes the way that it would have taken anyway.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

from starlette.datastructures import MutableHeaders, QueryParams
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle
from uvicorn.server import ServerState

from service.common.answerer import Answerer, RawHeaders, Reply
from service.common.callers import Rate
from service.common.tally import Tally
from service.errors import ServiceError
from service.web.access.authenticator import Authenticator
from service.web.access.scopes import check_origin
from service.web.bodies.receiving import overloaded
from service.web.bodies.validation import values_of
from service.web.http.headers import add_headers
from service.web.server.limits import (
    SMALL_BYTES,
    ConnectionLimits,
    check_header,
    memory_of,
    size_of,
)
from service.web.server.messages import LingeringClose, MessageProtocol
from service.web.server.observability import Metrics, request_id_of

SMALL_BODY_BYTES = 64 * 1024
"""A body up to this size is passed on to the application only when it is complete."""
LARGE_BYTES = 8 * 1024 * 1024
"""The application receives a larger body: in one piece, and it reads a faulty one only once."""
UNUSUAL = frozenset({b"expect", b"content-digest", b"upgrade"})
"""Headers that only the application understands."""
_DECIDING = UNUSUAL | {
    b"accept",
    b"accept-encoding",
    b"authorization",
    b"content-encoding",
    b"content-type",
    b"cookie",
    b"host",
    b"inference-header-content-length",
    b"origin",
    b"sec-fetch-site",
    b"te",
    b"transfer-encoding",
}
"""Headers that decide the caller and the call, or whether the message is refused."""
MAX_REMEMBERED = 1024
MAX_REMEMBERED_BYTES = 4096
"""Of the target and deciding headers of one prediction."""
CHUNK_BYTES = 64
"""Memory of a chunk besides its content, which may be a single byte."""


class Prediction(NamedTuple):
    """The call that a target and deciding headers make."""

    call: Any
    rate: Rate | None
    """That of the caller."""
    tally: Tally
    """Counts its replies."""


@dataclass
class ServerContext:
    answerer: Answerer
    authenticator: Authenticator
    metrics: Metrics
    limits: ConnectionLimits
    _preamble: tuple[object, bytes] = field(default=(None, b""), init=False)
    _remembered: dict[tuple[Any, ...], Prediction] = field(default_factory=dict, init=False)
    _as_of: int = field(default=-1, init=False)
    """The changes of keys that are known to what is remembered."""

    def prediction(self, version: str, url: bytes, headers: RawHeaders) -> Prediction | None:
        """What a POST request asks the answerer; None if only the application can tell."""
        if self._as_of != self.authenticator.changes or len(self._remembered) > MAX_REMEMBERED:
            self._as_of = self.authenticator.changes
            self._remembered.clear()
        deciding = [header for header in headers if header[0] in _DECIDING]
        key = (version, url, *deciding)
        prediction = self._remembered.get(key)
        if prediction is None:
            prediction = self._prediction(version, url, deciding)
            if prediction is not None and size_of(url, deciding) <= MAX_REMEMBERED_BYTES:
                self._remembered[key] = prediction
        return prediction

    def _prediction(self, version: str, url: bytes, headers: RawHeaders) -> Prediction | None:
        caller = self.authenticator.authenticate_without_address(headers)
        if caller is None or not caller.has_scope("predict") or _has_unusual(headers):
            return None
        path, _, query = url.partition(b"#")[0].partition(b"?")
        try:
            check_header(version, url, headers)
            check_origin(headers)
            call = self.answerer.call(path, values_of(QueryParams(query)), headers)
        except ServiceError:
            return None  # the application reports it
        if call is None:
            return None
        return Prediction(call, caller.rate, self.metrics.tally("POST", call.route, 200))

    def reply(self, state: ServerState, reply: Reply, request_id: str, last: bool) -> bytes:
        """All bytes of a reply; `last`: the connection is then closed."""
        body, media_type, headers = reply
        if self._preamble[0] is not state.default_headers:
            self._preamble = state.default_headers, _first_lines(state)
        more = "connection: close\r\n" if last else ""
        for title, content in headers:
            more += f"{title}: {content}\r\n"
        head = (
            f"{request_id}\r\ncontent-type: {media_type}\r\ncontent-length: {len(body)}\r\n"
            f"{more}\r\n"
        )
        return self._preamble[1] + head.encode("latin-1") + body


def _first_lines(state: ServerState) -> bytes:
    """Of every reply. They change once a second, when uvicorn updates the date."""
    fixed = MutableHeaders()
    add_headers(fixed)
    lines = [b"%b: %b\r\n" % header for header in (*state.default_headers, *fixed.raw)]
    return b"".join((STATUS_LINE[200], *lines, b"x-request-id: "))


def _has_unusual(headers: RawHeaders) -> bool:
    return not UNUSUAL.isdisjoint([name for name, _ in headers])


class ServiceProtocol(MessageProtocol):
    """One connection."""

    __slots__ = (
        *("_chunks", "_context", "_last", "_prediction"),
        *("_received", "_share", "_started", "_task"),
    )

    def __init__(self, context: ServerContext, *args: Any, **options: Any) -> None:
        super().__init__(context.limits, *args, **options)
        self._context = context
        self._share = context.limits.bodies.share()
        self._chunks: list[bytes] | None = None
        """What came of the body of the message that began last; None if uvicorn knows of it. The
        rest of what is kept of it is `url`, `headers` and these: """
        self._started = 0.0
        self._prediction: Prediction | None = None
        """None until the header is complete, and of other requests."""
        self._last = False
        """The connection is closed after the reply."""
        self._received = 0
        """Bytes of the chunks."""
        self._task: asyncio.Task[None] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _await_more(self) -> None:
        if self._chunks is None:
            return
        if self._in_header or not self._takes():
            try:
                self._pass_on()
            except ServiceError as refusal:
                self._end_with(refusal)
        elif not self._share.reserve(self._received + CHUNK_BYTES * len(self._chunks)):
            self._forget()
            self._refuse(overloaded())
            LingeringClose(self, self.transport)

    def _takes(self) -> bool:
        """Whether the body that has begun is worth waiting for."""
        length = max(self._length(), self._received)
        if self._prediction is None or length <= SMALL_BODY_BYTES:
            return True
        answerer = self._context.answerer
        most = min(LARGE_BYTES, answerer.body_limit_bytes)
        return length <= most and answerer.knows(self._prediction.call)

    def _length(self) -> int:
        return int(dict(self.headers).get(b"content-length", 0))

    # What the parser reports

    def on_message_begin(self) -> None:
        if self._chunks is not None:
            self._pass_on()  # its client has not waited for the reply
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            super().on_message_begin()
        else:
            self.url, self.headers, self._chunks = b"", [], []
            self._in_header = self._in_message = True
            self._prediction = None
            self._complete = self._has_cycle = False
            self._received = self._field_bytes = self._packet_bytes = 0
            self._progress_at = self.loop.time()
            self._started = perf_counter()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._chunks is not None and self._in_header:
            self.headers.append((name.lower(), value))
            return
        if not self._in_header and not self._field_bytes:
            self._check_header()  # trailers count, too
        super().on_header(name, value)

    def _header_complete(self) -> None:
        """Keep what the answerer may be able to answer, and what has a small body."""
        if self._chunks is not None and (
            memory_of(self._packet_size, self.headers) <= SMALL_BYTES
            or memory_of(size_of(self.url, self.headers), self.headers) <= SMALL_BYTES
        ):  # others have to be counted
            self._last = not self.parser.should_keep_alive()
            self._prediction = self._asked_prediction()
            if self._prediction is not None or self._has_small_body():
                if self._prediction is None:
                    self._check_header()
                self._in_header = False
                return
        self._pass_on()
        super()._header_complete()

    def _asked_prediction(self) -> Prediction | None:
        if self.parser.get_method() != b"POST" or self.flow.write_paused:
            return None
        version = self.parser.get_http_version()
        self._last |= version == "1.0"
        prediction = self._context.prediction(version, self.url, self.headers)
        if prediction is None or (prediction.rate is not None and prediction.rate.wait_s()):
            return None
        return prediction

    def _has_small_body(self) -> bool:
        """Whether the application may see the request when its body is complete."""
        return (
            0 < self._length() <= SMALL_BODY_BYTES
            and not _has_unusual(self.headers)
            and not self.parser.should_upgrade()
        )

    def on_body(self, body: bytes) -> None:
        if self._chunks is None:
            super().on_body(body)
        else:
            self._in_trailers = self._fields_only = False
            self._chunks.append(body)
            self._received += len(body)
            self._count_bytes(len(body))

    def on_message_complete(self) -> None:
        if self._chunks is None:
            super().on_message_complete()
        else:
            self._in_message = self._in_trailers = False
            self._complete = True
            answerer, chunks = self._context.answerer, self._chunks
            if self._prediction is None or not 0 < self._received <= answerer.body_limit_bytes:
                self._pass_on()
                return
            if len(chunks) > 1:
                chunks[:] = [b"".join(chunks)]
            deliver = partial(self._deliver, chunks)
            # No other can bring a request in this turn, nor can the rest of the packet.
            last = self._last or self._limits.ending
            alone = len(self.connections) == 1 and not last
            self._task = answerer.submit(self._prediction.call, chunks[0], deliver, alone=alone)

    # What is reported to uvicorn, and when

    def _pass_on(self) -> None:
        """Report to uvicorn what is kept. The parser still knows how that message began, even when
        it has just begun with the next one."""
        chunks, url, headers = self._chunks, self.url, self.headers
        if chunks is None:
            return
        in_header, complete, last = self._in_header, self._complete, self._last
        in_trailers, sizes = self._in_trailers, (self._field_bytes, self._packet_bytes)
        self._forget()
        super().on_message_begin()
        if not complete:
            self._field_bytes, self._packet_bytes = sizes
        super().on_url(url)
        for name, value in headers:
            super().on_header(name, value)
        if not in_header:
            self._complete = complete
            super()._header_complete()
            self.cycle.keep_alive &= not last  # the parser may have forgotten it
            for chunk in chunks:
                super().on_body(chunk)
            self._in_trailers = in_trailers
            if complete:
                super().on_message_complete()

    def _forget(self) -> None:
        self._chunks = None
        self._share.release()
        self._header_share.release()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _end_with(self, refusal: ServiceError) -> None:
        if self._complete:
            self._pass_on()  # its reply comes first
        else:
            self._forget()
        super()._end_with(refusal)

    # Answers

    def _deliver(self, chunks: list[bytes], reply: Reply | Exception) -> None:
        prediction, transport = self._prediction, self.transport
        if chunks is not self._chunks or prediction is None:
            return  # it was passed on
        self._task = None
        if isinstance(reply, Exception) or self.flow.write_paused:
            self._pass_on()  # the application finds the error again, and reports it
            return
        if transport.is_closing():
            return
        self._forget()
        last, state = self._last or self._limits.ending, self.server_state
        transport.write(self._context.reply(state, reply, request_id_of(self.headers), last))
        if last:
            transport.close()
        state.total_requests += 1
        if prediction.rate is not None:
            prediction.rate.count()
        prediction.tally.count(perf_counter() - self._started)

    # Timeouts

    def _close_unused(self) -> None:
        if self._chunks is None:
            super()._close_unused()

    def _check_sender(self, silent_s: float) -> None:
        if self._chunks is None:
            super()._check_sender(silent_s)
        elif not self._complete and silent_s > self._limits.body_idle_s:
            self._end("timeout: the body was not complete")
