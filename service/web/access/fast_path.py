"""Predictions that are answered before the router, which costs more than a prediction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import ServiceError
from service.web.bodies.control_bodies import read_limited
from service.web.http.callers import STATE, Caller
from service.web.http.headers import RawHeaders
from service.web.problems import replies

T = TypeVar("T")


class Reply(NamedTuple):
    """A successful reply, for ASGI or for the server's own protocol."""

    body: bytes
    media_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


class Call(Protocol):
    """What the path and header of a request ask for; equal for equal paths and headers."""

    @property
    def route(self) -> str:
        """The template of the path."""


class Answerer(Protocol):
    """Answers POST requests to some paths from their path, header and body only."""

    @property
    def body_limit_bytes(self) -> int:
        """Size of the largest body that is read."""

    def call(self, path: bytes, headers: RawHeaders) -> Any | None:
        """A `Call`, or None if the path is another's. Raises ServiceError."""

    def knows(self, call: Any) -> bool:
        """Whether it is known, without waiting, that `check` will succeed."""

    async def check(self, call: Any) -> None:
        """Check before the body is read that the model exists. Raises ServiceError."""

    def submit(
        self, call: Any, body: bytes, deliver: Callable[[Reply | Exception], None], *, alone: bool
    ) -> asyncio.Task[None] | None:
        """Call `deliver` with the reply or the error: at the end of this turn of the event loop,
        with what requests that came together share done once; if the request came `alone`, before
        this returns. What takes long is delivered by the task that is returned."""

    async def answer(self, call: Any, body: bytes) -> Reply:
        """Raises ServiceError."""


class FastPath:
    """An ASGI middleware: requests for `answerer` do not reach the router."""

    def __init__(self, app: ASGIApp, answerer: Answerer) -> None:
        self._app = app
        self._answerer = answerer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Requests with a query are rare here; the router checks them.
        call = None
        if scope["type"] == "http" and scope["method"] == "POST" and not scope["query_string"]:
            path = scope.get("raw_path") or scope["path"].encode()
            caller: Caller | None = scope["state"][STATE]
            if caller is not None and caller.has_scope("predict"):
                with suppress(ServiceError):  # the router's handler reports it
                    call = self._answerer.call(path, scope["headers"])
        if call is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = _Route(call.route)
        request = Request(scope, receive)
        try:
            await self._answerer.check(call)
            body = await read_limited(request, self._answerer.body_limit_bytes)
            response = as_response(
                await unless_disconnected(receive, self._answerer.answer(call, body))
            )
        except ServiceError as error:
            response = replies.render(request, error)
        await response(scope, receive, send)


@dataclass(frozen=True, slots=True)
class _Route:
    """Replaces the route that the router would set; metrics read it."""

    path: str


def as_response(reply: Reply) -> Response:
    # `Response` would add a charset to its own `media_type`.
    return Response(reply.body, headers={"Content-Type": reply.media_type, **dict(reply.headers)})


async def unless_disconnected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which is canceled when the client disconnects.

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
        working.cancel()
        watching.cancel()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
