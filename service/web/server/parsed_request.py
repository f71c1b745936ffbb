"""A request that is answered without a task of its own, and the header of its reply."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from service.web.access.fast_path import Reply
from service.web.http.callers import Caller
from service.web.http.headers import RawHeaders


@dataclass(eq=False)
class ParsedRequest:
    """Its header was parsed by uvicorn. Its body is being received, or it is being answered."""

    cycle: RequestResponseCycle
    call: Any
    caller: Caller
    headers: RawHeaders
    chunks: list[bytes] = field(default_factory=list)
    received: int = 0
    started: float = field(default_factory=time.perf_counter)

    def body(self) -> bytes:
        """The received part of the body."""
        if len(self.chunks) > 1:
            self.chunks = [b"".join(self.chunks)]
        return self.chunks[0]


def plain_length(headers: RawHeaders) -> int:
    """Content-Length; 0 if there is none, or if there is Transfer-Encoding or Content-Digest."""
    length = 0
    for name, value in headers:
        if name == b"content-length":
            length = int(value)
        elif name in (b"transfer-encoding", b"content-digest"):
            return 0
    return length


def header_of(reply: Reply, request_id: str, keep_alive: bool) -> bytes:
    """The header of a reply after the lines that all replies begin with."""
    more = "" if keep_alive else "connection: close\r\n"
    for title, content in reply.headers:
        more += f"{title}: {content}\r\n"
    return (
        f"{request_id}\r\ncontent-type: {reply.media_type}\r\n"
        f"content-length: {len(reply.body)}\r\n{more}\r\n"
    ).encode("latin-1")
