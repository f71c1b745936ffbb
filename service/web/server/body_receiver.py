"""Receives a large body into one buffer, which saves uvicorn's copies."""

from __future__ import annotations

import asyncio
from typing import Protocol

from service.web.bodies.body_budget import Share
from service.web.server.cached_request import CachedRequest

MIN_BUFFER_BYTES = 256 * 1024
GROWTH = 4
"""Largest ratio of a buffer's size to the received bytes."""


class Connection(Protocol):
    """The connection that the body belongs to."""

    def received(self, nbytes: int) -> None: ...
    def refuse_body(self) -> None: ...
    def eof_received(self) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class BodyReceiver(asyncio.BufferedProtocol):
    """Receives the rest of a request. The buffer grows with the received bytes, so a body that is
    announced but never sent takes no memory."""

    def __init__(self, connection: Connection, request: CachedRequest, share: Share) -> None:
        self._connection = connection
        self._request = request
        self._share = share
        whole, end = request.whole(), request.header.end
        self._buffer = request.buffer = bytearray(whole[end:])
        request.chunks = [whole[:end]]
        self._view = memoryview(self._buffer)
        self._room = 0

    def has_room(self) -> bool:
        """Whether more bytes can be received; if so, the buffer may grow."""
        size, filled = self._request.header.size - self._request.header.end, len(self._buffer)
        self._room = min(size, max(GROWTH * filled, MIN_BUFFER_BYTES))
        return self._share.reserve(self._room)

    def get_buffer(self, sizehint: int) -> memoryview:
        if len(self._buffer) < self._room:
            self._view.release()
            self._buffer.extend(bytes(self._room - len(self._buffer)))
            self._view = memoryview(self._buffer)
        return self._view[self._request.received - self._request.header.end :]

    def buffer_updated(self, nbytes: int) -> None:
        request = self._request
        request.received += nbytes
        full = request.received - request.header.end == self._room
        if full and request.missing and not self.has_room():
            self._connection.refuse_body()
            return
        if not request.missing:
            self._view.release()
        self._connection.received(nbytes)

    def eof_received(self) -> None:
        self._connection.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()
