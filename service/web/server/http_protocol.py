"""The server's HTTP protocol class: predictions whose header was parsed before skip the parser.

If the same header comes again, the request is not parsed, and a large body is received into one
buffer: uvicorn copies it several times. In every other case, and after an error, the parser gets
the bytes as they were received.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from service.web.access.fast_path import Reply
from service.web.server.body_receiver import BodyReceiver
from service.web.server.cached_request import CachedRequest
from service.web.server.header_cache import CacheEntry, RawHeader
from service.web.server.inline_replies import InlineReplyProtocol
from service.web.server.observability import new_request_id
from service.web.server.parsed_request import ParsedRequest

LARGE_BYTES = 128 * 1024
"""A body of this size gets a buffer of its own, and a task without ASGI."""


class ServiceProtocol(InlineReplyProtocol):
    """One connection."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._cached: CachedRequest | None = None
        self._header: RawHeader | None = None
        """Of the message that the parser reads; added to the cache if it is fit for it."""

    def connection_lost(self, exc: Exception | None) -> None:
        if self._cached is not None and self._cached.task is not None:
            self._cached.task.cancel()
        self._cached = None  # now, not when the connection is collected
        super().connection_lost(exc)

    # Receiving

    def data_received(self, data: bytes) -> None:
        cached = self._cached
        if cached is not None:
            self._count_bytes(len(data))
            if cached.complete:
                cached.keep(data)
                self.flow.pause_reading()
            else:
                cached.add(data)
                self._proceed(cached)
            return
        self._header = None
        if not self._in_message and (self.cycle is None or self.cycle.response_complete):
            found = self._context.header_cache.find(data)
            if found is not None:
                header, entry = found
                limit_bytes = self._context.answerer.body_limit_bytes
                if (
                    entry is not None
                    and header.end < header.size <= header.end + limit_bytes
                    # The parser separates several requests in one packet.
                    and len(data) <= header.size
                    and not self.flow.write_paused
                    and entry.caller.is_within_rate()
                ):
                    self._start_cached(header, entry, data)
                    return
                self._header = header
        super().data_received(data)

    def _start_cached(self, header: RawHeader, entry: CacheEntry, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._in_header = False
        self._progress_at = self.loop.time()
        call, caller = entry
        cached = CachedRequest(header, call, caller, time.perf_counter(), [data], len(data))
        self._cached = cached
        self._proceed(cached)

    def received(self, nbytes: int) -> None:
        """The buffer of a large body has received bytes."""
        self._count_bytes(nbytes)
        cached = self._cached
        if cached is not None and not cached.missing:
            self._receive_by(self)
            self._proceed(cached)

    def _proceed(self, cached: CachedRequest) -> None:
        if cached.missing:
            self._await_more(cached)
            return
        cached.complete = True
        body = cached.body()
        answerer = self._context.answerer
        if answerer.answer_inline(cached.call, body, self._deliver_cached, alone=self._alone):
            return
        if len(body) >= LARGE_BYTES:
            cached.task = self.loop.create_task(self._answer_in_task(cached, body))
        else:
            self._parse_after_all(cached)

    def _await_more(self, cached: CachedRequest) -> None:
        if not self._share.n_bytes and not self._context.answerer.knows(cached.call):
            self._parse_after_all(cached)
            return
        if cached.missing >= LARGE_BYTES:
            receiver = BodyReceiver(self, cached, self._share)
            if receiver.has_room():
                self._receive_by(receiver)
                return
        elif self._share.reserve(cached.received):
            return
        self.refuse_body()

    def refuse_body(self, url: bytes | None = None) -> None:
        """Reply 503: there is no memory for the rest of the body."""
        cached, self._cached = self._cached, None
        super().refuse_body(url if cached is None else cached.url)

    def _receive_by(self, protocol: asyncio.BaseProtocol) -> None:
        # uvloop checks the type of the protocol when it starts to read.
        self.transport.pause_reading()
        self.transport.set_protocol(protocol)
        self.transport.resume_reading()

    # Answers

    async def _answer_in_task(self, cached: CachedRequest, body: bytes) -> None:
        try:
            reply = await self._context.answerer.answer(cached.call, body)
        except Exception as error:
            self._deliver_cached(error)
        else:
            self._deliver_cached(reply)

    def _deliver_cached(self, reply: Reply | Exception) -> None:
        cached = self._cached
        if cached is None or self.transport.is_closing():
            self._cached = None
        elif isinstance(reply, Exception) or self.flow.write_paused:
            self._parse_after_all(cached)
        else:
            self._cached = None
            self._write(reply, new_request_id(), not self._limits.ending)
            self._record(cached.caller, cached.call, cached.started)
            self.server_state.total_requests += 1
            self._continue_after(cached)

    def _parse_after_all(self, cached: CachedRequest) -> None:
        """Give the request to the parser. Nothing was done so far that it would need to know."""
        self._cached = None
        self._share.release()
        super().data_received(cached.whole())
        self._continue_after(cached)

    def _continue_after(self, cached: CachedRequest) -> None:
        if cached.next is not None:
            self.flow.resume_reading()
        for data in cached.next or ():
            self.data_received(data)

    # What the parser reports

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._header = None  # later bytes belong to another message

    def _for_answerer(self, cycle: RequestResponseCycle) -> ParsedRequest | None:
        parsed = super()._for_answerer(cycle)
        if (
            parsed is not None
            and self._header is not None
            and cycle.keep_alive
            and all(name != b"x-request-id" for name, _ in parsed.headers)
        ):
            self._context.header_cache.add(self._header, CacheEntry(parsed.call, parsed.caller))
        return parsed

    # Timeouts

    def _close_unused(self) -> None:
        if self._cached is None:
            super()._close_unused()

    def _check_sender(self, silent_s: float) -> None:
        if self._cached is None:
            super()._check_sender(silent_s)
        elif not self._cached.complete and silent_s > self._limits.body_idle_s:
            self._end("timeout: the body was not complete")
