"""Heads of requests that were parsed before: the same bytes need not be parsed again."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

from service.web.bodies.body_budget import Share
from service.web.http.callers import Caller

KNOWN_HEADS = 4096
LONGEST_HEAD = 2048
LEAST_BUFFER = 256 * 1024
GROWTH = 4
"""A buffer is at most so many times as large as what has come."""

_LENGTH = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ([0-9]{1,9})\r\n")


class Head(NamedTuple):
    """How a chunk of bytes begins."""

    key: bytes
    """The head without the number of its Content-Length, which differs from body to body."""
    end: int
    """Bytes of the head."""
    size: int
    """Bytes of the whole request."""


class Learnt(NamedTuple):
    """What a head asks for, and who asks."""

    call: Any
    caller: Caller


class KnownHeads:
    """What heads ask for; the one learnt longest ago is forgotten first."""

    def __init__(self) -> None:
        self._learnt: OrderedDict[bytes, Learnt] = OrderedDict()

    def find(self, data: bytes) -> tuple[Head, Learnt | None] | None:
        """The head at the beginning of `data`, and what was learnt of it.

        None where the head is not complete, too long, or gives no plain Content-Length.
        """
        end = data.find(b"\r\n\r\n", 0, LONGEST_HEAD) + 4
        if end < 5:
            return None
        length = _LENGTH.search(data, 0, end)
        if length is None:
            return None
        begins, ends = length.span(1)
        key = data[:begins] + data[ends:end]
        return Head(key, end, end + int(length[1])), self._learnt.get(key)

    def learn(self, head: Head, learnt: Learnt) -> None:
        """The parser found no fault in this head. With another number as its Content-Length it
        would have been read alike."""
        self._learnt[head.key] = learnt
        if len(self._learnt) > KNOWN_HEADS:
            self._learnt.popitem(last=False)

    def clear(self) -> None:
        """Callers may be others by now."""
        self._learnt.clear()


@dataclass(slots=True, eq=False)
class QuickRequest:
    """A request with a known head: its body is coming, or its answer is due."""

    head: Head
    call: Any
    caller: Caller
    started: float
    parts: list[bytes]
    """What has come, the head included; with a buffer the head alone."""
    received: int
    buffer: bytearray | None = None
    """Holds a large body, as far as it has come."""
    due: bool = False
    """All of it has come."""
    next: list[bytes] | None = None
    """What came after it."""
    task: asyncio.Task[None] | None = None

    @property
    def url(self) -> bytes:
        return self.parts[0].split(b" ", 2)[1]

    @property
    def missing(self) -> int:
        return self.head.size - self.received

    def add(self, data: bytes) -> None:
        """More bytes; those beyond its end are kept for later."""
        if len(data) > self.missing:
            self.keep(data[self.missing :])
            data = data[: self.missing]
        self.parts.append(data)
        self.received += len(data)

    def keep(self, data: bytes) -> None:
        """Bytes of what comes after it."""
        self.next = [data] if self.next is None else [*self.next, data]

    def whole(self) -> bytes:
        """The request as it came."""
        if self.buffer is not None:
            return self.parts[0] + self.buffer
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)

    def body(self) -> bytes:
        if self.buffer is not None:
            return cast(bytes, self.buffer)  # whoever reads it may treat it as such
        return self.whole()[self.head.end :]


class Connection(Protocol):
    """What a body is received for."""

    def received(self, nbytes: int) -> None: ...
    def turn_away(self) -> None: ...
    def eof_received(self) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class BodyReceiver(asyncio.BufferedProtocol):
    """Receives the rest of a large request straight into its buffer, which grows with it: what is
    announced but never sent takes no memory."""

    def __init__(self, connection: Connection, request: QuickRequest, share: Share) -> None:
        self._connection = connection
        self._request = request
        self._share = share
        whole, end = request.whole(), request.head.end
        self._buffer = request.buffer = bytearray(whole[end:])
        request.parts = [whole[:end]]
        self._view = memoryview(self._buffer)
        self._room = 0

    def has_room(self) -> bool:
        """Whether more bytes may be received; the buffer grows to hold them."""
        size, filled = self._request.head.size - self._request.head.end, len(self._buffer)
        self._room = min(size, max(GROWTH * filled, LEAST_BUFFER))
        return self._share.cover(self._room)

    def get_buffer(self, sizehint: int) -> memoryview:
        if len(self._buffer) < self._room:
            self._view.release()
            self._buffer.extend(bytes(self._room - len(self._buffer)))
            self._view = memoryview(self._buffer)
        return self._view[self._request.received - self._request.head.end :]

    def buffer_updated(self, nbytes: int) -> None:
        request = self._request
        request.received += nbytes
        full = request.received - request.head.end == self._room
        if full and request.missing and not self.has_room():
            self._connection.turn_away()
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
