"""The body of a request as it arrives: its limit, its digest, and clients that leave."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from service.errors import InvalidRequest, TooLarge

HEADER = "content-digest"
ALGORITHMS = {"sha-256": "sha256", "sha-512": "sha512"}
_MEMBER = re.compile(r"\s*([a-z][a-z0-9-]*)\s*=\s*:([A-Za-z0-9+/=]*):\s*(?:;[^,]*)?")
T = TypeVar("T")


def announced_bytes(request: Request) -> int | None:
    """The Content-Length, if there is one."""
    announced = request.headers.get("content-length", "")
    return int(announced) if announced.isdecimal() else None


async def chunks_of(request: Request, limit_bytes: int, setting: str = "") -> AsyncIterator[bytes]:
    """Raises TooLarge, which names the `setting`, as soon as more than `limit_bytes` are announced
    or received, and InvalidRequest if the client disconnects or the body does not match its
    Content-Digest."""
    if (announced_bytes(request) or 0) > limit_bytes:
        raise _too_large(limit_bytes, setting)
    digest = ContentDigest(request)
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > limit_bytes:
                raise _too_large(limit_bytes, setting)
            digest.update(chunk)
            yield chunk
    except ClientDisconnect:
        detail = "the client disconnected before the end of the body"
        raise InvalidRequest("malformed-request", detail) from None
    digest.check()


def _too_large(limit_bytes: int, setting: str) -> TooLarge:
    detail = f"the body is larger than {limit_bytes} bytes"
    if setting:
        detail += f", the limit by the setting {setting}"
    return TooLarge("body-too-large", detail, extra={"limit_bytes": limit_bytes})


class ContentDigest:
    """The digests that a request's body, as it is sent (possibly compressed), must have: its
    Content-Digest (RFC 9530)."""

    def __init__(self, request: Request) -> None:
        """Unknown algorithms are ignored, and of a repeated one all but the last digest (RFC 9651,
        section 3.2). Raises InvalidRequest if the header is invalid."""
        digests: dict[str, bytes] = {}
        for line in request.headers.getlist(HEADER):
            for member in line.split(","):
                match = _MEMBER.fullmatch(member)
                if match is None:
                    raise _invalid_header()
                if match[1] in ALGORITHMS:
                    digests[ALGORITHMS[match[1]]] = _decoded(match[2])
        self._expected = [(hashlib.new(name), digest) for name, digest in digests.items()]

    def update(self, content: bytes | bytearray) -> None:
        """Add the next bytes of the body."""
        for hash, _ in self._expected:
            hash.update(content)

    def check(self) -> None:
        """Call this at the end of the body. Raises InvalidRequest if a digest differs."""
        for hash, expected in self._expected:
            if not hmac.compare_digest(hash.digest(), expected):
                raise InvalidRequest(
                    "digest-mismatch",
                    f"the {hash.name} of the body does not match Content-Digest; send it again",
                )


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise _invalid_header() from None


def _invalid_header() -> InvalidRequest:
    return InvalidRequest("invalid-header", "Content-Digest must be like sha-256=:…:, in base64")


async def unless_disconnected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is canceled, and has ended, when the client disconnects.

    Call it after the body was read, so that `receive` reports only the disconnect. Raises
    ClientDisconnect.
    """
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        watching.cancel()
        working.cancel()
        await asyncio.wait((working,))
        del working  # which has the error, whose traceback has this frame


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
