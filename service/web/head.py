"""HEAD works wherever GET does."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class HeadAsGet:
    """Asks the application for GET; the server leaves out the body, as HEAD demands."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD":
            # A copy: the server keeps its own, and must go on seeing HEAD.
            scope = {**scope, "method": "GET"}
        await self._app(scope, receive, send)
