"""Strict JSON (RFC 8259): refuses the deviations that `json` accepts."""

from __future__ import annotations

import json
import math
import re
from codecs import BOM_UTF8
from collections.abc import Callable
from typing import Any, NoReturn

from service.errors import Fault, InvalidContent, InvalidRequest, pointer

MAX_DEPTH = 16
MOST_VALUES = 10_000
"""Of a control body, members of objects and entries of lists: each takes time and memory, however
short it is."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


def parse_json(body: bytes, most_values: int | None = None) -> Any:
    """Strict JSON: UTF-8, no name twice, no NaN, no lone surrogate, at most 16 levels.

    Raises InvalidRequest `malformed-json`, also for more than `most_values` values, and
    `bad-encoding`; a number too large to be finite is an invalid field.
    """
    if most_values is not None and len(body) > most_values:
        _check_count(body, most_values)
    value = decode_json(body)
    path = _path_to_infinity(value)
    if path is not None:
        place = pointer(path)
        fault = Fault(code="invalid-field", message="too large to be finite", pointer=place)
        raise InvalidContent("invalid-field", f"{place}: too large to be finite", (fault,))
    return value


def decode_json(body: bytes, *, with_nan: bool = False) -> Any:
    """As `parse_json`, but a number too large to be finite is given as infinity. With `with_nan`
    NaN is null, and Infinity a number, as Python and other programs write them."""
    try:
        body = body.removeprefix(BOM_UTF8)  # as in every other text
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _bad_encoding(f"byte 0x{body[error.start]:02x}") from None
    if "\0" in text:
        raise _bad_encoding("a NUL byte")
    try:
        value = _loads(text, _constant if with_nan else _no_constant)
    except json.JSONDecodeError as error:
        raise _malformed(f"{error.msg}: line {error.lineno} column {error.colno}") from None
    except RecursionError:
        raise _malformed(f"more than {MAX_DEPTH} levels of nesting") from None
    _check_levels(value)
    return value


def _check_count(body: bytes, most_values: int) -> None:
    # In the text: a million empty lists as objects would take a hundred times their length.
    bare = _STRING.sub(b"", body)
    if sum(map(bare.count, (b",", b"[", b"{"))) > most_values:
        detail = f"the body has more than {most_values:,} values"
        raise InvalidRequest("malformed-json", detail)


def _loads(text: str, parse_constant: Callable[[str], Any]) -> Any:
    return json.loads(
        text,
        object_pairs_hook=_unique,
        parse_constant=parse_constant,
        parse_int=_integer,
        parse_float=_float,
    )


# Functions in Python: `json` would read a long list of numbers without letting other threads run.


def _constant(name: str) -> float | None:
    return None if name == "NaN" else float(name)


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < 1000 else float(digits)


def _float(digits: str) -> float:
    return float(digits)


def _check_levels(value: Any) -> None:
    # Level by level: a body may have millions of numbers, which are not kept.
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
    raise _malformed(f"more than {MAX_DEPTH} levels of nesting")


def _path_to_infinity(value: Any) -> tuple[str | int, ...] | None:
    """The path to the first number that is not finite; None if all are."""
    if isinstance(value, (dict, list)):
        for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
            path = _path_to_infinity(entry)
            if path is not None:
                return (key, *path)
    elif isinstance(value, (int, float)) and not _is_finite(value):
        return ()
    return None


def _is_finite(number: int | float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer beyond float64
        return False


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members: dict[str, Any] = {}
    for name, value in pairs:
        if name in members:
            raise _malformed(f"{json.dumps(name)} is given twice in one object")
        members[name] = value
    return members


def _no_constant(name: str) -> NoReturn:
    raise _malformed(f"{name} is not JSON")


def _bad_encoding(what: str) -> InvalidRequest:
    message, hint = f"the body is not UTF-8 text: {what}", "send it as UTF-8"
    fault = Fault(code="bad-encoding", message=message, hint=hint)
    return InvalidRequest("bad-encoding", f"{message}; {hint}", (fault,))


def _malformed(reason: str) -> InvalidRequest:
    return InvalidRequest("malformed-json", f"the body is not valid JSON: {reason}")
