"""Compresses replies if the client accepts gzip: lists, traces, documents.

Replies with an ETag or a digest are not compressed, because both belong to the uncompressed bytes.
"""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipResponder
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MIN_BYTES = 1024
LEVEL = 5
_UNCOMPRESSED = ("etag", "repr-digest", "content-range")


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
    _unchanged = False

    async def send_with_compression(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = Headers(raw=message["headers"])
            self._unchanged = any(name in headers for name in _UNCOMPRESSED)
        if self._unchanged:
            await self.send(message)
        else:
            await super().send_with_compression(message)
