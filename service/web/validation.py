"""Pydantic's validation errors as faults: JSON pointers into the body as it was sent."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from service.errors import Fault, InvalidContent, InvalidRequest, ServiceError
from service.web.names import INVALID_NAME

MAX_VALUE_CHARACTERS = 64


def body_error(found: Sequence[Any], body: Any) -> ServiceError:
    """The error for a JSON `body` (as parsed) in which Pydantic `found` these errors."""
    faults = tuple(_body_fault(error, body) for error in found)
    named = next((fault for fault in faults if fault.code == INVALID_NAME), None)
    if named is not None:
        return InvalidRequest(INVALID_NAME, f"{named.pointer}: {named.message}", faults)
    first = faults[0]
    others = f", and {len(faults) - 1} more" if len(faults) > 1 else ""
    return InvalidContent(
        "invalid-field", f"{first.pointer or 'the body'}: {first.message}{others}", faults
    )


def parameter_error(found: Sequence[Any]) -> ServiceError:
    """The error for wrong parameters of a path, a query, a header or a form."""
    faults = tuple(_parameter_fault(error) for error in found)
    code = INVALID_NAME if faults[0].code == INVALID_NAME else "invalid-parameter"
    return InvalidRequest(code, "; ".join(fault.message for fault in faults[:5]), faults)


def pointer(parts: Sequence[str | int]) -> str:
    """A JSON pointer (RFC 6901); the empty one is the whole document."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def _parameter_fault(error: Any) -> Fault:
    place, *rest = error["loc"]
    name = rest[0] if rest else ""
    return Fault(
        code=_code(error, "invalid-parameter"),
        message=f"{place} parameter '{name}': {_message(error)}",
        value=_shown(error.get("input")),
    )


def _body_fault(error: Any, body: Any) -> Fault:
    path = _path_in(body, error)
    message, hint = _message(error), None
    if error["type"] == "union_tag_invalid":
        path.append(error["ctx"]["discriminator"].strip("'"))
        message = f"{json.dumps(error['ctx']['tag'])} is not known here"
        hint = f"one of {error['ctx']['expected_tags']}"
    elif error["type"] == "union_tag_not_found":
        path.append(error["ctx"]["discriminator"].strip("'"))
        message = "Field required"
    return Fault(
        code=_code(error, "invalid-field"),
        message=message,
        pointer=pointer(path),
        value=None if error["type"] == "missing" else _shown(_at(body, path)),
        hint=hint,
    )


def _code(error: Any, default: str) -> str:
    return INVALID_NAME if error["type"] == INVALID_NAME else default


def _message(error: Any) -> str:
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    if error["type"] == "extra_forbidden":
        return "There is no such field"
    message: str = error["msg"]
    return message


def _path_in(body: Any, error: Any) -> list[str | int]:
    """The parts of an error's location that stand in the body.

    Pydantic also names the member of a union that it tried, which is nowhere in the body.
    """
    path: list[str | int] = []
    value = body
    for part in error["loc"]:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            continue
        path.append(part)
    if error["type"] == "missing":
        path.append(error["loc"][-1])
    return path


def _at(body: Any, path: Sequence[str | int]) -> Any:
    """The value at a path, or the whole body where there is none (as of a missing field)."""
    value = body
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return body
    return value


def _shown(value: Any) -> str | None:
    """A plain value as JSON, shortened; None for objects, arrays and what JSON cannot say."""
    if isinstance(value, (dict, list)):
        return None
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return None
    return text if len(text) <= MAX_VALUE_CHARACTERS else text[: MAX_VALUE_CHARACTERS - 1] + "…"
