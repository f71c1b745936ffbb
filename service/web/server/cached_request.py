"""A request whose header is in the cache: uvicorn's parser does not see it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, cast

from service.web.http.callers import Caller
from service.web.server.header_cache import RawHeader


@dataclass(slots=True, eq=False)
class CachedRequest:
    """Its body is being received, or it is being answered."""

    header: RawHeader
    call: Any
    caller: Caller
    started: float
    chunks: list[bytes]
    """The received bytes, the header included. If there is a buffer, the header only."""
    received: int
    buffer: bytearray | None = None
    """The received part of a large body."""
    complete: bool = False
    """The whole request was received."""
    next: list[bytes] | None = None
    """Bytes that were received after the end of this request."""
    task: asyncio.Task[None] | None = None

    @property
    def url(self) -> bytes:
        return self.chunks[0].split(b" ", 2)[1]

    @property
    def missing(self) -> int:
        return self.header.size - self.received

    def add(self, data: bytes) -> None:
        """Received bytes; those after the end of the request are kept for later."""
        if len(data) > self.missing:
            self.keep(data[self.missing :])
            data = data[: self.missing]
        self.chunks.append(data)
        self.received += len(data)

    def keep(self, data: bytes) -> None:
        """Bytes after the end of the request."""
        self.next = [data] if self.next is None else [*self.next, data]

    def whole(self) -> bytes:
        """The request as received."""
        if self.buffer is not None:
            return self.chunks[0] + self.buffer
        return self.chunks[0] if len(self.chunks) == 1 else b"".join(self.chunks)

    def body(self) -> bytes:
        if self.buffer is not None:
            return cast(bytes, self.buffer)  # readers use only what bytes offer, too
        return self.whole()[self.header.end :]
