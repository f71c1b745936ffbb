"""Predictions that are answered in the same turn of the event loop, without a task and ASGI.

uvicorn starts a task for every request. Here, a request for `answerer` waits until its body is
complete, and is then answered directly. In every other case, and after an error, it starts as
uvicorn would have started it.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from service.errors import ServiceError
from service.web.access.fast_path import Reply
from service.web.bodies.body_budget import DETAIL
from service.web.http.callers import Caller
from service.web.server.lingering_close import LingeringClose
from service.web.server.messages import MessageProtocol
from service.web.server.observability import request_id_of
from service.web.server.parsed_request import ParsedRequest, header_of, plain_length
from service.web.server.server_context import ServerContext


class InlineReplyProtocol(MessageProtocol):
    """One connection."""

    def __init__(self, context: ServerContext, *args: Any, **options: Any) -> None:
        super().__init__(context.limits, *args, **options)
        self._context = context
        self._parsed: ParsedRequest | None = None
        self._share = context.limits.bodies.share()

    def connection_lost(self, exc: Exception | None) -> None:
        self._parsed = None  # now, not when the connection is collected
        self._share.release()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        parsed = self._parsed
        if parsed is None or not parsed.cycle.more_body:
            return
        if not self._share.reserve(parsed.received):
            self.refuse_body()

    def refuse_body(self, url: bytes | None = None) -> None:
        """Reply 503: there is no memory for the rest of the body."""
        self._parsed = None
        self._share.release()
        self._refuse(503, "overloaded", DETAIL, url)
        LingeringClose(self, self.transport)

    # What the parser reports

    def on_body(self, body: bytes) -> None:
        parsed = self._parsed
        if parsed is None or parsed.cycle is not self.cycle:
            super().on_body(body)
        else:
            self._count_bytes(len(body))
            parsed.chunks.append(body)
            parsed.received += len(body)

    def on_message_complete(self) -> None:
        parsed = self._parsed
        if parsed is None or parsed.cycle is not self.cycle:
            super().on_message_complete()
        else:
            self._in_message = False
            parsed.cycle.more_body = False
            self._answer(parsed)

    # What uvicorn would start

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if cycle is self.cycle and app is self.app and cycle.more_body:
            self._parsed = self._for_answerer(cycle)
            if self._parsed is not None:
                return
        super()._start_asgi_task(cycle, app)

    def _for_answerer(self, cycle: RequestResponseCycle) -> ParsedRequest | None:
        """The request, if the answerer may be able to answer it."""
        scope = cycle.scope
        if scope["method"] != "POST" or scope["query_string"] or cycle.waiting_for_100_continue:
            return None
        if self.parser.should_upgrade():  # its body is read by another parser
            return None
        if not 0 < plain_length(self.headers) <= self._context.answerer.body_limit_bytes:
            return None
        try:
            call = self._context.answerer.call(scope["raw_path"] or b"", self.headers)
        except ServiceError:
            return None  # the application reports it
        if call is None or not self._context.answerer.knows(call):
            return None
        caller = self._context.authenticator.authenticate_without_address(self.headers)
        if caller is None or not caller.has_scope("predict") or not caller.is_within_rate():
            return None
        return ParsedRequest(cycle, call, caller, self.headers)

    # Answers

    @property
    def _alone(self) -> bool:
        """Whether no other connection can bring a request in this turn of the loop."""
        return len(self.server_state.connections) == 1

    def _answer(self, parsed: ParsedRequest) -> None:
        answerer = self._context.answerer
        deliver = partial(self._deliver, parsed)
        if not answerer.answer_inline(parsed.call, parsed.body(), deliver, alone=self._alone):
            self._start_application(parsed)

    def _deliver(self, parsed: ParsedRequest, reply: Reply | Exception) -> None:
        cycle = parsed.cycle
        if cycle.disconnected:
            self._parsed = None
        elif isinstance(reply, Exception) or self.flow.write_paused:
            self._start_application(parsed)
        else:
            self._parsed = None
            cycle.response_started = cycle.response_complete = True
            self._write(reply, request_id_of(parsed.headers), cycle.keep_alive)
            self._record(parsed.caller, parsed.call, parsed.started)
            cycle.on_response()

    def _start_application(self, parsed: ParsedRequest) -> None:
        """The answer takes longer, or is an error."""
        self._parsed = None
        self._share.release()
        parsed.cycle.body = bytearray(parsed.body())
        parsed.cycle.message_event.set()
        super()._start_asgi_task(parsed.cycle, self.app)

    def _record(self, caller: Caller, call: Any, started: float) -> None:
        caller.count()
        self._context.metrics.record("POST", call.route, 200, time.perf_counter() - started)

    def _write(self, reply: Reply, request_id: str, keep_alive: bool) -> None:
        self._share.release()
        preamble = self._context.preamble(self.server_state)
        self.transport.write(preamble + header_of(reply, request_id, keep_alive) + reply.body)
        if not keep_alive:
            self.transport.close()
