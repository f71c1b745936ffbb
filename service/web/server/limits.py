"""Limits of connections, and what a request's header may be.

A header is checked before anything else is done with it. After a reply with an error from here the
connection is closed.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from httptools import HttpParserError
from uvicorn.server import ServerState

from service.common.answerer import RawHeaders
from service.common.malloc import return_free_memory
from service.common.shared import Count
from service.errors import ServiceError
from service.web.bodies.receiving import BodyBudget
from service.web.server.observability import Metrics

MANY = 1000
"""When half of more connections than this are gone, free memory is returned to the system."""
HEADERS_BYTES = 16 * 1024**2
"""Memory for requests besides their bodies."""
HEADER_BYTES = 64 * 1024
"""The parser keeps a header until it is complete, and copies a long line repeatedly."""
HEADER_LINES = 200
LINE_BYTES = 160
"""Of Python's objects for one line, in addition to its own bytes."""
SMALL_BYTES = 6 * 1024
"""In memory. Headers of browsers, 20 lines with a thousand bytes, take less."""
VERSIONS = ("1.1", "1.0")

_ABSOLUTE = re.compile(rb"https?://([^/?#@]+)(/[^#]*)?(\?[^#]*)?(?:#.*)?", re.IGNORECASE)


@dataclass
class ConnectionLimits:
    """Limits and state of all connections of one server."""

    header_s: float
    body_idle_s: float
    most: int
    """Open at once, in all processes."""
    metrics: Metrics
    """Counts refused connections."""
    bodies: BodyBudget
    opened: Count
    """Connections that are open, in all processes."""
    headers: BodyBudget = field(default_factory=partial(BodyBudget, HEADERS_BYTES), init=False)
    """Of requests that are half sent or not answered yet."""
    ending: bool = field(default=False, init=False)
    """Each reply is the last of its connection."""
    _watch: asyncio.TimerHandle | None = field(default=None, init=False)
    _peak: int = field(default=0, init=False)
    """Most connections since memory was last returned."""

    def watch(self, state: ServerState, loop: asyncio.AbstractEventLoop) -> None:
        """Check all connections regularly, with one timer, as long as there are any."""
        if self._watch is None:
            pause = min(1.0, self.header_s / 4, self.body_idle_s / 4)
            self._watch = loop.call_later(pause, self._check, state, loop)

    def _check(self, state: ServerState, loop: asyncio.AbstractEventLoop) -> None:
        self._watch = None
        now = loop.time()
        connections: set[Any] = state.connections  # all of them `MessageProtocol`
        for connection in list(connections):
            connection.check_time(now)
        n_open = len(state.connections)
        self._peak = max(self._peak, n_open)
        if self._peak > max(MANY, 2 * n_open):
            self._peak = n_open
            loop.run_in_executor(None, return_free_memory)
        if n_open:
            self.watch(state, loop)


def too_large(what: str) -> ServiceError:
    return ServiceError("header-too-large", f"{what} more than {HEADER_BYTES} bytes; send fewer")


def too_many_lines() -> ServiceError:
    detail = f"the header has more than {HEADER_LINES} lines; send fewer"
    return ServiceError("header-too-large", detail)


def no_memory() -> ServiceError:
    return ServiceError("overloaded", "the memory for requests is full; retry shortly")


def check_header(version: str, url: bytes, headers: RawHeaders) -> int:
    """Its size in bytes. Raises ServiceError."""
    if version not in VERSIONS:
        raise _wrong_version(version)
    size, hosts, codings = size_of(url, headers), 0, 0
    for name, value in headers:
        if name == b"host":
            hosts += 1
        elif name == b"transfer-encoding":
            codings += 1
            if value.strip().lower() != b"chunked" or codings > 1:
                raise _transfer_encoding()
        elif name == b"te" and b"chunked" in value.lower():
            raise _malformed("TE must not list `chunked`, which every client reads; leave it out")
    if size > HEADER_BYTES:
        raise too_large("the header has")
    if len(headers) > HEADER_LINES:
        raise too_many_lines()
    if hosts > 1 or (not hosts and version == "1.1"):
        raise _malformed(f"the request has {hosts or 'no'} Host headers; send one")
    return size


def wrong_request_line(version: str) -> ServiceError:
    if version not in VERSIONS:  # none at all, for example
        return _wrong_version(version)
    return _malformed("the request line must have single spaces: `GET /livez HTTP/1.1`")


def origin_form(url: bytes, headers: RawHeaders) -> bytes:
    """The target as a path. An absolute one, which clients send to proxies, has its host in front,
    and this host counts instead of the one in the header (RFC 9112, section 3.2.2): it replaces
    it. Raises ServiceError."""
    if url.startswith(b"/") or url == b"*":
        return url
    match = _ABSOLUTE.fullmatch(url)
    if match is None:
        raise _malformed("the target must be a path or an address with http:// and a host")
    host, path, query = match.groups(b"")
    headers[:] = [header for header in headers if header[0] != b"host"]
    headers.append((b"host", host))
    return (path or b"/") + query


def memory_of(n_bytes: int, headers: RawHeaders) -> int:
    """Estimated memory of a header with `n_bytes`."""
    return n_bytes + LINE_BYTES * len(headers)


def size_of(url: bytes, headers: RawHeaders) -> int:
    """Bytes of a header."""
    return len(url) + sum(field_bytes(name, value) for name, value in headers)


def field_bytes(name: bytes, value: bytes) -> int:
    """Size of one line, with colon, space and line end."""
    return len(name) + len(value) + 4


def has_body(headers: RawHeaders) -> bool:
    """Whether a body is announced."""
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0"))
        for name, value in headers
    )


def refusal_of(error: HttpParserError) -> ServiceError:
    """Why the parser stopped."""
    if isinstance(error.__context__, ServiceError):
        return error.__context__
    reason = str(error)
    if "present with" in reason or "Duplicate" in reason:
        detail = "give one Content-Length, or Transfer-Encoding, not both"
        return ServiceError("ambiguous-length", detail)
    if "Transfer-Encoding" in reason:
        return _transfer_encoding()
    return _malformed("this is not an HTTP/1.1 request")


def _wrong_version(version: str) -> ServiceError:
    return _malformed(f"the request is HTTP/{version}; send HTTP/1.1")


def _malformed(detail: str) -> ServiceError:
    return ServiceError("malformed-request", detail)


def _transfer_encoding() -> ServiceError:
    detail = "Transfer-Encoding must be `chunked` alone; name compression in Content-Encoding"
    return _malformed(detail)
