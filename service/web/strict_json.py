"""JSON as RFC 8259 has it and no looser: what `json` lets pass is refused."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from service.errors import Fault, InvalidContent, InvalidRequest
from service.web.validation import pointer

MAX_DEPTH = 16


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
