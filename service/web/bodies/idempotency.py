"""Idempotency-Key: a request that creates something takes effect once, even if it is retried.

This implements draft-ietf-httpapi-idempotency-key-header. Two requests are the same if method,
path, query and content are equal. The compression of a body and the boundary of a form are ignored,
because clients choose them for each attempt.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Annotated, TypeAlias, TypeVar

import sqlalchemy as sa
from anyio import CancelScope
from anyio.to_thread import run_sync
from fastapi import Depends, Header
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from service.common.callers import caller_of
from service.errors import Unavailable
from service.storage.database.idempotency import Reservation, Reservations, StoredReply, keep_reply

HEADER = "Idempotency-Key"
RESERVATIONS = "reservations"
"""Attribute of the request's state: the `Reservations` of the installation, from the lifespan."""
REPLAYED = {"Idempotency-Replayed": "true"}
PROBLEMS = ("idempotency-key-reused", "idempotency-key-in-use")
"""Problems of every route that accepts a key."""

T = TypeVar("T")
Also: TypeAlias = Callable[[sa.Connection, T], None]
"""A function that a store calls in the transaction that creates a resource."""


class Creation:
    """A request that creates something, with or without a key."""

    def __init__(self, request: Request, key: str | None) -> None:
        self._request = request
        self._key = key
        self._reservation: Reservation | None = None
        self._kept = False

    async def perform(self, create: Callable[[], Awaitable[Response]]) -> Response:
        """The reply of `create`, or the stored reply if the same request came before.

        The body must have been read. `create` passes the function that `record` returns to the
        store. A successful reply that was not recorded is stored afterwards; an error is not.
        Raises the errors of `create` and of `Reservations.reserve`.
        """
        if self._key is None:
            return await create()
        reservations: Reservations = getattr(self._request.state, RESERVATIONS)
        fingerprint = _fingerprint(self._request).hexdigest()
        caller = caller_of(self._request)
        reservation = await run_sync(reservations.reserve, caller, self._key, fingerprint)
        if isinstance(reservation, StoredReply):
            stored = reservation
            return Response(stored.body, stored.status, {**stored.headers, **REPLAYED})
        self._reservation = reservation
        renewing = asyncio.create_task(_renew_forever(reservations, reservation))
        try:
            response = await create()
            if not self._kept:
                await run_sync(reservations.keep, reservation, _stored(response))
        except BaseException:
            with CancelScope(shield=True), suppress(Unavailable):
                await run_sync(reservations.release, reservation)
            raise
        finally:
            renewing.cancel()
        return response

    def record(self, reply: Callable[[T], Response]) -> Also[T] | None:
        """A function that stores `reply` in the transaction of the store; None without a key."""
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
"""A route's parameter: the creation that takes effect once."""


def add_to_fingerprint(request: Request, content: bytes | bytearray | memoryview) -> None:
    """Code that reads a body must pass each part, decompressed, to this function."""
    if HEADER in request.headers:
        _fingerprint(request).update(content)


def _fingerprint(request: Request) -> hashlib._Hash:
    """The hash of the request, up to the part of the body that was read."""
    fingerprint: hashlib._Hash | None = getattr(request.state, "fingerprint", None)
    if fingerprint is None:
        scope = request.scope
        content_type = request.headers.get("content-type", "")
        if content_type.startswith("multipart/"):
            content_type = "multipart/"  # without the boundary
        parts = scope["method"], scope["path"], scope["query_string"].decode("latin-1")
        fingerprint = hashlib.sha256("\n".join((*parts, content_type, "")).encode())
        request.state.fingerprint = fingerprint
    return fingerprint


def _stored(response: Response) -> StoredReply:
    headers = {name: value for name, value in response.headers.items() if name != "content-length"}
    return StoredReply(response.status_code, headers, bytes(response.body))


async def _renew_forever(reservations: Reservations, reservation: Reservation) -> None:
    while True:
        await asyncio.sleep(reservations.lease_s / 3)
        with suppress(Unavailable):  # the store will raise the same error
            await run_sync(reservations.renew, reservation)


def json_reply(read: BaseModel, status: int, headers: Mapping[str, str] | None = None) -> Response:
    """The reply with a resource, as FastAPI would write it."""
    return Response(read.model_dump_json(), status, headers, media_type="application/json")
