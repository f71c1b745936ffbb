"""Checks a request's header before anything else is done with it."""

from __future__ import annotations

import re

from httptools import HttpParserError

from service.common.answerer import RawHeaders

HEADER_BYTES = 64 * 1024
"""The parser keeps a header until it is complete, and copies a long line repeatedly."""
HEADER_LINES = 200
LINE_BYTES = 160
"""Of Python's objects for one line, in addition to its own bytes."""
SMALL_BYTES = 6 * 1024
"""In memory. Headers of browsers, 20 lines with a thousand bytes, take less."""
VERSIONS = ("1.1", "1.0")

_ABSOLUTE = re.compile(rb"https?://([^/?#@]+)(/[^#]*)?(\?[^#]*)?(?:#.*)?", re.IGNORECASE)


class Refusal(Exception):
    """The connection is closed after a reply with a problem."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail


def too_large(what: str) -> Refusal:
    return Refusal(431, "header-too-large", f"{what} more than {HEADER_BYTES} bytes; send fewer")


def too_many_lines() -> Refusal:
    detail = f"the header has more than {HEADER_LINES} lines; send fewer"
    return Refusal(431, "header-too-large", detail)


def no_memory() -> Refusal:
    return Refusal(503, "overloaded", "the memory for requests is full; retry shortly")


def check_header(version: str, url: bytes, headers: RawHeaders) -> int:
    """Its size in bytes. Raises Refusal."""
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


def wrong_request_line(version: str) -> Refusal:
    if version not in VERSIONS:  # none at all, for example
        return _wrong_version(version)
    return _malformed("the request line must have single spaces: `GET /livez HTTP/1.1`")


def origin_form(url: bytes, headers: RawHeaders) -> bytes:
    """The target as a path. An absolute one, which clients send to proxies, has its host in front,
    and this host counts instead of the one in the header (RFC 9112, section 3.2.2): it replaces
    it. Raises Refusal."""
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


def refusal_of(error: HttpParserError) -> Refusal:
    """Why the parser stopped."""
    if isinstance(error.__context__, Refusal):
        return error.__context__
    reason = str(error)
    if "present with" in reason or "Duplicate" in reason:
        detail = "give one Content-Length, or Transfer-Encoding, not both"
        return Refusal(400, "ambiguous-length", detail)
    if "Transfer-Encoding" in reason:
        return _transfer_encoding()
    return _malformed("this is not an HTTP/1.1 request")


def _wrong_version(version: str) -> Refusal:
    return _malformed(f"the request is HTTP/{version}; send HTTP/1.1")


def _malformed(detail: str) -> Refusal:
    return Refusal(400, "malformed-request", detail)


def _transfer_encoding() -> Refusal:
    detail = "Transfer-Encoding must be `chunked` alone; name compression in Content-Encoding"
    return _malformed(detail)
