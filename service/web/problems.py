"""Every problem a caller can meet (RFC 9457), and the handlers that render them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Mount

from service import errors
from service.errors import Fault, ServiceError
from service.web.validation import parameter_error

MEDIA_TYPE = "application/problem+json"
MAX_VALUE_CHARACTERS = 64

STATUS: dict[type[ServiceError], int] = {
    errors.InvalidRequest: 400,
    errors.InvalidContent: 422,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.PreconditionFailed: 412,
    errors.PreconditionRequired: 428,
    errors.TooLarge: 413,
    errors.UnsupportedFormat: 415,
    errors.NotAcceptable: 406,
    errors.Timeout: 408,
    errors.Unavailable: 503,
    errors.StorageFull: 507,
    errors.Corrupt: 500,
}


@dataclass(frozen=True, slots=True)
class Problem:
    status: int
    title: str
    description: str


PROBLEMS: dict[str, Problem] = {
    # The request itself
    "malformed-json": Problem(
        400,
        "The body is not valid JSON",
        "Syntax error, bytes after the end, a name given twice in one object, a lone surrogate, "
        "more than 16 levels of nesting, or a bare NaN or Infinity.",
    ),
    "malformed-request": Problem(
        400, "The request could not be read", "For instance a multipart body without its boundary."
    ),
    "invalid-parameter": Problem(
        400,
        "A parameter of the path or query is wrong",
        "An unknown query parameter, one given twice, or a value outside the allowed range. Ids, "
        "filters and page tokens are parameters too.",
    ),
    "invalid-header": Problem(400, "A header is wrong", "The detail says which and what fits."),
    "invalid-name": Problem(
        400,
        "Not a name",
        "Names are 1 to 63 lower-case letters, digits and hyphens; they begin with a letter and do "
        "not end with a hyphen.",
    ),
    "not-found": Problem(404, "Not found", "No such resource; it may have been deleted."),
    "method-not-allowed": Problem(
        405, "The path does not offer this method", "The Allow header lists the methods it offers."
    ),
    "not-acceptable": Problem(
        406, "No acceptable format", "The reply cannot be given in a format that Accept allows."
    ),
    "resource-in-use": Problem(
        409, "The resource is in use", "Something still needs it; the detail says what."
    ),
    "invalid-state": Problem(
        409, "Impossible in the present state", "The detail names the state and what is possible."
    ),
    "precondition-failed": Problem(
        412, "The resource has changed", "If-Match or If-None-Match does not hold; get it again."
    ),
    "precondition-required": Problem(
        428, "A precondition is required", "Send If-Match, or If-None-Match: * to create."
    ),
    "body-too-large": Problem(413, "The body is too large", "`limit_bytes` is the most allowed."),
    "unsupported-format": Problem(
        415, "The format is not read here", "The detail lists the media types that are."
    ),
    "format-mismatch": Problem(
        415, "The body is not what Content-Type says", "Name the format that was sent."
    ),
    # What a JSON body says
    "invalid-field": Problem(
        422,
        "A field is wrong",
        "Unknown or missing, of the wrong type, or outside its range. Numbers are numbers: true "
        'and "1" are not. Each entry of `errors` points at one field.',
    ),
    # What data say
    "empty-data": Problem(422, "No data", "There is no row, or no feature column."),
    "bad-column-name": Problem(
        422, "A column name is wrong", "Column names are neither blank nor given twice."
    ),
    "bad-encoding": Problem(
        400, "The text is not UTF-8", "A byte sequence is not UTF-8, or a NUL byte stands in it."
    ),
    "csv-cell-too-large": Problem(
        422, "A cell or line is too large", "The limits stand under /v1/info."
    ),
    "csv-unterminated-quote": Problem(
        422, "A quoted cell does not end", "Close the quote, or double quotes inside a cell."
    ),
    "ragged-row": Problem(
        422, "A row has another length", "All rows have as many cells as there are columns."
    ),
    "not-a-number": Problem(
        422, "A feature is not a number", "Encode words as numbers before sending them."
    ),
    "missing-value": Problem(
        422, "A value is missing", "Nothing is imputed: remove the row or fill the cell."
    ),
    "non-finite-value": Problem(
        422, "A number is not finite", "NaN, Infinity and numbers beyond 1.8e308 are refused."
    ),
    "libsvm-index": Problem(
        422,
        "A LIBSVM index is wrong",
        "Indices ascend, begin at `index_base` (1 unless given), and stay within `n_features`.",
    ),
    "npy-unsupported": Problem(
        422, "The array type is not supported", "Send numbers or booleans, no objects or text."
    ),
    "npy-corrupt": Problem(
        422, "The NPY file is corrupt", "Its header does not fit the bytes that follow."
    ),
    "label-count": Problem(
        422, "Labels and rows differ in number", "Every row has one label, in the same order."
    ),
    "parsing-failed": Problem(
        422,
        "The data could not be read",
        "Reading them took too much time or memory, or ended the process that read them.",
    ),
    "too-many-rows": Problem(413, "Too many rows", "`limit` is the most allowed."),
    "too-many-columns": Problem(413, "Too many columns", "`limit` is the most allowed."),
    "too-many-values": Problem(
        413, "Too many values", "`limit` is the most numbers one dataset may store."
    ),
    "target-missing": Problem(
        422, "No labels", "The label column does not exist, or the dataset has no labels."
    ),
    "target-continuous": Problem(
        422, "The target is continuous", "A classifier needs classes, not measurements."
    ),
    "single-class": Problem(422, "Only one class", "Training needs rows of two classes or more."),
    "too-many-classes": Problem(422, "Too many classes", "`limit` is the most allowed."),
    "class-too-small": Problem(
        422, "A class is too small to split", "Every class needs rows on both sides of the split."
    ),
    "scaling-unsupported": Problem(
        422, "This scaling would make sparse data dense", "Use `max-abs` for sparse data."
    ),
    "feature-mismatch": Problem(
        422,
        "The features are not those of the model",
        "`expected` and `got` give the features, `first_difference` where they part.",
    ),
    # The service
    "internal-error": Problem(
        500, "An error of the service", "It was logged under the request id; nothing was changed."
    ),
    "dataset-corrupt": Problem(
        500, "The stored dataset is damaged", "Its files do not match their digests; upload again."
    ),
    "model-corrupt": Problem(
        500,
        "The stored model is damaged",
        "Its file does not match its digest. The version is set aside, others keep serving.",
    ),
    "queue-full": Problem(503, "Too many jobs are queued", "Retry-After says when to try again."),
    "shutting-down": Problem(503, "The service is shutting down", "Try again shortly."),
    "not-ready": Problem(503, "The service is not ready", "Try again shortly."),
}


CONTENT = {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemRead"}}}}
"""How the document describes the body of a problem; `web.docs` adds the schema."""


class ProblemError(BaseModel):
    """One thing that was wrong, and where."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    code: str
    message: str
    pointer: str | None = None
    """JSON pointer into the body."""
    row: int | None = None
    """Record number, the first one is 1; a header does not count."""
    column: str | int | None = None
    """Column name, or position from 0 where columns have no names."""
    value: str | None = None
    """The offending value, shortened."""
    hint: str | None = None


class ProblemRead(BaseModel):
    """A problem (RFC 9457). Members may be added; `code` is stable."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    type: str
    """`/problems/<code>`, a page about this kind of problem."""
    title: str
    status: int
    detail: str
    """What was wrong this time, and what to do."""
    instance: str
    """The path that was asked for."""
    code: str
    request_id: str | None = None
    errors: list[ProblemError]
    """At most 100 of them."""
    errors_total: int


def responses(*codes: str) -> dict[int | str, dict[str, Any]]:
    """The `responses=` of a route that can answer with these problems."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(PROBLEMS[code].status, []).append(code)
    return {
        status: {
            "description": "; ".join(f"`{code}`: {PROBLEMS[code].title}" for code in some),
            **CONTENT,
        }
        for status, some in sorted(by_status.items())
    }


def install(app: FastAPI) -> None:
    """Let every error reply be a problem."""

    @app.exception_handler(ServiceError)
    async def _service_error(request: Request, error: ServiceError) -> Response:
        return render(request, error)

    @app.exception_handler(RequestValidationError)
    async def _validation_error(request: Request, error: RequestValidationError) -> Response:
        return render(request, parameter_error(error.errors()))

    @app.exception_handler(HTTPException)
    async def _http_exception(request: Request, error: HTTPException) -> Response:
        return _render_http_exception(app, request, error)


def render(request: Request, error: ServiceError) -> Response:
    """The reply for an error raised anywhere below."""
    status = next(STATUS[family] for family in type(error).__mro__ if family in STATUS)
    headers = {}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(math.ceil(error.retry_after_s))
    return _reply(
        request,
        status,
        error.code,
        error.detail,
        faults=error.faults,
        faults_total=error.faults_total,
        extra=error.extra,
        headers=headers,
    )


def internal_error(request: Request) -> Response:
    """The reply for an exception that nobody expected; it tells nothing of its cause."""
    detail = "an unexpected error; it was logged under this request id"
    return _reply(request, 500, "internal-error", detail)


def _render_http_exception(app: FastAPI, request: Request, error: HTTPException) -> Response:
    headers = dict(error.headers or {})
    if error.status_code == 404:
        return _reply(request, 404, "not-found", f"there is nothing at {request.url.path}")
    if error.status_code == 405:
        allowed = _allowed_methods(app, request)
        detail = f"{request.method} is not offered here; use {' or '.join(allowed)}"
        headers["Allow"] = ", ".join(allowed)
        return _reply(request, 405, "method-not-allowed", detail, headers=headers)
    if error.status_code == 413:
        return _reply(request, 413, "body-too-large", error.detail, headers=headers)
    if error.status_code >= 500:
        return internal_error(request)
    return _reply(request, 400, "malformed-request", error.detail, headers=headers)


def _allowed_methods(app: FastAPI, request: Request) -> list[str]:
    # Starlette names only the methods of the first route of the path.
    path = {"type": "http", "path": request.url.path, "root_path": ""}
    allowed = {
        method
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        for route in app.routes
        if not isinstance(route, Mount)
        and route.matches({**path, "method": method})[0] is Match.FULL
    }
    # Nothing found: a file below a mount, which can only be read.
    return sorted(allowed | ({"GET", "HEAD"} if "GET" in allowed or not allowed else set()))


def _reply(
    request: Request,
    status: int,
    code: str,
    detail: str,
    *,
    faults: tuple[Fault, ...] = (),
    faults_total: int = 0,
    extra: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    problem = PROBLEMS.get(code)
    content: dict[str, Any] = {
        "type": f"/problems/{code}",
        "title": problem.title if problem else code,
        "status": status,
        "detail": detail,
        "instance": request.url.path,
        "code": code,
        "request_id": getattr(request.state, "request_id", None),
        "errors": [_fault(fault) for fault in faults],
        "errors_total": faults_total,
        **(extra or {}),
    }
    return JSONResponse(content, status, headers, media_type=MEDIA_TYPE)


def _fault(fault: Fault) -> dict[str, Any]:
    members = {
        "pointer": fault.pointer,
        "row": fault.row,
        "column": fault.column,
        "value": None if fault.value is None else fault.value[:MAX_VALUE_CHARACTERS],
        "code": fault.code,
        "message": fault.message,
        "hint": fault.hint,
    }
    return {name: member for name, member in members.items() if member is not None}
