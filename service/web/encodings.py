"""Compressed bodies, inflated within limits; and media types without their parameters."""

from __future__ import annotations

import zlib
from functools import lru_cache

from service.errors import TooLarge, UnsupportedFormat

MAX_RATIO = 100
"""A body may become so many times larger."""
_FREE_BYTES = 64 * 1024
"""Up to this size the ratio does not matter."""
_WINDOWS = {"gzip": (31,), "x-gzip": (31,), "deflate": (15, -15)}
"""zlib's number for the format. Some send `deflate` without the header it should have."""


def inflate(body: bytes, encoding: str, limit_bytes: int) -> bytes:
    """The body as it was before Content-Encoding `encoding`.

    Raises UnsupportedFormat, and TooLarge where it would exceed `limit_bytes` or 100:1.
    """
    if encoding in ("", "identity"):
        return body
    if encoding not in _WINDOWS:
        detail = f"Content-Encoding {encoding[:40]} is not read here; use gzip, deflate or none"
        raise UnsupportedFormat("unsupported-format", detail)
    limit = min(limit_bytes, max(_FREE_BYTES, MAX_RATIO * len(body)))
    for window in _WINDOWS[encoding]:
        inflater = zlib.decompressobj(window)
        try:
            inflated = inflater.decompress(body, limit)
        except zlib.error:
            continue
        if inflater.unconsumed_tail:
            detail = f"the body inflates to more than {limit} bytes or {MAX_RATIO}:1"
            raise TooLarge("decompression-limit", detail, extra={"limit_bytes": limit_bytes})
        if inflater.eof and not inflater.unused_data:
            return inflated
    raise UnsupportedFormat("format-mismatch", f"the body is not whole {encoding} data")


@lru_cache(maxsize=256)
def media_type_of(content_type: bytes) -> str:
    """The type alone, in lower case."""
    return content_type.partition(b";")[0].strip().lower().decode("latin-1")
