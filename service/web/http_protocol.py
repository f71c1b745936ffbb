"""The server's HTTP protocol class: uvicorn's own, with time limits and a door for predictions.

uvicorn waits forever for a header or a body that does not come, copies a large body several times,
and starts a task for every request. Here

- a header not complete after `header_s`, and a body of which hardly anything comes for
  `body_idle_s`, end with 408; connections beyond `connections` hear 503; a client that does not
  read what it asked for is left;
- what `answerer` can answer in the same turn of the event loop is answered without a task and
  without ASGI. The request is parsed by uvicorn and held back until its body is complete; wherever
  anything is unusual it is started as uvicorn would have done;
- a head that was parsed once is known: when the same bytes come again they need not be parsed, and
  a large body is received into one buffer.
"""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from service.errors import ServiceError
from service.web.callers import Caller
from service.web.gate import Gate
from service.web.known_heads import BodyReceiver, Head, KnownHeads, Learnt, QuickRequest
from service.web.observability import Metrics, new_request_id, request_id_of
from service.web.problems import problem_bytes
from service.web.short_cut import Answerer, Headers, Reply

PROGRESS_BYTES = 4096
"""A body that is not complete has stopped coming unless so much comes in the time it may idle: a
client that sends a byte now and then would otherwise hold its connection for ever."""
UNREAD_S = 60.0
"""So long some 50 kB of a reply may wait for their reader."""
RETRY_S = 5
LARGE_BYTES = 128 * 1024
"""A body of this size is worth a buffer of its own, and a task without ASGI."""


@dataclass
class Conduct:
    """What the connections of one server have in common."""

    answerer: Answerer
    gate: Gate
    metrics: Metrics
    header_s: float
    body_idle_s: float
    connections: int
    known: KnownHeads = field(default_factory=KnownHeads, init=False)
    _watch: asyncio.TimerHandle | None = field(default=None, init=False)
    _preamble: tuple[object, bytes] = field(default=(None, b""), init=False)

    def __post_init__(self) -> None:
        self.gate.changed.append(self.known.clear)

    def protocol(self, *args: Any, **options: Any) -> ServiceProtocol:
        """A new connection: what uvicorn takes as its `http` setting."""
        return ServiceProtocol(self, *args, **options)

    def preamble(self, state: ServerState) -> bytes:
        """How every reply begins; uvicorn writes the date anew each second."""
        headers = state.default_headers
        if self._preamble[0] is not headers:
            lines = [b"%b: %b\r\n" % header for header in headers]
            fixed = b"x-content-type-options: nosniff\r\ncache-control: no-store\r\nx-request-id: "
            self._preamble = headers, b"".join((STATUS_LINE[200], *lines, fixed))
        return self._preamble[1]

    def watch(self, state: ServerState, loop: asyncio.AbstractEventLoop) -> None:
        """Look at all connections now and then, as long as there are any: one timer for all."""
        if self._watch is None:
            pause = min(1.0, self.header_s / 4, self.body_idle_s / 4)
            self._watch = loop.call_later(pause, self._look, state, loop)

    def _look(self, state: ServerState, loop: asyncio.AbstractEventLoop) -> None:
        self._watch = None
        now = loop.time()
        for connection in list(state.connections):
            if isinstance(connection, ServiceProtocol):
                connection.check_time(now)
        if state.connections:
            self.watch(state, loop)


class ServiceProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(
        self,
        conduct: Conduct,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._conduct = conduct
        self._held: _Held | None = None
        self._quick: QuickRequest | None = None
        self._head: Head | None = None
        self._in_header = True
        self._in_message = False
        self._progress_at = 0.0
        self._bytes = 0
        self._unread_since: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._progress_at = self.loop.time()
        self._conduct.watch(self.server_state, self.loop)
        if len(self.server_state.connections) > self._conduct.connections:
            self._refuse(503, "too-many-connections", "too many connections; try again later")
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._quick is not None and self._quick.task is not None:
            self._quick.task.cancel()  # nobody waits for the answer
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread_since = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._unread_since = None

    # Heads that are known

    def data_received(self, data: bytes) -> None:
        quick = self._quick
        if quick is not None:
            self._came(len(data))
            if quick.due:
                quick.keep(data)
            else:
                quick.add(data)
                self._proceed(quick)
            return
        self._head = None
        if not self._in_message and (self.cycle is None or self.cycle.response_complete):
            found = self._conduct.known.find(data)
            if found is not None:
                head, learnt = found
                fits = head.end < head.size <= head.end + self._conduct.answerer.body_limit_bytes
                # Several requests in one piece are the parser's: it goes from one to the next.
                fits = fits and len(data) <= head.size
                if (
                    learnt is not None
                    and fits
                    and not self.flow.write_paused
                    and learnt.caller.is_admitted()
                ):
                    self._unset_keepalive_if_required()
                    self._in_header = False
                    self._progress_at = self.loop.time()
                    call, caller = learnt
                    quick = QuickRequest(head, call, caller, time.perf_counter(), [data], len(data))
                    self._quick = quick
                    self._proceed(quick)
                    return
                self._head = head
        super().data_received(data)

    def received(self, nbytes: int) -> None:
        """Some of a large request has come into its buffer."""
        self._came(nbytes)
        quick = self._quick
        if quick is not None and not quick.missing:
            self._receive_by(self)
            self._proceed(quick)

    def _proceed(self, quick: QuickRequest) -> None:
        if quick.missing:
            if quick.missing >= LARGE_BYTES:
                self._receive_by(BodyReceiver(self, quick))
            return
        quick.due = True
        body = quick.body()
        if self._conduct.answerer.answer_soon(
            quick.call, body, self._deliver_quick, alone=self._alone
        ):
            return
        if len(body) >= LARGE_BYTES:
            quick.task = self.loop.create_task(self._answer_in_time(quick, body))
        else:
            self._parse_after_all(quick)

    def _receive_by(self, protocol: asyncio.BaseProtocol) -> None:
        # uvloop looks at the kind of protocol when it begins to read.
        self.transport.pause_reading()
        self.transport.set_protocol(protocol)
        self.transport.resume_reading()

    async def _answer_in_time(self, quick: QuickRequest, body: bytes) -> None:
        try:
            reply = await self._conduct.answerer.answer(quick.call, body)
        except Exception as error:
            self._deliver_quick(error)
        else:
            self._deliver_quick(reply)

    def _deliver_quick(self, reply: Reply | Exception) -> None:
        quick = self._quick
        assert quick is not None
        if self.transport.is_closing():
            self._quick = None
        elif isinstance(reply, Exception) or self.flow.write_paused:
            self._parse_after_all(quick)
        else:
            self._quick = None
            self._write(reply, new_request_id(), not quick.closing)
            quick.caller.count()
            seconds = time.perf_counter() - quick.started
            self._conduct.metrics.record("POST", quick.call.route, 200, seconds)
            self.server_state.total_requests += 1
            self._go_on(quick)

    def _parse_after_all(self, quick: QuickRequest) -> None:
        """Nothing has happened yet that the parser would have to know."""
        self._quick = None
        super().data_received(quick.whole())
        if quick.closing and self.cycle is not None:
            self.cycle.keep_alive = False
        self._go_on(quick)

    def _go_on(self, quick: QuickRequest) -> None:
        for data in quick.next or ():
            self.data_received(data)

    def shutdown(self) -> None:
        if self._quick is not None:
            self._quick.closing = True
        else:
            super().shutdown()

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
        self._head = None  # what follows is another message's

    def on_body(self, body: bytes) -> None:
        self._came(len(body))
        held = self._held
        if held is None or held.cycle is not self.cycle:
            super().on_body(body)
        else:
            held.parts.append(body)

    def on_message_complete(self) -> None:
        self._in_message = False
        held = self._held
        if held is None or held.cycle is not self.cycle:
            super().on_message_complete()
        else:
            held.cycle.more_body = False
            self._answer(held)

    # What uvicorn would start

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if cycle is self.cycle and app is self.app and cycle.more_body:
            self._held = self._hold(cycle)
            if self._held is not None:
                return
        super()._start_asgi_task(cycle, app)

    def _hold(self, cycle: RequestResponseCycle) -> _Held | None:
        """The request, if it is a usual one for the answerer."""
        scope = cycle.scope
        if scope["method"] != "POST" or scope["query_string"] or cycle.waiting_for_100_continue:
            return None
        length = 0
        for name, value in scope["headers"]:
            if name == b"content-length":
                length = int(value)
            elif name in (b"transfer-encoding", b"content-digest"):
                return None
        if not 0 < length <= self._conduct.answerer.body_limit_bytes:
            return None
        try:
            call = self._conduct.answerer.call(scope["raw_path"] or b"", self.headers)
        except ServiceError:
            return None  # the application says it
        if call is None:
            return None
        caller = self._conduct.gate.find_quickly(self.headers)
        if caller is None or not caller.may("predict") or not caller.is_admitted():
            return None
        own_id = any(name == b"x-request-id" for name, _ in self.headers)
        if self._head is not None and cycle.keep_alive and not own_id:
            self._conduct.known.learn(self._head, Learnt(call, caller))
        return _Held(cycle, call, caller, self.headers)

    # Answers

    @property
    def _alone(self) -> bool:
        """Whether no other connection could bring a request in this turn of the loop."""
        return len(self.server_state.connections) == 1

    def _answer(self, held: _Held) -> None:
        answerer = self._conduct.answerer
        deliver = partial(self._deliver, held)
        if not answerer.answer_soon(held.call, held.body(), deliver, alone=self._alone):
            self._release(held)

    def _deliver(self, held: _Held, reply: Reply | Exception) -> None:
        cycle = held.cycle
        if cycle.disconnected:
            self._held = None
        elif isinstance(reply, Exception) or self.flow.write_paused:
            self._release(held)
        else:
            self._held = None
            cycle.response_started = cycle.response_complete = True
            self._write(reply, request_id_of(held.headers), cycle.keep_alive)
            held.caller.count()
            seconds = time.perf_counter() - held.started
            self._conduct.metrics.record("POST", held.call.route, 200, seconds)
            cycle.on_response()

    def _release(self, held: _Held) -> None:
        """Let the application answer: it takes its time, or says what is wrong."""
        self._held = None
        held.cycle.body = bytearray(held.body())
        held.cycle.message_event.set()
        super()._start_asgi_task(held.cycle, self.app)

    def _write(self, reply: Reply, request_id: str, keep_alive: bool) -> None:
        body, media_type, headers = reply
        more = "" if keep_alive else "connection: close\r\n"
        for title, content in headers:
            more += f"{title}: {content}\r\n"
        head = (
            f"{request_id}\r\ncontent-type: {media_type}\r\n"
            f"content-length: {len(body)}\r\n{more}\r\n"
        ).encode("latin-1")
        self.transport.write(self._conduct.preamble(self.server_state) + head + body)
        if not keep_alive:
            self.transport.close()

    # Time limits

    def check_time(self, now: float) -> None:
        """End the connection where its client has stopped sending a request, or reading a reply."""
        if self._unread_since is not None and now - self._unread_since > UNREAD_S:
            self.transport.abort()
            return
        silent = now - self._progress_at
        if self._quick is not None:
            if not self._quick.due and silent > self._conduct.body_idle_s:
                self._end("the body stopped coming")
        elif self._idle():
            # uvicorn's own timer runs only after requests that it has parsed.
            if self.timeout_keep_alive_task is None and silent > self.timeout_keep_alive:
                self.transport.close()
        elif self._in_header:
            if silent > self._conduct.header_s and not self._busy():
                # Nothing sent at all is no request: there is nothing to answer.
                self._end("the header did not come" if self.headers is not None else None)
        elif (
            self.cycle is not None
            and self.cycle.more_body
            and not self.flow.read_paused
            and silent > self._conduct.body_idle_s
        ):
            if not self.cycle.response_started:
                self._end("the body stopped coming")
            elif self.cycle.response_complete:
                self.transport.close()  # it was answered without its body

    def _came(self, n_bytes: int) -> None:
        self._bytes += n_bytes
        if self._bytes >= PROGRESS_BYTES:
            self._bytes = 0
            self._progress_at = self.loop.time()

    def _idle(self) -> bool:
        """Between two requests."""
        return not self._in_message and not self._in_header and not self._busy()

    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _end(self, reason: str | None) -> None:
        if reason is not None and not self.transport.is_closing():
            self._refuse(408, "request-timeout", f"{reason}; send the whole request again")
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """What is no HTTP is told so as a problem, like everything else."""
        reason = str(sys.exception())
        if "present with" in reason or "Duplicate" in reason:
            detail = "give one Content-Length, or Transfer-Encoding, not both"
            self._refuse(400, "ambiguous-length", detail)
        else:
            self._refuse(400, "malformed-request", "this is not an HTTP/1.1 request")
        self.transport.close()

    def _refuse(self, status: int, code: str, detail: str) -> None:
        path = (self.url or b"").partition(b"?")[0].decode("latin-1") if self.headers else ""
        body = problem_bytes(status, code, detail, path, request_id_of(self.headers or []))
        head = b"content-type: application/problem+json\r\ncontent-length: %d\r\n" % len(body)
        more = [b"retry-after: %d\r\n" % RETRY_S] if status == 503 else []
        self.transport.write(
            b"".join((STATUS_LINE[status], head, *more, b"connection: close\r\n\r\n", body))
        )
        self._conduct.metrics.record("none", "none", status, 0.0)


@dataclass(eq=False)
class _Held:
    """A request for the answerer, of which the body is still coming or the answer is due."""

    cycle: RequestResponseCycle
    call: Any
    caller: Caller
    headers: Headers
    parts: list[bytes] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def body(self) -> bytes:
        """What has come of the body."""
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
