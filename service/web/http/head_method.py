"""The method HEAD: every route for GET supports it."""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

_HEAD = "svm.head"


def is_head(request: Request) -> bool:
    """Whether the method is HEAD; for replies whose body is long or endless."""
    return _HEAD in request.scope


class HeadAsGet:
    """A middleware that turns HEAD into GET. The server then leaves out the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD":
            # A copy, because the server reads HEAD from its own scope later.
            scope = {**scope, "method": "GET", _HEAD: True}
        await self._app(scope, receive, send)
