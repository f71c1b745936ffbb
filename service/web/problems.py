"""Errors as problem replies (RFC 9457), and how routes document them."""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Match, Mount

from service import errors
from service.common.content_negotiation import choose
from service.common.schemas import ReadModel
from service.errors import MAX_VALUE_CHARACTERS, Fault, ServiceError
from service.web.bodies.validation import check_path, parameter_error
from service.web.frame import brand, frame_files

_ENTRY = re.compile(r"^### (\S+): (\d+) (.+)\n\n(.+)$", re.MULTILINE)


class ProblemKindRead(ReadModel):
    """The meaning of a problem's code."""

    code: str
    status: int
    title: str
    description: str
    """Its cause, and what to do."""


PROBLEMS = {
    code: ProblemKindRead(code=code, status=int(status), title=title, description=description)
    for code, status, title, description in _ENTRY.findall(
        Path(__file__).with_name("problem_codes.md").read_text()
    )
}
"""Every problem that a reply can report."""

MEDIA_TYPE = "application/problem+json"

EXAMPLES = "#/components/examples/"
_SCHEMA = {"$ref": "#/components/schemas/ProblemRead"}  # `web.docs` adds it to the components

ANY_PROBLEM: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "Any other problem; `/problems` lists them.",
        "content": {MEDIA_TYPE: {"schema": _SCHEMA}},
    }
}
"""The `responses=` of the whole application."""
Frame: TypeAlias = Callable[[Request, str, str], str]
"""From a title, a text, and the main part, HTML, to a whole page."""
METHODS = ("DELETE", "GET", "PATCH", "POST", "PUT")


class ProblemError(ReadModel):
    """One error, and its location."""

    code: str
    message: str
    pointer: str | None = None
    """JSON pointer into the body."""
    row: int | None = None
    """Row number from 1; a header is not counted."""
    column: str | int | None = None
    """Column name, or position from 0 if columns have no names."""
    value: str | None = None
    """The wrong value, shortened."""
    hint: str | None = None


class ProblemRead(ReadModel):
    """A problem (RFC 9457). Members may be added; `code` is stable."""

    type: str
    """`/problems/<code>`, a page about this kind of problem."""
    title: str
    status: int
    detail: str
    """What was wrong this time, and what to do."""
    instance: str
    """The path of the request."""
    code: str
    request_id: str | None = None
    trace_id: str | None = None
    """From the request's `traceparent`, if it had one."""
    errors: list[ProblemError]
    """The first errors, at most 100."""
    errors_total: int


def responses(*codes: str) -> dict[int | str, dict[str, Any]]:
    """The `responses=` of a route that can answer with these problems."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(PROBLEMS[code].status, []).append(code)
    return {
        status: {
            "description": "; ".join(f"`{code}`: {PROBLEMS[code].title}" for code in group),
            "content": {
                MEDIA_TYPE: {
                    "schema": _SCHEMA,
                    "examples": {code: {"$ref": f"{EXAMPLES}{code}"} for code in group},
                }
            },
        }
        for status, group in sorted(by_status.items())
    }


def examples() -> dict[str, Any]:
    """An example of each problem, for the document's `components/examples`."""
    return {
        code: {
            "summary": problem.title,
            "value": _content(ServiceError(code, problem.description), "/v1/datasets", "0647…"),
        }
        for code, problem in sorted(PROBLEMS.items())
    }


def plain_page(_: Request, title: str, main: str) -> str:
    """Without navigation, for those who may not use it."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)} · svm-service</title>
{frame_files()}
<link rel="stylesheet" href="/assets/style.css">
</head>
<body>
<header class="top"><div>{brand()}</div></header>
<main class="wide">
{main}</main>
</body>
</html>
"""


def install(app: FastAPI, frame: Frame = plain_page) -> None:
    """Turn every error into a problem reply."""

    @app.exception_handler(ServiceError)
    async def _service_error(request: Request, error: ServiceError) -> Response:
        return render(request, error)

    @app.exception_handler(RequestValidationError)
    async def _validation_error(request: Request, error: RequestValidationError) -> Response:
        return render(request, parameter_error(error.errors()))

    @app.exception_handler(HTTPException)
    async def _http_exception(request: Request, error: HTTPException) -> Response:
        return _render_http_exception(app, frame, request, error)


def render(
    request: Request, error: ServiceError, headers: Mapping[str, str] = MappingProxyType({})
) -> Response:
    """The reply for an error."""
    headers = dict(headers)
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(math.ceil(error.retry_after_s))
    if isinstance(error, errors.Unauthorized):
        headers["WWW-Authenticate"] = 'Bearer realm="svm-service"'
    if isinstance(error, errors.Forbidden) and "scope" in error.extra:
        scope = error.extra["scope"]
        headers["WWW-Authenticate"] = f'Bearer error="insufficient_scope", scope="{scope}"'
    if isinstance(error, errors.RangeNotSatisfiable):
        headers["Content-Range"] = f"bytes */{error.extra['size_bytes']}"
    if isinstance(error, errors.UnsupportedFormat):
        headers |= _headers_for(request.app, request.scope["path"])
        del headers["Allow"]
    content, media_type = _for_path(problem_of(request, error))
    return JSONResponse(content, content["status"], headers, media_type=media_type)


def problem_of(request: Request, error: ServiceError) -> dict[str, Any]:
    """The members of the problem."""
    # As it was sent: an instance is a URI reference, so blanks must stay escaped.
    path = request.scope.get("raw_path", b"").decode("latin-1") or request.scope["path"]
    request_id = getattr(request.state, "request_id", None)
    content = _content(error, path, request_id)
    trace_id = getattr(request.state, "trace_id", None)
    return content if trace_id is None else {**content, "trace_id": trace_id}


def status_of(code: str) -> int:
    """The HTTP status of a problem; that of an unknown one is 500."""
    return PROBLEMS[code].status if code in PROBLEMS else 500


def internal_error(request: Request) -> Response:
    """The reply for an unexpected exception; it does not reveal the cause."""
    detail = "an unexpected error; it was logged under this request id"
    return render(request, ServiceError("internal-error", detail))


def _render_http_exception(
    app: FastAPI, frame: Frame, request: Request, error: HTTPException
) -> Response:
    headers = dict(error.headers or {})
    if error.status_code == 404:
        try:
            check_path(request)
        except errors.InvalidRequest as slash:
            return render(request, slash)
        return _path_not_found(frame, request)
    if error.status_code == 405:
        headers |= _headers_for(app, request.scope["path"])
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=headers)
        detail = f"{request.method} is not allowed here; allowed are {headers['Allow']}"
        return render(request, ServiceError("method-not-allowed", detail), headers)
    if error.status_code == 413:
        return render(request, errors.TooLarge("body-too-large", error.detail), headers)
    if error.status_code >= 500:
        return internal_error(request)
    return render(request, errors.InvalidRequest("malformed-request", error.detail), headers)


def _path_not_found(frame: Frame, request: Request) -> Response:
    """Unknown path: a problem, or a page for browsers, because a user may have mistyped it."""
    path, headers = request.scope["path"], {"Vary": "Accept"}
    with suppress(errors.NotAcceptable):
        if choose(request, (MEDIA_TYPE, "text/html")) == "text/html":
            title = "Page not found"
            main = f"""<h1>{title}</h1>
<p>There is nothing at <code>{html.escape(path)}</code>.</p>
<p><a href="/">Home</a> · <a href="/docs">Every call of the API</a></p>
"""
            return HTMLResponse(frame(request, title, main), 404, headers)
    missing = errors.NotFound("not-found", f"there is nothing at {path}")
    return render(request, missing, headers)


def problem_bytes(error: ServiceError, path: str, request_id: str) -> tuple[bytes, str]:
    """A problem's body and media type, for requests that never reach the application."""
    content, media_type = _for_path(_content(error, path, request_id))
    return json.dumps(content).encode(), media_type


def _for_path(content: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Below /v2 the Open Inference Protocol defines the format of errors; members may be added."""
    if content["instance"].startswith("/v2"):
        message, hint = content["detail"], next((e.get("hint") for e in content["errors"]), None)
        if hint is not None and hint not in message:  # its clients show nothing else
            message = f"{message}; {hint}"
        return {"error": message, **content}, "application/json"
    return content, MEDIA_TYPE


def _content(error: ServiceError, path: str, request_id: str | None) -> dict[str, Any]:
    problem = PROBLEMS.get(error.code)
    return {
        "type": f"/problems/{error.code}",
        "title": problem.title if problem else error.code,
        "status": status_of(error.code),
        "detail": error.detail,
        "instance": path,
        "code": error.code,
        "request_id": request_id,
        "errors": [_fault(fault) for fault in error.faults],
        "errors_total": error.faults_total,
        **error.extra,
    }


def _fault(fault: Fault) -> dict[str, Any]:
    members = {name: getattr(fault, name) for name in Fault.__slots__}
    shown = {name: member for name, member in members.items() if member is not None}
    return {**shown, "value": fault.value[:MAX_VALUE_CHARACTERS]} if fault.value else shown


def _headers_for(app: Starlette, path: str) -> dict[str, str]:
    """`Allow`, and `Accept-Post` and `Accept-Patch` if there are such bodies."""
    headers = {"Allow": ", ".join(_methods(app, path))}
    for method in ("POST", "PATCH"):
        if formats := _body_formats(app, path, method):
            headers[f"Accept-{method.capitalize()}"] = ", ".join(formats)
    return headers


def _methods(app: Starlette, path: str) -> list[str]:
    """All methods of a path, which may have several routes."""
    allowed = {method for method in METHODS if any(_routes(app, path, method))}
    # No route: the path may be a file below a mount, which supports reading only.
    reading = {"GET", "HEAD"} if "GET" in allowed or not allowed else set()
    return sorted(allowed | reading | {"OPTIONS"})


def _body_formats(app: Starlette, path: str, method: str) -> list[str]:
    """The media types of bodies in the OpenAPI document."""
    for route in _routes(app, path, method):
        extra: dict[str, Any] = getattr(route, "openapi_extra", None) or {}
        return list(extra.get("requestBody", {}).get("content", {}))
    return []


def _routes(app: Starlette, path: str, method: str) -> Iterator[BaseRoute]:
    scope = {"type": "http", "path": path, "root_path": "", "method": method}
    for route in app.routes:
        if not isinstance(route, Mount) and route.matches(scope)[0] is Match.FULL:
            yield route
