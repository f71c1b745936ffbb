"""The body of a request as it arrives, within a limit, and with its digest checked."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect, Request

from service.errors import InvalidRequest, TooLarge
from service.web.http.digests import ContentDigest


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
