"""The server's HTTP protocol class: predictions are answered when their last byte has arrived.

uvicorn makes a scope, a cycle and a task for every request. Here, what its parser reports of a
message is kept until the message is complete, and a prediction is then answered directly. What is
kept of anything else (another request, a fault, half a header) is passed on to uvicorn, as if the
parser reported it only now. So all bytes are parsed once, by one parser, and whatever is not
answered here takes the way that it would have taken anyway.
"""

from __future__ import annotations

import asyncio
from functools import partial
from time import perf_counter
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from service.common.answerer import Reply
from service.web.bodies.body_budget import DETAIL
from service.web.server.header_rules import (
    SMALL_BYTES,
    Refusal,
    memory_of,
    size_of,
)
from service.web.server.messages import MessageProtocol
from service.web.server.observability import request_id_of
from service.web.server.server_context import Prediction, ServerContext

LARGE_BYTES = 8 * 1024 * 1024
"""The application receives a larger body: in one piece, and it reads a faulty one only once."""
LINGER_S = 2.0
_ignored = memoryview(bytearray(64 * 1024))


class ServiceProtocol(MessageProtocol):
    """One connection."""

    def __init__(self, context: ServerContext, *args: Any, **options: Any) -> None:
        super().__init__(context.limits, *args, **options)
        self._context = context
        self._share = context.limits.bodies.share()
        self._chunks: list[bytes] | None = None
        """What came of the body of the message that began last; None if uvicorn knows of it. The
        rest of what is kept of it is `url`, `headers` and these: """
        self._started = 0.0
        self._prediction: Prediction | None = None
        """None until the header is complete."""
        self._received = 0
        """Bytes of the chunks."""
        self._complete = False
        """It is being answered."""
        self._task: asyncio.Task[None] | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def _await_more(self) -> None:
        if self._chunks is None:
            return
        prediction = self._prediction
        if prediction is None or not (self._share.n_bytes or self._takes(prediction)):
            self._pass_on()
        elif self._share.reserve(self._received):
            self._count_bytes(self._packet_size)
        else:
            self._forget()
            self._refuse(503, "overloaded", DETAIL)
            LingeringClose(self, self.transport)

    def _takes(self, prediction: Prediction) -> bool:
        """Whether the body that has begun is worth waiting for."""
        answerer = self._context.answerer
        length = int(dict(self.headers).get(b"content-length", 0))
        most = min(LARGE_BYTES, answerer.body_limit_bytes)
        return 0 < length <= most and answerer.knows(prediction.call)

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
            self._prediction, self._received, self._complete = None, 0, False
            self._progress_at = self.loop.time()
            self._started = perf_counter()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._chunks is None:
            super().on_header(name, value)
        else:
            self.headers.append((name.lower(), value))

    def _header_complete(self) -> None:
        """Keep what the answerer may be able to answer."""
        if self._chunks is None:
            super()._header_complete()
            return
        self._in_header = False
        parser = self.parser
        if (
            parser.get_method() == b"POST"
            and parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
            and not self.flow.write_paused
            and (
                memory_of(self._packet_size, self.headers) <= SMALL_BYTES
                or memory_of(size_of(self.url, self.headers), self.headers) <= SMALL_BYTES
            )  # others have to be counted
        ):
            prediction = self._context.prediction(self.url, self.headers)
            if prediction is not None and ((rate := prediction.rate) is None or not rate.wait_s()):
                self._prediction = prediction
                return
        self._pass_on()
        super()._header_complete()

    def on_body(self, body: bytes) -> None:
        if self._chunks is None:
            super().on_body(body)
        else:
            self._chunks.append(body)
            self._received += len(body)

    def on_message_complete(self) -> None:
        if self._chunks is None or self._prediction is None:
            super().on_message_complete()
        else:
            self._in_message, self._complete = False, True
            answerer, chunks = self._context.answerer, self._chunks
            if not 0 < self._received <= answerer.body_limit_bytes:
                self._pass_on()
                return
            if len(chunks) > 1:
                chunks[:] = [b"".join(chunks)]
            deliver = partial(self._deliver, chunks)
            alone = len(self.connections) == 1  # no other can bring a request in this turn
            self._task = answerer.submit(self._prediction.call, chunks[0], deliver, alone=alone)

    # What is reported to uvicorn, and when

    def _pass_on(self) -> None:
        """Report to uvicorn what is kept. The parser still knows how that message began, even when
        it has just begun with the next one."""
        chunks, url, headers = self._chunks, self.url, self.headers
        if chunks is None:
            return
        self._forget()
        super().on_message_begin()
        super().on_url(url)
        for name, value in headers:
            super().on_header(name, value)
        if self._prediction is not None:
            super()._header_complete()
            for chunk in chunks:
                super().on_body(chunk)
            if self._complete:
                super().on_message_complete()

    def _forget(self) -> None:
        self._chunks = None
        self._share.release()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def _end_with(self, refusal: Refusal) -> None:
        self._pass_on()
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
        self._chunks = None
        if self._share.n_bytes:
            self._share.release()
        last, state = self._limits.ending, self.server_state
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
