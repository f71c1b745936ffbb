"""Headers of every reply: security policies for browsers, and caching. The method HEAD."""

from __future__ import annotations

import base64
import hashlib
import re

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

PAGE = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
"""A page loads files from this service only, and runs no inline script."""
POLICIES = {
    "text/html": PAGE,
    "image/svg+xml": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
}
DATA = "default-src 'none'; frame-ancestors 'none'"
CSP = "content-security-policy"
FOREVER = "public, max-age=31536000, immutable"
"""Of files whose address changes with their content."""
FIXED = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}

_INLINE = re.compile(rb"<script>(.*?)</script>", re.DOTALL)
_HEAD = "svm.head"


def add_headers(headers: MutableHeaders) -> None:
    """Add the headers that a route has not set itself."""
    headers.update(FIXED)
    media_type = headers.get("content-type", "").partition(";")[0]
    headers.setdefault(CSP, POLICIES.get(media_type, DATA))
    # Replies with an ETag may be cached and revalidated, by the caller's own cache only.
    headers.setdefault("Cache-Control", "private, no-cache" if "etag" in headers else "no-store")


def policy_with_scripts(page: bytes) -> str:
    """The policy of a page from another project: its own inline scripts may run, no others."""
    hashes = (
        base64.b64encode(hashlib.sha256(text).digest()).decode() for text in _INLINE.findall(page)
    )
    sources = " ".join(f"'sha256-{value}'" for value in hashes)
    return f"{PAGE}; script-src 'self' {sources}"


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
