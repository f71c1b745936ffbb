"""The body of a request as it arrives: its limit, its digest, clients that leave; and a limit of
the memory for the bodies of all connections.

A body counts against one budget while it is received and answered; a request beyond the budget is
refused. A small body that arrives complete with its header does not count, because a slow sender
cannot keep it in memory.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import re
import sys
from collections.abc import AsyncIterator, Coroutine
from typing import Any, Self, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from service.common.malloc import return_free_memory
from service.common.shared import Count
from service.errors import InvalidRequest, TooLarge, Unavailable

STATE = "body_share"
"""Attribute of the request's state: its `Share`."""
RETRY_S = 1
DETAIL = "the memory for request bodies is full; retry shortly"
LARGE_USE_BYTES = 8 * 1024**2
"""After more than this was in use at once, free memory is returned to the system."""
QUIET_S = 1.0
"""Delay before that, because the next bodies may need the memory again."""
HEADER = "content-digest"
ALGORITHMS = {"sha-256": "sha256", "sha-512": "sha512"}
_MEMBER = re.compile(r"\s*([a-z][a-z0-9-]*)\s*=\s*:([A-Za-z0-9+/=]*):\s*(?:;[^,]*)?")
T = TypeVar("T")


class BodyBudget:
    """Counts bytes. Use it in one event loop only."""

    def __init__(self, limit_bytes: int, used: Count | None = None) -> None:
        """`used` has those of other processes, too."""
        self._limit_bytes = limit_bytes
        self._used = used or Count()
        self._peak = 0
        """Largest number in use since memory was last returned."""
        self._timer: asyncio.TimerHandle | None = None

    def share(self) -> Share:
        """An empty share, for one body."""
        return Share(self)

    def use(self, n_bytes: int) -> bool:
        """Use `n_bytes` more; False, and nothing changes, if that exceeds the limit."""
        if self._used.total + n_bytes > self._limit_bytes:
            return False
        self._used.own += n_bytes
        self._peak = max(self._peak, self._used.own)
        return True

    def free(self, n_bytes: int) -> None:
        """Free `n_bytes`."""
        self._used.own -= n_bytes
        if self._peak > LARGE_USE_BYTES >= self._used.own and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(QUIET_S, self._return_memory, loop)

    def _return_memory(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        if self._used.own <= LARGE_USE_BYTES:
            self._peak = self._used.own
            loop.run_in_executor(None, return_free_memory)


class Share:
    """The part of a budget that one body uses."""

    __slots__ = ("_budget", "n_bytes")

    def __init__(self, budget: BodyBudget) -> None:
        self._budget = budget
        self.n_bytes = 0

    def reserve(self, n_bytes: int) -> bool:
        """Use at least `n_bytes`; False, and nothing changes, if there is no room."""
        more = n_bytes - self.n_bytes
        if more > 0:
            if not self._budget.use(more):
                return False
            self.n_bytes = n_bytes
        return True

    def release(self) -> None:
        """Free all bytes."""
        if self.n_bytes:
            self._budget.free(self.n_bytes)
            self.n_bytes = 0

    def another(self) -> Share:
        """An empty share of the same budget."""
        return self._budget.share()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class BodyShares:
    """A middleware that gives each request a share until it is answered."""

    def __init__(self, app: ASGIApp, budget: BodyBudget) -> None:
        self._app = app
        self._budget = budget

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        with self._budget.share() as share:
            scope["state"][STATE] = share
            await self._app(scope, receive, send)


def share_of(request: Request) -> Share:
    """The request's share, without a limit if the middleware is not installed."""
    share: Share | None = getattr(request.state, STATE, None)
    return BodyBudget(sys.maxsize).share() if share is None else share


def overloaded() -> Unavailable:
    """The error for a request whose body exceeds the budget."""
    return Unavailable("overloaded", DETAIL, retry_after_s=RETRY_S)


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
