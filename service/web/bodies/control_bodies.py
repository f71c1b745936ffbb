"""JSON bodies of control requests: limited, strictly validated, and documented."""

from __future__ import annotations

import io
from codecs import BOM_UTF8
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, TypeVar

from anyio.to_thread import run_sync
from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from service.common.encodings import inflate, media_type_of, unsupported_type
from service.common.malloc import ON_HEAP_BYTES
from service.common.strict_json import MOST_VALUES, parse_json
from service.errors import MAX_FAULTS
from service.web.bodies.idempotency import add_to_fingerprint
from service.web.bodies.receiving import announced_bytes, chunks_of, overloaded, share_of
from service.web.bodies.validation import body_error

LIMIT_BYTES = "control_body_bytes"
"""Attribute of the request's state: the largest body of a control request, from the lifespan."""
LIMIT_SETTING = "SVM_LIMITS__CONTROL_BODY_BYTES"
AT_ONCE_BYTES = 64 * 1024
"""A body up to this size that arrives in one chunk does not count against the budget."""
GROWN_BYTES = 1024 * 1024
"""A body is copied as it grows to this size. Beyond it, a large one gets all the room that it may
need at once: the system gives memory for what is written only, and the body is never copied."""
INLINE_BYTES = 4096
"""Bodies larger than this, which may take milliseconds to read, are read in a thread."""

Model = TypeVar("Model", bound=BaseModel)


async def read_control_body(request: Request) -> bytes:
    """The body of a control request. Raises as `read_limited`."""
    return await read_limited(request, getattr(request.state, LIMIT_BYTES), LIMIT_SETTING)


async def read_limited(request: Request, limit_bytes: int, setting: str = "") -> bytes:
    """The whole body. Raises as `chunks_of`, and Unavailable if the budget is used up."""
    announced, share = announced_bytes(request), share_of(request)
    body = io.BytesIO()
    async for chunk in chunks_of(request, limit_bytes, setting):
        body.write(chunk)
        is_complete = len(chunk) == announced and len(chunk) <= AT_ONCE_BYTES
        if not is_complete and not share.reserve(body.tell()):
            raise overloaded()
        room = announced or limit_bytes
        if body.tell() - len(chunk) <= GROWN_BYTES < body.tell() and room > ON_HEAP_BYTES:
            begun, body = body.getvalue(), io.BytesIO(bytes(room))
            body.write(begun)
    body.truncate()
    return body.getvalue()


def json_body(
    model: type[Model], most_values: int = MOST_VALUES
) -> Callable[[Request], Awaitable[Model]]:
    """A dependency that returns the body as `model`; `json_request` documents it.

    An empty body is read as `{}`. `most_values`: as of `parse_json`.
    """

    async def read(request: Request) -> Model:
        limit_bytes = getattr(request.state, LIMIT_BYTES)
        media_type = media_type_of(request.headers.get("content-type", "application/json"))
        encoding = request.headers.get("content-encoding", "").strip().lower()
        body = inflate(await read_control_body(request), encoding, limit_bytes)
        if encoding and not share_of(request).reserve(len(body)):
            raise overloaded()
        add_to_fingerprint(request, body)
        if body and media_type != "application/json":
            raise unsupported_type(media_type, ("application/json",), "application/json")
        body = body or b"{}"
        if len(body) <= INLINE_BYTES:
            return validated(model, body, most_values)
        return await run_sync(validated, model, body, most_values)

    return read


def validated(
    model: type[Model],
    body: bytes,
    most_values: int = MOST_VALUES,
    most_faults: int = MAX_FAULTS,
) -> Model:
    """JSON as `model`. Raises the errors of `parse_json`, and InvalidRequest or InvalidContent with
    the location of each invalid field, up to `most_faults`."""
    value = parse_json(body, most_values)
    try:
        return model.model_validate_json(body.removeprefix(BOM_UTF8))
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        raise body_error(errors, value, _schema_of(model), most_faults) from None


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
