"""Headers of every reply: security policies for browsers, and caching. The method HEAD. Conditional
requests (RFC 9110, section 13): ETag, If-Match, If-None-Match."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from service.errors import InvalidRequest, PreconditionFailed, PreconditionRequired

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

_HEAD = "svm.head"
PROBLEMS = ("invalid-header", "precondition-failed")
"""Problems of every route of a resource with an ETag."""
_READ = "The `ETag` that you read"
_CHANGED = "If it has changed since, the request is refused."
_TAG = re.compile(r'(?:W/)?"[^"\s]*"')
_TAGS = re.compile(rf"{_TAG.pattern}(?:\s*,\s*{_TAG.pattern})*")


def add_headers(headers: MutableHeaders) -> None:
    """Add the headers that a route has not set itself."""
    headers.update(FIXED)
    media_type = headers.get("content-type", "").partition(";")[0]
    headers.setdefault(CSP, POLICIES.get(media_type, DATA))
    # Replies with an ETag may be cached and revalidated, by the caller's own cache only.
    headers.setdefault("Cache-Control", "private, no-cache" if "etag" in headers else "no-store")


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


def header_parameter(name: str, description: str, *examples: str) -> dict[str, Any]:
    """A header for the `openapi_extra=` of a route."""
    schema = {"type": "string", **({"examples": list(examples)} if examples else {})}
    return {"name": name, "in": "header", "description": description, "schema": schema}


IF_MATCH = header_parameter("If-Match", f"{_READ}. {_CHANGED}")
IF_NONE_MATCH = header_parameter(
    "If-None-Match", "`*` to create the resource only if it does not exist yet.", "*"
)
"""The parameters of a route that requires one of them."""
REQUIRED_IF_MATCH = header_parameter("If-Match", f"{_READ}, or `*` for any. {_CHANGED}", "*")
"""The parameter of a route that requires it."""


def etag(version: str) -> str:
    """A strong entity tag: `version` in quotes. Different replies need different versions."""
    return f'"{version}"'


def check_if_match(request: Request, current: str | None, required: bool = False) -> None:
    """Compare a request that changes a resource with the current ETag; None: it does not exist.

    Raises PreconditionFailed if the condition in If-Match or If-None-Match is false, and
    PreconditionRequired if neither was sent although `required`.
    """
    unexpected = _tags(request, "if-none-match")
    if required and unexpected is None and "if-match" not in request.headers:
        what = (
            "If-Match with the ETag that you read" if current else "If-None-Match: * to create it"
        )
        raise PreconditionRequired("precondition-required", f"send {what}")
    _check_expected(request, current)
    if unexpected is not None and current and _weakly_in(current, unexpected):
        raise PreconditionFailed(
            "precondition-failed",
            "the resource exists already; change it with If-Match and its ETag",
            extra={"etag": current},
        )


def not_modified(
    request: Request, current: str, headers: Mapping[str, str] = MappingProxyType({})
) -> Response | None:
    """The reply 304 if If-None-Match has the current ETag, else None.

    `headers` are those that the whole reply has: caches replace the stored ones by those of a 304.
    Raises PreconditionFailed if If-Match does not have it.
    """
    _check_expected(request, current)
    seen = _tags(request, "if-none-match")
    if seen is None or not _weakly_in(current, seen):
        return None
    reply = Response(status_code=304, headers=headers)
    reply.headers["ETag"] = current
    return reply


def _check_expected(request: Request, current: str | None) -> None:
    expected = _tags(request, "if-match")
    if expected is not None and not (current in expected or (current and "*" in expected)):
        raise PreconditionFailed(
            "precondition-failed",
            "the resource is no longer the one that If-Match names; get it again"
            if current
            else "If-Match names a resource that does not exist; create it with If-None-Match: *",
            extra={"etag": current},
        )


def _weakly_in(current: str, tags: list[str]) -> bool:
    return "*" in tags or current in (tag.removeprefix("W/") for tag in tags)


def _tags(request: Request, header: str) -> list[str] | None:
    """The ETags of a header, `["*"]` for any, None if it was not sent."""
    lines = request.headers.getlist(header)
    if not lines:
        return None
    value = ", ".join(lines).strip()
    if value == "*":
        return ["*"]
    if _TAGS.fullmatch(value) is None:
        raise InvalidRequest(
            "invalid-header", f'{header} must be * or a list of quoted ETags, such as "3"'
        )
    return _TAG.findall(value)
