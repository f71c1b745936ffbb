"""Requests answered in front of the router, which costs more than a prediction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import ServiceError
from service.web.bodies.control_bodies import read_limited
from service.web.http.callers import STATE, Caller
from service.web.problems import replies

Headers: TypeAlias = list[tuple[bytes, bytes]]
"""Names in lower case, as servers hand them on."""

T = TypeVar("T")


class Reply(NamedTuple):
    """A successful answer, whatever carries it."""

    body: bytes
    media_type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


class Call(Protocol):
    """What the head of a request asks for; the same for equal heads."""

    @property
    def route(self) -> str:
        """The template of the path."""


class Answerer(Protocol):
    """Answers POST requests to some paths by their head and body alone."""

    @property
    def body_limit_bytes(self) -> int:
        """Of the largest body that is read."""

    def call(self, path: bytes, headers: Headers) -> Any | None:
        """A `Call`; None for a path that is not answered here. Raises ServiceError."""

    def knows(self, call: Any) -> bool:
        """Whether `check` would find nothing wrong, as far as that is known without a wait."""

    async def check(self, call: Any) -> None:
        """That what is asked for is there, before the body is read. Raises ServiceError."""

    def answer_soon(
        self,
        call: Any,
        body: bytes,
        deliver: Callable[[Reply | Exception], None],
        *,
        alone: bool,
    ) -> bool:
        """Call `deliver` in this turn of the loop, at once if the request is `alone` in it; False
        where that is not possible."""

    async def answer(self, call: Any, body: bytes) -> Reply:
        """Raises ServiceError."""


class ShortCut:
    """An ASGI middleware: what `answerer` knows does not reach the router."""

    def __init__(self, app: ASGIApp, answerer: Answerer) -> None:
        self._app = app
        self._answerer = answerer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A query, which the router checks, is unusual here.
        call = None
        if scope["type"] == "http" and scope["method"] == "POST" and not scope["query_string"]:
            path = scope.get("raw_path") or scope["path"].encode()
            caller: Caller | None = scope["state"][STATE]
            if caller is not None and caller.may("predict"):
                with suppress(ServiceError):  # the router's handler says what is wrong
                    call = self._answerer.call(path, scope["headers"])
        if call is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = _Route(call.route)
        request = Request(scope, receive)
        try:
            await self._answerer.check(call)
            body = await read_limited(request, self._answerer.body_limit_bytes)
            response = as_response(await unless_left(receive, self._answerer.answer(call, body)))
        except ServiceError as error:
            response = replies.render(request, error)
        await response(scope, receive, send)


@dataclass(frozen=True, slots=True)
class _Route:
    """Stands where the router puts its route, for the metrics."""

    path: str


def as_response(reply: Reply) -> Response:
    return Response(reply.body, media_type=reply.media_type, headers=dict(reply.headers))


async def unless_left(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, which ends early when the client leaves.

    The body has been read: what `receive` still gives is that the client has left. Raises
    ClientDisconnect.
    """
    working = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        return working.result()
    finally:
        working.cancel()
        watching.cancel()


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
