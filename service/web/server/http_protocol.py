"""The server's HTTP protocol class: predictions are answered when their last byte has arrived.

uvicorn makes a scope, a cycle and a task for every request. Here, what its parser reports of a
message is kept until the message is complete, and a prediction is then answered directly. What is
kept of anything else (another request, a fault, half a header) is passed on to uvicorn, as if the
parser reported it only now. So all bytes are parsed once, by one parser, and whatever is not
answered here takes the way that it would have taken anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from service.web.access.fast_path import Reply
from service.web.bodies.body_budget import DETAIL
from service.web.server.header_rules import HEADER_BYTES, Refusal, size_of
from service.web.server.lingering_close import LingeringClose
from service.web.server.messages import MessageProtocol
from service.web.server.observability import request_id_of
from service.web.server.server_context import Prediction, ServerContext


class Kept:
    """The message that began last, if uvicorn does not know of it; `url` and `headers` are those
    of the protocol. Once complete, it is being answered."""

    __slots__ = ("chunks", "complete", "prediction", "received", "started", "task")

    def __init__(self) -> None:
        self.started = perf_counter()
        self.prediction: Prediction | None = None
        """None until the header is complete."""
        self.chunks: list[bytes] = []
        self.received = 0
        """Bytes of the chunks."""
        self.complete = False
        self.task: asyncio.Task[None] | None = None


class ServiceProtocol(MessageProtocol):
    """One connection."""

    def __init__(self, context: ServerContext, *args: Any, **options: Any) -> None:
        super().__init__(context.limits, *args, **options)
        self._context = context
        self._share = context.limits.bodies.share()
        self._kept: Kept | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _await_more(self) -> None:
        kept = self._kept
        if kept is None:
            return
        if kept.prediction is None or not (self._share.n_bytes or self._takes(kept.prediction)):
            self._pass_on()
        elif not self._share.reserve(kept.received):
            self._forget()
            self._refuse(503, "overloaded", DETAIL)
            LingeringClose(self, self.transport)

    def _takes(self, prediction: Prediction) -> bool:
        """Whether the body that has begun is worth waiting for."""
        answerer = self._context.answerer
        length = int(dict(self.headers).get(b"content-length", 0))
        return 0 < length <= answerer.body_limit_bytes and answerer.knows(prediction.call)

    # What the parser reports

    def on_message_begin(self) -> None:
        if self._kept is not None:
            self._pass_on()  # its client has not waited for the reply
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            super().on_message_begin()
        else:
            self.url, self.headers = b"", []
            self._in_header = self._in_message = True
            self._progress_at = self.loop.time()
            self._kept = Kept()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._kept is None:
            super().on_header(name, value)
        else:
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        kept = self._kept
        if kept is None:
            super().on_headers_complete()
            return
        self._in_header = self._fields_only = False
        kept.prediction = self._prediction()
        if kept.prediction is None:
            self._pass_on()
            super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        kept = self._kept
        if kept is None:
            super().on_body(body)
        else:
            self._count_bytes(len(body))
            kept.chunks.append(body)
            kept.received += len(body)

    def on_message_complete(self) -> None:
        kept = self._kept
        if kept is None:
            super().on_message_complete()
        else:
            self._in_message = False
            kept.complete = True
            self._answer(kept)

    # What is reported to uvicorn, and when

    def _prediction(self) -> Prediction | None:
        """What the answerer may be able to answer; the header is complete."""
        parser = self.parser
        if (
            parser.get_method() != b"POST"
            or parser.get_http_version() != "1.1"
            or not parser.should_keep_alive()
            or self.flow.write_paused
            or (self._packet_size > HEADER_BYTES < size_of(self.url, self.headers))
        ):
            return None
        prediction = self._context.prediction(self.url, self.headers)
        within = prediction is None or prediction.caller.is_within_rate()
        return prediction if within else None

    def _pass_on(self) -> None:
        """Report to uvicorn what is kept. The parser still knows how that message began, even when
        it has just begun with the next one."""
        kept = self._kept
        if kept is None:
            return
        url, headers = self.url, self.headers
        self._forget()
        super().on_message_begin()
        super().on_url(url)
        for name, value in headers:
            super().on_header(name, value)
        if kept.prediction is not None:
            super().on_headers_complete()
            for chunk in kept.chunks:
                super().on_body(chunk)
            if kept.complete:
                super().on_message_complete()

    def _forget(self) -> None:
        kept, self._kept = self._kept, None
        self._share.release()
        if kept is not None and kept.task is not None:
            kept.task.cancel()

    def _end_with(self, refusal: Refusal) -> None:
        self._pass_on()
        super()._end_with(refusal)

    # Answers

    def _answer(self, kept: Kept) -> None:
        assert kept.prediction is not None
        answerer, call = self._context.answerer, kept.prediction.call
        if not 0 < kept.received <= answerer.body_limit_bytes:
            self._pass_on()
            return
        if len(kept.chunks) > 1:
            kept.chunks = [b"".join(kept.chunks)]
        [body] = kept.chunks
        deliver = partial(self._deliver, kept)
        # Whether no other connection can bring a request in this turn of the loop.
        alone = len(self.server_state.connections) == 1
        if not answerer.answer_inline(call, body, deliver, alone=alone):
            kept.task = self.loop.create_task(self._answer_later(call, body, deliver))

    async def _answer_later(
        self, call: Any, body: bytes, deliver: Callable[[Reply | Exception], None]
    ) -> None:
        try:
            reply = await self._context.answerer.answer(call, body)
        except Exception as error:
            deliver(error)
        else:
            deliver(reply)

    def _deliver(self, kept: Kept, reply: Reply | Exception) -> None:
        if kept is not self._kept or self.transport.is_closing():
            return  # it was passed on, or the connection ends
        kept.task = None
        prediction = kept.prediction
        if isinstance(reply, Exception) or self.flow.write_paused or prediction is None:
            self._pass_on()
            return
        self._kept = None
        self._share.release()
        last, state = self._limits.ending, self.server_state
        self.transport.write(self._context.reply(state, reply, request_id_of(self.headers), last))
        if last:
            self.transport.close()
        state.total_requests += 1
        prediction.caller.count()
        prediction.tally.count(perf_counter() - kept.started)

    # Timeouts

    def _close_unused(self) -> None:
        if self._kept is None:
            super()._close_unused()

    def _check_sender(self, silent_s: float) -> None:
        if self._kept is None:
            super()._check_sender(silent_s)
        elif not self._kept.complete and silent_s > self._limits.body_idle_s:
            self._end("timeout: the body was not complete")
