"""JSON bodies of control requests: limited, strictly validated, and documented."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from service.errors import InvalidRequest, TooLarge, UnsupportedFormat
from service.web.bodies.body_budget import overloaded, share_of
from service.web.bodies.idempotency import add_to_fingerprint
from service.web.bodies.strict_json import BOM, parse_json
from service.web.bodies.validation import body_error
from service.web.http.digests import ContentDigest
from service.web.http.encodings import inflate

LIMIT_BYTES = "control_body_bytes"
"""Attribute of the request's state: the largest body of a control request, from the lifespan."""
AT_ONCE_BYTES = 64 * 1024
"""A body up to this size that arrives in one chunk does not count against the budget."""

Model = TypeVar("Model", bound=BaseModel)


async def read_control_body(request: Request) -> bytes:
    """The body of a control request. Raises as `read_limited`."""
    return await read_limited(request, getattr(request.state, LIMIT_BYTES))


async def read_limited(request: Request, limit_bytes: int) -> bytes:
    """The whole body. Raises TooLarge as soon as more than `limit_bytes` are announced or received,
    Unavailable if the budget is used up, and InvalidRequest if the body does not match its
    Content-Digest."""
    announced = request.headers.get("content-length", "")
    length = int(announced) if announced.isdecimal() else None
    if length is not None and length > limit_bytes:
        raise _too_large(limit_bytes)
    share = share_of(request)
    digest = ContentDigest(request)
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit_bytes:
                raise _too_large(limit_bytes)
            is_complete = len(chunk) == length and len(chunk) <= AT_ONCE_BYTES
            if not is_complete and not share.reserve(len(body)):
                raise overloaded()
    except ClientDisconnect:
        raise InvalidRequest(
            "malformed-request", "the client disconnected before the end of the body"
        ) from None
    digest.update(body)
    digest.check()
    return bytes(body)


def json_body(model: type[Model]) -> Callable[[Request], Awaitable[Model]]:
    """A dependency that returns the body as `model`; `json_request` documents it.

    An empty body is read as `{}`.
    """

    async def read(request: Request) -> Model:
        limit_bytes = getattr(request.state, LIMIT_BYTES)
        media_type = request.headers.get("content-type", "application/json").partition(";")[0]
        encoding = request.headers.get("content-encoding", "").strip().lower()
        body = inflate(await read_limited(request, limit_bytes), encoding, limit_bytes)
        if encoding and not share_of(request).reserve(len(body)):
            raise overloaded()
        add_to_fingerprint(request, body)
        if body and media_type.strip().lower() != "application/json":
            raise UnsupportedFormat("unsupported-format", "send the body as application/json")
        return validated(model, body or b"{}")

    return read


def validated(model: type[Model], body: bytes) -> Model:
    """JSON as `model`. Raises the errors of `parse_json`, and InvalidRequest or InvalidContent with
    the location of each invalid field."""
    parsed = parse_json(body)
    try:
        return model.model_validate_json(body.removeprefix(BOM))
    except ValidationError as error:
        raise body_error(error.errors(include_url=False), parsed, _schema_of(model)) from None


def json_request(
    model: type[BaseModel], example: dict[str, Any], required: bool = True
) -> dict[str, Any]:
    """The `openapi_extra=` of a route whose body is `model`, with an example that works unchanged.

    `web.docs` moves the schema's definitions to the document's components.
    """
    content = {"schema": _schema_of(model), "example": example}
    return {"requestBody": {"required": required, "content": {"application/json": content}}}


@cache
def _schema_of(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _too_large(limit_bytes: int) -> TooLarge:
    return TooLarge(
        "body-too-large",
        f"the body is larger than {limit_bytes} bytes",
        extra={"limit_bytes": limit_bytes},
    )
