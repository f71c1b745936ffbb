"""The server's HTTP protocol class: uvicorn's own, with limits and a door for predictions.

uvicorn copies a large body several times, and starts a task for every request. Here

- what `answerer` can answer in the same turn of the event loop is answered without a task and
  without ASGI. The request is parsed by uvicorn and held back until its body is complete; wherever
  anything is unusual it is started as uvicorn would have done;
- a head that was parsed once is known: when the same bytes come again they need not be parsed, and
  a large body is received into one buffer.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from starlette.datastructures import MutableHeaders
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle
from uvicorn.server import ServerState

from service.errors import ServiceError
from service.web.access.authenticator import Gate
from service.web.access.fast_path import Answerer, Reply
from service.web.bodies.body_budget import DETAIL
from service.web.http.headers import add_headers
from service.web.server.connections import ConnectionLimits
from service.web.server.held import Held, header_of, usual_length
from service.web.server.known_heads import BodyReceiver, Head, KnownHeads, Learnt, QuickRequest
from service.web.server.lingering import Lingering
from service.web.server.messages import MessageProtocol
from service.web.server.observability import Metrics, new_request_id, request_id_of

LARGE_BYTES = 128 * 1024
"""A body of this size is worth a buffer of its own, and a task without ASGI."""


@dataclass
class Conduct:
    """What the connections of one server have in common."""

    answerer: Answerer
    gate: Gate
    metrics: Metrics
    limits: ConnectionLimits
    known: KnownHeads = field(default_factory=KnownHeads, init=False)
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
            fixed = MutableHeaders()
            add_headers(fixed)
            lines = [b"%b: %b\r\n" % header for header in (*headers, *fixed.raw)]
            self._preamble = headers, b"".join((STATUS_LINE[200], *lines, b"x-request-id: "))
        return self._preamble[1]


class ServiceProtocol(MessageProtocol):
    """One connection."""

    def __init__(
        self,
        conduct: Conduct,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(conduct.limits, config, server_state, app_state, _loop)
        self._conduct = conduct
        self._held: Held | None = None
        self._quick: QuickRequest | None = None
        self._head: Head | None = None
        self._share = conduct.limits.bodies.share()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._quick is not None and self._quick.task is not None:
            self._quick.task.cancel()  # nobody waits for the answer
        self._quick = self._held = None  # now, not when the connection is collected
        self._share.release()
        super().connection_lost(exc)

    # Heads that are known

    def data_received(self, data: bytes) -> None:
        quick = self._quick
        if quick is not None:
            self._came(len(data))
            if quick.due:
                quick.keep(data)
                self.flow.pause_reading()
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
        held = self._held
        if held is not None and held.cycle.more_body and not self._share.cover(held.received):
            self.turn_away()

    def received(self, nbytes: int) -> None:
        """Some of a large request has come into its buffer."""
        self._came(nbytes)
        quick = self._quick
        if quick is not None and not quick.missing:
            self._receive_by(self)
            self._proceed(quick)

    def _proceed(self, quick: QuickRequest) -> None:
        if quick.missing:
            self._await_more(quick)
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

    def _await_more(self, quick: QuickRequest) -> None:
        if not self._share.held and not self._conduct.answerer.knows(quick.call):
            self._parse_after_all(quick)
            return
        if quick.missing >= LARGE_BYTES:
            receiver = BodyReceiver(self, quick, self._share)
            if receiver.has_room():
                self._receive_by(receiver)
                return
        elif self._share.cover(quick.received):
            return
        self.turn_away()

    def turn_away(self) -> None:
        """Refuse a request of whose body there is no room for the rest."""
        url = None if self._quick is None else self._quick.url
        self._quick = self._held = None
        self._share.release()
        self._refuse(503, "overloaded", DETAIL, url)
        Lingering(self, self.transport)

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
        if quick is None or self.transport.is_closing():
            self._quick = None
        elif isinstance(reply, Exception) or self.flow.write_paused:
            self._parse_after_all(quick)
        else:
            self._quick = None
            self._write(reply, new_request_id(), not self._limits.ending)
            quick.caller.count()
            seconds = time.perf_counter() - quick.started
            self._conduct.metrics.record("POST", quick.call.route, 200, seconds)
            self.server_state.total_requests += 1
            self._go_on(quick)

    def _parse_after_all(self, quick: QuickRequest) -> None:
        """Nothing has happened yet that the parser would have to know."""
        self._quick = None
        self._share.release()
        super().data_received(quick.whole())
        self._go_on(quick)

    def _go_on(self, quick: QuickRequest) -> None:
        if quick.next is not None:
            self.flow.resume_reading()
        for data in quick.next or ():
            self.data_received(data)

    def _close_unused(self) -> None:
        if self._quick is None:
            super()._close_unused()

    # What the parser reports

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._head = None  # what follows is another message's

    def on_body(self, body: bytes) -> None:
        held = self._held
        if held is None or held.cycle is not self.cycle:
            super().on_body(body)
        else:
            self._came(len(body))
            held.parts.append(body)
            held.received += len(body)

    def on_message_complete(self) -> None:
        held = self._held
        if held is None or held.cycle is not self.cycle:
            super().on_message_complete()
        else:
            self._in_message = False
            held.cycle.more_body = False
            self._answer(held)

    # What uvicorn would start

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if cycle is self.cycle and app is self.app and cycle.more_body:
            self._held = self._hold(cycle)
            if self._held is not None:
                return
        super()._start_asgi_task(cycle, app)

    def _hold(self, cycle: RequestResponseCycle) -> Held | None:
        """The request, if it is a usual one for the answerer."""
        scope = cycle.scope
        if scope["method"] != "POST" or scope["query_string"] or cycle.waiting_for_100_continue:
            return None
        if self.parser.should_upgrade():  # its body is read by another parser
            return None
        if not 0 < usual_length(self.headers) <= self._conduct.answerer.body_limit_bytes:
            return None
        try:
            call = self._conduct.answerer.call(scope["raw_path"] or b"", self.headers)
        except ServiceError:
            return None  # the application says it
        if call is None or not self._conduct.answerer.knows(call):
            return None
        caller = self._conduct.gate.find_quickly(self.headers)
        if caller is None or not caller.may("predict") or not caller.is_admitted():
            return None
        own_id = any(name == b"x-request-id" for name, _ in self.headers)
        if self._head is not None and cycle.keep_alive and not own_id:
            self._conduct.known.learn(self._head, Learnt(call, caller))
        return Held(cycle, call, caller, self.headers)

    # Answers

    @property
    def _alone(self) -> bool:
        """Whether no other connection could bring a request in this turn of the loop."""
        return len(self.server_state.connections) == 1

    def _answer(self, held: Held) -> None:
        answerer = self._conduct.answerer
        deliver = partial(self._deliver, held)
        if not answerer.answer_soon(held.call, held.body(), deliver, alone=self._alone):
            self._release(held)

    def _deliver(self, held: Held, reply: Reply | Exception) -> None:
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

    def _release(self, held: Held) -> None:
        """Let the application answer: it takes its time, or says what is wrong."""
        self._held = None
        self._share.release()
        held.cycle.body = bytearray(held.body())
        held.cycle.message_event.set()
        super()._start_asgi_task(held.cycle, self.app)

    def _write(self, reply: Reply, request_id: str, keep_alive: bool) -> None:
        self._share.release()
        preamble = self._conduct.preamble(self.server_state)
        self.transport.write(preamble + header_of(reply, request_id, keep_alive) + reply.body)
        if not keep_alive:
            self.transport.close()

    def _check_sender(self, silent_s: float) -> None:
        if self._quick is None:
            super()._check_sender(silent_s)
        elif not self._quick.due and silent_s > self._limits.body_idle_s:
            self._end("timeout: the body was not complete")
