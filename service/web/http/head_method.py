"""HEAD works wherever GET does."""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

_HEAD = "svm.head"


def is_head(request: Request) -> bool:
    """Whether the caller asked for HEAD; for replies whose body is long or endless."""
    return _HEAD in request.scope


class HeadAsGet:
    """Asks the application for GET; the server leaves out the body, as HEAD demands."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD":
            # A copy: the server keeps its own, and must go on seeing HEAD.
            scope = {**scope, "method": "GET", _HEAD: True}
        await self._app(scope, receive, send)
