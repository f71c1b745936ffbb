"""Decompresses bodies within limits; and media types without their parameters."""

from __future__ import annotations

import bz2
import lzma
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

from service.errors import TooLarge, UnsupportedFormat

if sys.version_info >= (3, 14):
    from compression.zstd import DecompressionParameter, ZstdDecompressor, ZstdError
else:
    from backports.zstd import DecompressionParameter, ZstdDecompressor, ZstdError

PIECE_BYTES = 1024 * 1024
MAX_RATIO = 100
"""Largest ratio of the decompressed to the compressed size, of bodies and of parts of files."""
_FREE_BYTES = 64 * 1024
"""Up to this size the ratio is ignored."""
_WINDOWS = {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)}
"""zlib's number of the format. Some clients send `deflate` without its header."""


def inflate(body: bytes, encoding: str, limit_bytes: int) -> bytes:
    """The body without its Content-Encoding `encoding`.

    Raises UnsupportedFormat, and TooLarge if it would exceed `limit_bytes` or 100:1.
    """
    if encoding in ("", "identity"):
        return body
    if encoding not in _WINDOWS:
        detail = f"Content-Encoding {encoding[:40]} is not supported; use gzip, deflate or none"
        raise UnsupportedFormat("unsupported-format", detail)
    for window in _WINDOWS[encoding]:
        inflater = Inflater(limit_bytes, partial(Zlib, window))
        try:
            content = b"".join(inflater.feed(body))  # joined after the limit was checked
            inflater.finish()
        except UnsupportedFormat:
            continue
        return content
    raise _incomplete(encoding)


class Decompressor(Protocol):
    """One member of a compressed file, as `bz2`, `lzma` and `zstd` have it."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class Zlib:
    """The same of zlib; by default gzip."""

    def __init__(self, window: int = _WINDOWS["gzip"][0]) -> None:
        self._member = zlib.decompressobj(window)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._member.eof

    @property
    def unused_data(self) -> bytes:
        return self._member.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        piece = self._member.decompress(self._member.unconsumed_tail + data, max_length)
        self.needs_input = len(piece) < max_length
        return piece


WINDOW_LOG = 26
"""Of xz and zstd: what they may keep in memory is 64 MiB, as `xz -9` needs."""
DECOMPRESSORS: dict[str, Callable[[], Decompressor]] = {
    "gzip": Zlib,
    "bzip2": bz2.BZ2Decompressor,
    "xz": partial(lzma.LZMADecompressor, memlimit=(1 << WINDOW_LOG) + (4 << 20)),
    "zstd": partial(ZstdDecompressor, options={DecompressionParameter.window_log_max: WINDOW_LOG}),
}
"""Of files, by the name of what compressed them."""


class Inflater:
    """A compressed body in pieces, by default of gzip. It may have several members."""

    def __init__(
        self, limit_bytes: int, begin: Callable[[], Decompressor] = Zlib, name: str = "gzip"
    ) -> None:
        """`begin` is called for each member."""
        self._limit_bytes = limit_bytes
        self._begin = begin
        self._name = name
        self._received = 0
        self._inflated = 0
        self._member = begin()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The next piece, decompressed, in pieces of at most 1 MiB.

        Raises TooLarge as soon as the limit or 100:1 is exceeded, and UnsupportedFormat if the body
        is not of this format.
        """
        self._received += len(data)
        while data or not (self._member.eof or self._member.needs_input):
            if self._member.eof:
                self._member = self._begin()
            try:
                piece = self._member.decompress(data, PIECE_BYTES)
            except (zlib.error, OSError, lzma.LZMAError, ZstdError):
                raise _incomplete(self._name) from None
            data = self._member.unused_data
            self._inflated += len(piece)
            allowed = max(_FREE_BYTES, MAX_RATIO * self._received)
            if self._inflated > min(self._limit_bytes, allowed):
                raise _too_large(self._limit_bytes)
            if piece:
                yield piece

    def finish(self) -> None:
        """Raises UnsupportedFormat if the end is missing."""
        if not self._member.eof:
            raise _incomplete(self._name)


def _too_large(limit_bytes: int) -> TooLarge:
    detail = f"the body inflates to more than {limit_bytes} bytes or {MAX_RATIO}:1"
    return TooLarge("decompression-limit", detail, extra={"limit_bytes": limit_bytes})


def _incomplete(encoding: str) -> UnsupportedFormat:
    return UnsupportedFormat("format-mismatch", f"the body is not complete {encoding} data")


def media_type_of(content_type: str) -> str:
    """The type without parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()


def unsupported_type(sent: str, offered: Sequence[str], usual: str) -> UnsupportedFormat:
    """The error for a body of the media type `sent`, none of those offered."""
    said = f"{sent[:100]} is not read here" if sent else "Content-Type is missing"
    if sent == "application/x-www-form-urlencoded":
        said += f" (curl says it unless it has -H 'Content-Type: {usual}')"
    return UnsupportedFormat("unsupported-format", f"{said}; send one of {', '.join(offered)}")
