"""Ignores offers to upgrade the connection (RFC 9110, section 7.8).

The parser stops after the header of such a request, as if another protocol followed. A second
parser reads the body, and later requests.
"""

from __future__ import annotations

from typing import Protocol

from httptools import HttpRequestParser

from service.common.answerer import RawHeaders

_LENGTHS = (b"content-length", b"transfer-encoding")


class Reports(Protocol):
    """Receives the results of a parser."""

    def on_message_begin(self) -> None: ...
    def on_url(self, url: bytes) -> None: ...
    def on_header(self, name: bytes, value: bytes) -> None: ...
    def on_headers_complete(self) -> None: ...
    def on_body(self, body: bytes) -> None: ...
    def on_chunk_header(self) -> None: ...
    def on_message_complete(self) -> None: ...


def new_parser(reports: Reports) -> HttpRequestParser:
    """A parser that, as uvicorn's, continues after a request with `Connection: close`."""
    parser = HttpRequestParser(reports)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def parser_after_header(reports: Reports) -> HttpRequestParser:
    """A parser for the rest of a request. Feed it `length_only` first."""
    return new_parser(_AfterHeader(reports))


def length_only(headers: RawHeaders) -> bytes:
    """A header with the length of the body, and nothing else."""
    lines = [b"%b: %b\r\n" % header for header in headers if header[0] in _LENGTHS]
    return b"".join((b"POST / HTTP/1.1\r\n", *lines, b"\r\n"))


class _AfterHeader:
    """Passes on everything except the first header, which was reported already."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._open = False
        self.on_body = reports.on_body
        self.on_chunk_header = reports.on_chunk_header
        self.on_message_complete = reports.on_message_complete

    def on_message_begin(self) -> None:
        if self._open:
            self._reports.on_message_begin()

    def on_url(self, url: bytes) -> None:
        if self._open:
            self._reports.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._open:
            self._reports.on_header(name, value)

    def on_headers_complete(self) -> None:
        if self._open:
            self._reports.on_headers_complete()
        self._open = True
