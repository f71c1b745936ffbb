"""Idempotency-Key: a request that creates something happens once, however often it is sent.

The draft of the IETF's HTTPAPI group, draft-ietf-httpapi-idempotency-key-header. Whether two
requests are the same is told by path, query and content; neither the compression of a body nor the
boundary of a form counts, which clients choose anew with every attempt.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Annotated, TypeAlias, TypeVar

import sqlalchemy as sa
from anyio import CancelScope
from anyio.to_thread import run_sync
from fastapi import Depends, Header
from starlette.requests import Request
from starlette.responses import Response

from service.errors import Unavailable
from service.storage.database.idempotency import Reservation, Reservations, StoredReply, keep_reply
from service.web.http.callers import caller_of

HEADER = "Idempotency-Key"
REPLAYED = {"Idempotency-Replayed": "true"}
PROBLEMS = ("idempotency-key-reused", "idempotency-key-in-use")
"""What every route with a key can answer."""

T = TypeVar("T")
Also: TypeAlias = Callable[[sa.Connection, T], None]
"""What a store does beside creating something, in the same transaction."""


class Creation:
    """One request that creates something, with a key or without."""

    def __init__(self, request: Request, key: str | None) -> None:
        self._request = request
        self._key = key
        self._reservation: Reservation | None = None
        self._kept = False

    async def perform(self, create: Callable[[], Awaitable[Response]]) -> Response:
        """The reply of `create`, or what it replied when the same request came before.

        The body must have been read. Within `create`, `record` goes to the store that creates;
        a successful reply that was not recorded is kept afterwards, a refused request is not.
        Raises what `create` raises, InvalidContent and Conflict as `Reservations.reserve`.
        """
        if self._key is None:
            return await create()
        reservations: Reservations = self._request.app.state.reservations
        fingerprint = _fingerprint(self._request).hexdigest()
        caller = caller_of(self._request)
        found = await run_sync(reservations.reserve, caller, self._key, fingerprint)
        if isinstance(found, StoredReply):
            return Response(found.body, found.status, {**found.headers, **REPLAYED})
        self._reservation = found
        renewing = asyncio.create_task(_renew_forever(reservations, found))
        try:
            response = await create()
            if not self._kept:
                await run_sync(reservations.keep, found, _stored(response))
        except BaseException:
            with CancelScope(shield=True), suppress(Unavailable):
                await run_sync(reservations.release, found)
            raise
        finally:
            renewing.cancel()
        return response

    def record(self, reply: Callable[[T], Response]) -> Also[T] | None:
        """What keeps `reply` of the created thing in its transaction; None without a key."""
        reservation = self._reservation
        if reservation is None:
            return None

        def keep(connection: sa.Connection, created: T) -> None:
            keep_reply(connection, reservation, _stored(reply(created)))
            self._kept = True

        return keep


def _creation(
    request: Request,
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=255,
            pattern=r"^[\x21-\x7e]+$",
            description="A new value from the caller, such as a UUID. A retry with the same key "
            "gets the stored reply, with `Idempotency-Replayed: true`, and creates nothing.",
        ),
    ] = None,
) -> Creation:
    return Creation(request, idempotency_key)


Once = Annotated[Creation, Depends(_creation)]
"""A route's parameter, by which it creates once."""


def note(request: Request, content: bytes | bytearray | memoryview) -> None:
    """Whoever reads a body tells what it read, inflated: it is part of what is asked."""
    if HEADER in request.headers:
        _fingerprint(request).update(content)


def _fingerprint(request: Request) -> hashlib._Hash:
    """The hash of what the request asks for, as far as it has been read."""
    found: hashlib._Hash | None = getattr(request.state, "fingerprint", None)
    if found is None:
        scope = request.scope
        content_type = request.headers.get("content-type", "")
        if content_type.startswith("multipart/"):
            content_type = "multipart/"  # without the boundary
        parts = scope["method"], scope["path"], scope["query_string"].decode("latin-1")
        found = hashlib.sha256("\n".join((*parts, content_type, "")).encode())
        request.state.fingerprint = found
    return found


def _stored(response: Response) -> StoredReply:
    headers = {name: value for name, value in response.headers.items() if name != "content-length"}
    return StoredReply(response.status_code, headers, bytes(response.body))


async def _renew_forever(reservations: Reservations, reservation: Reservation) -> None:
    while True:
        await asyncio.sleep(reservations.lease_s / 3)
        with suppress(Unavailable):  # the store that creates meets it again
            await run_sync(reservations.renew, reservation)
