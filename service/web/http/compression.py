"""Compresses replies if the client accepts gzip: lists, traces, documents, pages and their files.

Predictions are not compressed: clients have them sooner without. Replies with an ETag or a digest
are not compressed either, because both belong to the uncompressed bytes.
Static files and plots are, because browsers load them with pages: with a weak ETag and no digest.
"""

from __future__ import annotations

import gzip
import hashlib
import os
from functools import lru_cache
from pathlib import Path

from anyio.to_thread import run_sync
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.gzip import GZipResponder
from starlette.responses import FileResponse, Response
from starlette.staticfiles import PathLike, StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.web.http.headers import FOREVER

MIN_BYTES = 1024
LEVEL = 5
_UNCOMPRESSED = ("etag", "repr-digest", "content-range")
_TEXTS = ("text/", "image/svg+xml", "application/json", "application/javascript")


class Compression:
    """A middleware."""

    def __init__(self, app: ASGIApp, plain: tuple[str, ...] = ()) -> None:
        """Replies of paths with the ends `plain` are not compressed."""
        self._app = app
        self._plain = plain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if (
            scope["type"] == "http"
            and not scope["path"].endswith(self._plain)
            and _accepts_gzip(scope)
        ):
            app = _Responder(app, MIN_BYTES, LEVEL)
        await app(scope, receive, send)


class _Responder(GZipResponder):
    _unchanged = False

    async def send_with_compression(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message["headers"])
            if headers.get("content-type") == "image/svg+xml" and message["status"] == 200:
                _weaken(headers)
            else:
                self._unchanged = any(name in headers for name in _UNCOMPRESSED)
        if self._unchanged:
            await self.send(message)
        else:
            await super().send_with_compression(message)


class CompressedFiles(StaticFiles):
    """Static files; each text is compressed once, when it is first asked for.

    Browsers keep a file with its `versioned` address.
    """

    def headers_of(self, file: Path) -> dict[str, str]:
        """More headers of this file."""
        return {}

    def file_response(
        self, full_path: PathLike, stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """The file; or 304 with its headers, by which caches replace those that they have."""
        whole = FileResponse(full_path, status_code, stat_result=stat_result)
        whole.headers.update(self.headers_of(Path(full_path)))
        if scope["query_string"].startswith(b"v="):
            whole.headers["Cache-Control"] = FOREVER
        if (whole.media_type or "").startswith(_TEXTS):
            whole.headers.add_vary_header("Accept-Encoding")
        if not self.is_not_modified(whole.headers, Headers(scope=scope)):
            return whole
        unchanged = Response(status_code=304, headers=whole.headers)
        del unchanged.headers["content-length"]
        return unchanged

    async def get_response(self, path: str, scope: Scope) -> Response:
        whole = await super().get_response(path, scope)
        if not isinstance(whole, FileResponse):
            return whole
        file, media_type = Path(whole.path), whole.media_type or ""
        plain = not media_type.startswith(_TEXTS)
        if plain or not _accepts_gzip(scope) or "range" in Headers(scope=scope):
            return whole
        body = await run_sync(_compressed, file, whole.headers["etag"])
        reply = Response(body, whole.status_code, media_type=media_type)
        kept = whole.headers.items()
        reply.headers.update({name: value for name, value in kept if name not in reply.headers})
        reply.headers["Content-Encoding"] = "gzip"
        _weaken(reply.headers)
        return reply


def versioned(url: str, file: Path) -> str:
    """An address of the file that changes with its content."""
    return f"{url}?v={hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"


@lru_cache(maxsize=256)
def _compressed(path: Path, _: str) -> bytes:
    """The file in the version with this ETag."""
    return gzip.compress(path.read_bytes(), mtime=0)


def _weaken(headers: MutableHeaders) -> None:
    """Keep only what compressed replies have."""
    for name in ("repr-digest", "accept-ranges"):
        del headers[name]
    if headers.get("etag", "W/").startswith('"'):
        headers["etag"] = f"W/{headers['etag']}"


def _accepts_gzip(scope: Scope) -> bool:
    return "gzip" in Headers(scope=scope).get("accept-encoding", "")
