"""JSON bodies of control requests: read within a limit, checked strictly, shown in the docs."""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, NoReturn, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request

from service.errors import Fault, InvalidContent, InvalidRequest, TooLarge, UnsupportedFormat
from service.web.digests import ContentDigest
from service.web.idempotency import note
from service.web.validation import body_error, pointer

MAX_DEPTH = 16

Model = TypeVar("Model", bound=BaseModel)


async def read_limited(request: Request, limit_bytes: int) -> bytes:
    """The whole body. Raises TooLarge as soon as more than `limit_bytes` are announced or sent, and
    InvalidRequest where it is not what its Content-Digest says."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > limit_bytes:
        raise _too_large(limit_bytes)
    digest = ContentDigest(request)
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > limit_bytes:
                raise _too_large(limit_bytes)
    except ClientDisconnect:
        raise InvalidRequest("malformed-request", "the client left before the body ended") from None
    digest.update(body)
    digest.check()
    note(request, body)
    return bytes(body)


def json_body(model: type[Model]) -> Callable[[Request], Awaitable[Model]]:
    """A dependency that gives the body as `model`; the document shows it by `json_request`.

    The limit is `app.state.limits.control_body_bytes`. An empty body counts as `{}`.
    """

    async def read(request: Request) -> Model:
        media_type = request.headers.get("content-type", "application/json").partition(";")[0]
        body = await read_limited(request, request.app.state.limits.control_body_bytes)
        if body and media_type.strip().lower() != "application/json":
            raise UnsupportedFormat("unsupported-format", "send the body as application/json")
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise UnsupportedFormat("unsupported-format", "send the body without Content-Encoding")
        body = body or b"{}"
        parsed = parse_json(body)
        try:
            return model.model_validate_json(body)
        except ValidationError as error:
            raise body_error(error.errors(include_url=False), parsed) from None

    return read


def json_request(
    model: type[BaseModel], example: dict[str, Any], required: bool = True
) -> dict[str, Any]:
    """The `openapi_extra=` of a route whose body is `model`, with an example that runs as it is.

    `web.docs` moves the schema's definitions to the document's components.
    """
    content = {"schema": _schema_of(model), "example": example}
    return {"requestBody": {"required": required, "content": {"application/json": content}}}


@cache
def _schema_of(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def parse_json(body: bytes) -> Any:
    """Strict JSON: UTF-8, no name twice, no NaN, no lone surrogate, at most 16 levels.

    Raises InvalidRequest `malformed-json`; a number too large to be finite is an invalid field.
    """
    value = decode_json(body)
    _check_finite(value)
    return value


def decode_json(body: bytes) -> Any:
    """As `parse_json`, but a number too large to be finite is given as infinity."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _malformed(f"byte {error.start} is not UTF-8") from None
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise _malformed(f"{error.msg}: line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise _malformed(f"more than {MAX_DEPTH} levels") from None
    except ValueError:  # an integer of thousands of digits
        raise _malformed("a number is too long") from None
    _check_levels(value)
    return value


def _check_levels(value: Any) -> None:
    # Level by level, so that numbers, of which a body may hold millions, are dropped at once.
    items = [value]
    for _ in range(MAX_DEPTH + 1):
        containers = [item for item in items if type(item) in (dict, list)]
        texts = [item for item in items if type(item) is str]
        texts += [name for item in containers if type(item) is dict for name in item]
        try:
            "".join(texts).encode()
        except UnicodeEncodeError:
            raise _malformed("a lone surrogate in a string") from None
        items = [
            entry
            for item in containers
            for entry in (item.values() if type(item) is dict else item)
            if type(entry) in (dict, list, str)
        ]
        if not containers:
            return
    raise _malformed(f"more than {MAX_DEPTH} levels")


def _check_finite(value: Any) -> None:
    todo: list[tuple[Any, tuple[str | int, ...]]] = [(value, ())]
    while todo:
        item, path = todo.pop()
        if isinstance(item, (dict, list)):
            entries = item.items() if isinstance(item, dict) else enumerate(item)
            todo += [(entry, (*path, key)) for key, entry in entries]
        elif isinstance(item, float) and not math.isfinite(item):
            place = pointer(path)
            fault = Fault(code="invalid-field", message="too large to be finite", pointer=place)
            raise InvalidContent("invalid-field", f"{place}: too large to be finite", (fault,))


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _malformed(f"{json.dumps(name)} stands twice in one object")
        found[name] = value
    return found


def _no_constant(name: str) -> NoReturn:
    raise _malformed(f"{name} is not JSON")


def _malformed(reason: str) -> InvalidRequest:
    return InvalidRequest("malformed-json", f"the body is not valid JSON: {reason}")


def _too_large(limit_bytes: int) -> TooLarge:
    return TooLarge(
        "body-too-large",
        f"the body is larger than {limit_bytes} bytes",
        extra={"limit_bytes": limit_bytes},
    )
