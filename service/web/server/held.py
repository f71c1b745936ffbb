"""Requests that are answered without a task of their own, and the bytes of their replies."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from service.web.access.fast_path import Headers, Reply
from service.web.http.callers import Caller


@dataclass(eq=False)
class Held:
    """A request for the answerer, of which the body is still coming or the answer is due."""

    cycle: RequestResponseCycle
    call: Any
    caller: Caller
    headers: Headers
    parts: list[bytes] = field(default_factory=list)
    received: int = 0
    started: float = field(default_factory=time.perf_counter)

    def body(self) -> bytes:
        """What has come of the body."""
        if len(self.parts) > 1:
            self.parts = [b"".join(self.parts)]
        return self.parts[0]


def usual_length(headers: Headers) -> int:
    """What Content-Length says; 0 if the length or the digest of the body is given otherwise."""
    length = 0
    for name, value in headers:
        if name == b"content-length":
            length = int(value)
        elif name in (b"transfer-encoding", b"content-digest"):
            return 0
    return length


def header_of(reply: Reply, request_id: str, keep_alive: bool) -> bytes:
    """What follows the lines that all replies begin with, up to the body."""
    more = "" if keep_alive else "connection: close\r\n"
    for title, content in reply.headers:
        more += f"{title}: {content}\r\n"
    return (
        f"{request_id}\r\ncontent-type: {reply.media_type}\r\n"
        f"content-length: {len(reply.body)}\r\n{more}\r\n"
    ).encode("latin-1")
