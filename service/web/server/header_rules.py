"""Checks a request's header before anything else is done with it."""

from __future__ import annotations

from httptools import HttpParserError

from service.web.http.headers import RawHeaders

HEADER_BYTES = 64 * 1024
"""The parser keeps a header until it is complete, and copies a long line repeatedly."""
VERSIONS = ("1.1", "1.0")


class Refusal(Exception):
    """The connection is closed after a reply with a problem."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail


def too_large(what: str) -> Refusal:
    return Refusal(431, "header-too-large", f"{what} more than {HEADER_BYTES} bytes; send fewer")


def check_header(version: str, url: bytes, headers: RawHeaders) -> int:
    """Its size in bytes. Raises Refusal."""
    if version not in VERSIONS:
        raise _malformed(f"the request is HTTP/{version}; send HTTP/1.1")
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
    if hosts > 1 or (not hosts and version == "1.1"):
        raise _malformed(f"the request has {hosts or 'no'} Host headers; send one")
    return size


def size_of(url: bytes, headers: RawHeaders) -> int:
    """Bytes of a header."""
    return len(url) + sum(field_bytes(name, value) for name, value in headers)


def field_bytes(name: bytes, value: bytes) -> int:
    """Size of one line, with colon, space and line end."""
    return len(name) + len(value) + 4


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


def _malformed(detail: str) -> Refusal:
    return Refusal(400, "malformed-request", detail)


def _transfer_encoding() -> Refusal:
    detail = "Transfer-Encoding must be `chunked` alone; name compression in Content-Encoding"
    return _malformed(detail)
