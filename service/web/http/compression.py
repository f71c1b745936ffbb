"""Replies compressed where the caller takes gzip: lists, traces, documents.

What has a tag or a digest stays as it is: both are of the very bytes, and compressed ones would
need others.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipResponder
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MIN_BYTES = 1024
LEVEL = 5
_OF_THESE_BYTES = ("etag", "repr-digest", "content-range")


class Compression:
    """A middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and "gzip" in Headers(scope=scope).get("accept-encoding", ""):
            app = _Responder(app, MIN_BYTES, LEVEL)
        await app(scope, receive, send)


class _Responder(GZipResponder):
    _as_it_is = False

    async def send_with_compression(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = Headers(raw=message["headers"])
            self._as_it_is = any(name in headers for name in _OF_THESE_BYTES)
        if self._as_it_is:
            await self.send(message)
        else:
            await super().send_with_compression(message)
