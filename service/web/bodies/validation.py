"""Pydantic's validation errors as faults: JSON pointers into the body as it was sent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from service.errors import Fault, InvalidContent, InvalidRequest, ServiceError, pointer
from service.web.bodies.hints import hint_of
from service.web.http.names import INVALID_NAME

MAX_VALUE_CHARACTERS = 64
_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
_BOUNDS = {
    "greater_than": ("gt", "greater than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def body_error(found: Sequence[Any], body: Any, schema: Mapping[str, Any]) -> ServiceError:
    """The error for a JSON `body` (as parsed) of that schema in which Pydantic `found` these."""
    faults = _one_a_place([_body_fault(error, body, schema) for error in _of_the_form(found)])
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
    return InvalidRequest(faults[0].code, "; ".join(fault.message for fault in faults[:5]), faults)


def _parameter_fault(error: Any) -> Fault:
    place, *rest = error["loc"]
    name = rest[0] if rest else ""
    return Fault(
        code=_code(error, "invalid-header" if place == "header" else "invalid-parameter"),
        message=f"{place} parameter '{name}': {_message(error)}",
        value=None if error["type"] == "missing" else _shown(error.get("input")),
    )


def unknown_parameter(name: str, known: Iterable[str]) -> InvalidRequest:
    """The error for a query parameter that a route has not."""
    shown = name[:MAX_VALUE_CHARACTERS]
    hint = f"known parameters: {', '.join(sorted(known)) or 'none'}"
    fault = Fault(
        code="invalid-parameter",
        message=f"unknown query parameter '{shown}'",
        value=shown,
        hint=hint,
    )
    return InvalidRequest("invalid-parameter", f"{fault.message}; {hint}", (fault,))


def _of_the_form(found: Sequence[Any]) -> list[Any]:
    """Without the errors of those forms of a union that the body's `name` does not choose.

    Where it chooses none, there is one error, as for unions that Pydantic tells apart itself.
    """
    unions: dict[tuple[Any, ...], dict[Any, Any]] = {}
    for error in found:
        if error["type"] == "literal_error" and error["loc"][-1] == "name":
            *union, form, _ = error["loc"]
            unions.setdefault(tuple(union), {})[form] = error
    kept = list(found)
    for union, forms in unions.items():
        depth = len(union)
        inside = [error for error in kept if error["loc"][:depth] == union]
        chosen = [error for error in inside if error["loc"][depth] not in forms]
        # An object with a name is none of the forms that are no objects.
        chosen = [error for error in chosen if len(error["loc"]) > depth + 1]
        if not chosen:
            known = ", ".join(error["ctx"]["expected"] for error in forms.values())
            named = next(iter(forms.values()))["input"]
            tags = {"discriminator": "name", "tag": named, "expected_tags": known}
            chosen = [{"type": "union_tag_invalid", "loc": union, "msg": "", "ctx": tags}]
        kept = [error for error in kept if error not in inside] + chosen
    return kept


def _one_a_place(faults: Sequence[Fault]) -> tuple[Fault, ...]:
    """Several of one place are what each form of a union says: none of them fits."""
    places: dict[str | None, Fault] = {}
    for fault in faults:
        before = places.get(fault.pointer)
        if before is None:
            places[fault.pointer] = fault
        elif (also := fault.message.removeprefix("Input should be ")) not in before.message:
            places[fault.pointer] = replace(before, message=f"{before.message}, or {also}")
    # What an object should have been instead is of no use where it is nearly right.
    return tuple(
        fault
        for place, fault in places.items()
        if not any(other and other.startswith(f"{place}/") for other in places)
    )


def _body_fault(error: Any, body: Any, schema: Mapping[str, Any]) -> Fault:
    path = _path_in(body, error)
    message = _message(error)
    hint = hint_of(schema, error["loc"], error["type"] in _UNKNOWN) if error["loc"] else None
    if error["type"] == "union_tag_invalid":
        path.append(error["ctx"]["discriminator"].strip("'"))
        message = f"{json.dumps(error['ctx']['tag'])} is not a known value"
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
    if error["type"] in _UNKNOWN:
        return "There is no such field"
    if error["type"] in _BOUNDS:
        bound, words = _BOUNDS[error["type"]]
        return f"Input should be {words} {error['ctx'][bound]:.12g}"  # Pydantic writes out 1e-100
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
