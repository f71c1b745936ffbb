"""Headers of requests that were parsed before: the same bytes need not be parsed again."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Any, NamedTuple

from service.web.http.callers import Caller

MAX_ENTRIES = 4096
MAX_HEADER_BYTES = 2048

_LENGTH = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: ([0-9]{1,9})\r\n")


class RawHeader(NamedTuple):
    """The request line and the header, as bytes at the beginning of a packet."""

    key: bytes
    """Without the number in Content-Length, which differs from body to body."""
    end: int
    """Number of its bytes."""
    size: int
    """Number of bytes of the whole request."""


class CacheEntry(NamedTuple):
    """What a request with this header asks for, and its caller."""

    call: Any
    caller: Caller


class HeaderCache:
    """Entries by header; the oldest one is removed first."""

    def __init__(self) -> None:
        self._entries: OrderedDict[bytes, CacheEntry] = OrderedDict()

    def find(self, data: bytes) -> tuple[RawHeader, CacheEntry | None] | None:
        """The header at the beginning of `data`, and its entry if there is one.

        None if the header is not complete, is too long, or has no plain Content-Length.
        """
        end = data.find(b"\r\n\r\n", 0, MAX_HEADER_BYTES) + 4
        if end < 5:
            return None
        length = _LENGTH.search(data, 0, end)
        if length is None:
            return None
        number_start, number_end = length.span(1)
        key = data[:number_start] + data[number_end:end]
        return RawHeader(key, end, end + int(length[1])), self._entries.get(key)

    def add(self, header: RawHeader, entry: CacheEntry) -> None:
        """Call this after the parser accepted the header. Another number in Content-Length does
        not change the result of parsing."""
        self._entries[header.key] = entry
        if len(self._entries) > MAX_ENTRIES:
            self._entries.popitem(last=False)

    def clear(self) -> None:
        """API keys have changed, so entries may name the wrong caller."""
        self._entries.clear()
