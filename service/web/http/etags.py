"""Conditional requests (RFC 9110, section 13): ETag, If-Match, If-None-Match."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from service.errors import InvalidRequest, PreconditionFailed, PreconditionRequired

PROBLEMS = ("invalid-header", "precondition-failed")
"""Problems of every route of a resource with an ETag."""

IF_MATCH: dict[str, Any] = {
    "name": "If-Match",
    "in": "header",
    "description": "The `ETag` that you read. If it has changed since, the request is refused.",
    "schema": {"type": "string"},
}
IF_NONE_MATCH: dict[str, Any] = {
    "name": "If-None-Match",
    "in": "header",
    "description": "`*` to create the resource only if it does not exist yet.",
    "schema": {"type": "string", "examples": ["*"]},
}
"""The parameters of a route that requires one of them, for its `openapi_extra=`."""
REQUIRED_IF_MATCH: dict[str, Any] = {
    **IF_MATCH,
    "description": "The `ETag` that you read, or `*` for any. If it has changed since, the request "
    "is refused.",
    "schema": {"type": "string", "examples": ["*"]},
}
"""The parameter of a route that requires it."""

_TAG = re.compile(r'(?:W/)?"[^"\s]*"')
_TAGS = re.compile(rf"{_TAG.pattern}(?:\s*,\s*{_TAG.pattern})*")


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
