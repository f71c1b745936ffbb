"""Checks of bodies and parameters as faults: where, what was expected, and a hint."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice, takewhile
from typing import Any

from fastapi.dependencies.models import Dependant
from pydantic import BaseModel
from starlette.datastructures import QueryParams
from starlette.requests import Request

from service.common.names import INVALID_NAME
from service.errors import (
    MAX_NAME_CHARACTERS,
    MAX_VALUE_CHARACTERS,
    Fault,
    InvalidContent,
    InvalidRequest,
    ServiceError,
    pointer,
)
from svm.solvers.other_names import did_you_mean

_UNKNOWN = ("extra_forbidden", "unexpected_keyword_argument")
_BOUNDS = {
    "greater_than": ("gt", "greater than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}
Schema = Mapping[str, Any]
_OTHER_NAMES = dict.fromkeys(("label", "labels"), ("tags", "tag"))
"""What other services call a field or a query parameter, with its names here."""


def body_error(
    errors: Sequence[Any], body: Any, schema: Mapping[str, Any], most_faults: int
) -> ServiceError:
    """The error for a parsed JSON `body` with this schema, from Pydantic's `errors`.

    The first `most_faults` become faults: each takes a hundred times as long as it took Pydantic.
    """
    places: dict[tuple[str | int, ...], list[Any]] = {}
    for error in _of_chosen_variant(errors):
        places.setdefault(tuple(_path_in(body, error)), []).append(error)
    first_places = islice(places.values(), most_faults)
    faults = _one_per_pointer(
        _body_fault(error, body, schema) for error in chain.from_iterable(first_places)
    )
    total = len(faults) + max(0, len(places) - most_faults)
    named = next((fault for fault in faults if fault.code == INVALID_NAME), None)
    if named is not None:
        return InvalidRequest(INVALID_NAME, f"{named.pointer}: {named.message}", faults)
    first = faults[0]
    others = f", and {total - 1:,} more" if total > 1 else ""
    detail = f"{first.pointer or 'the body'}: {first.message}{others}"
    return InvalidContent("invalid-field", detail, faults, total)


def parameter_error(errors: Sequence[Any]) -> ServiceError:
    """The error for wrong parameters of a path, a query, a header or a form."""
    faults = tuple(_parameter_fault(error) for error in errors)
    return InvalidRequest(faults[0].code, "; ".join(fault.message for fault in faults[:5]), faults)


def _parameter_fault(error: Any) -> Fault:
    place, *rest = error["loc"]
    name = rest[0] if rest else ""
    return Fault(
        code=_code(error, "invalid-header" if place == "header" else "invalid-parameter"),
        message=f"{place} parameter '{name}': {_message(error)}",
        value=None if error["type"] == "missing" else _shown(error.get("input")),
    )


def unknown_parameter(name: str, known: Collection[str]) -> InvalidRequest:
    """The error for a query parameter that the route does not have."""
    shown = name[:MAX_VALUE_CHARACTERS]
    hint = f"known parameters: {', '.join(sorted(known)) or 'none'}"
    if meant := other_name(name, known):
        hint = f"did you mean `{meant}`? {hint}"
    fault = Fault(
        code="invalid-parameter",
        message=f"unknown query parameter '{shown}'",
        value=shown,
        hint=hint,
    )
    return InvalidRequest("invalid-parameter", f"{fault.message}; {hint}", (fault,))


def _of_chosen_variant(errors: Sequence[Any]) -> list[Any]:
    """Leave out errors of those members of a union that the body's `name` does not choose.

    If it chooses none, there is one error, as for unions with a discriminator.
    """
    unions: dict[tuple[Any, ...], dict[Any, Any]] = {}
    for error in errors:
        if error["type"] == "literal_error" and error["loc"][-1] == "name":
            *union, variant, _ = error["loc"]
            unions.setdefault(tuple(union), {})[variant] = error
    if not unions:
        return list(errors)
    depths = sorted(set(map(len, unions)))
    kept: list[Any] = []
    inside: dict[tuple[Any, ...], list[Any]] = {}
    for error in errors:
        place = error["loc"]
        union = next((place[:depth] for depth in depths if place[:depth] in unions), None)
        (kept if union is None else inside.setdefault(union, [])).append(error)
    for union, below in inside.items():
        depth, variants = len(union), unions[union]
        # An object with a name does not match members of the union that are not objects.
        chosen = [
            error
            for error in below
            if len(error["loc"]) > depth + 1 and error["loc"][depth] not in variants
        ]
        if chosen:
            kept += _of_chosen_variant(chosen)
            continue
        known = ", ".join(error["ctx"]["expected"] for error in variants.values())
        tags = {"discriminator": "name", "expected_tags": known}
        kept.append({"type": "union_tag_invalid", "loc": union, "msg": "", "ctx": tags})
    return kept


def _one_per_pointer(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Join the faults with the same pointer, one from each member of a union."""
    places: dict[str | None, Fault] = {}
    for fault in faults:
        before = places.get(fault.pointer)
        if before is None:
            places[fault.pointer] = fault
            continue
        if fault.hint and fault.hint.startswith("did you mean"):
            places[fault.pointer] = before = replace(before, hint=fault.hint)
        if (also := fault.message.removeprefix("Input should be ")) not in before.message:
            places[fault.pointer] = replace(before, message=f"{before.message}, or {also}")
    # If a fault is inside an object, other types for the whole object are of no use.
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
        if isinstance(_at(body, path), dict):  # not a name in place of the object
            path.append(error["ctx"]["discriminator"].strip("'"))
        tag, tags = _at(body, path), error["ctx"]["expected_tags"]
        message = f"{_shown(tag) or 'this'} is not a known value"
        hint = with_known(_meant(str(tag), _quoted(tags)), f"one of {tags}")
    elif error["type"] == "literal_error" and isinstance(value := _at(body, path), str):
        meant = _meant(value, _quoted(error["ctx"]["expected"]))
        hint = with_known(meant, hint or "") if meant else hint
    elif error["type"] == "union_tag_not_found":
        path.append(error["ctx"]["discriminator"].strip("'"))
        message = "Field required"
    return Fault(
        code=_code(error, "invalid-field"),
        message=message,
        pointer=pointer(takewhile(_is_short, path)),
        value=None if error["type"] == "missing" else _shown(_at(body, path)),
        hint=hint,
    )


def _meant(value: str, known: Collection[str]) -> str:
    return did_you_mean(value, known) if len(value) <= MAX_VALUE_CHARACTERS else ""


def _is_short(part: str | int) -> bool:
    return isinstance(part, int) or len(part) <= MAX_NAME_CHARACTERS


def _quoted(names: str) -> list[str]:
    """The names in a list of Pydantic's: 'a', 'b' or 'c'."""
    return re.findall(r"'([^']*)'", names)


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
    """The parts of an error's location that are in the body.

    Pydantic adds the member of a union that it tried, which is not in the body.
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
    """The value at a path, or the whole body if there is none (for a missing field)."""
    value = body
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return body
    return value


def _shown(value: Any) -> str | None:
    """A plain value as JSON, shortened; None for objects, arrays and values without JSON."""
    if isinstance(value, (dict, list)):
        return None
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return None
    return text if len(text) <= MAX_VALUE_CHARACTERS else text[: MAX_VALUE_CHARACTERS - 1] + "…"


def hint_of(schema: Schema, location: Sequence[str | int], unknown: bool) -> str | None:
    """The hint for the field at Pydantic's `location` in a body with this schema, or None.

    `unknown`: there is no such field.
    """
    described: str | None = None
    here = list(variants_of(schema, schema))
    *path, last = location
    choice = here
    for part in path if unknown else location:
        if isinstance(part, int):
            here = choice = [v for node in here for v in variants_of(node.get("items", {}), schema)]
            continue
        fields = [node["properties"][part] for node in here if part in node.get("properties", {})]
        if fields:
            described = next((f["description"] for f in fields if "description" in f), None)
            here = [variant for field in fields for variant in variants_of(field, schema)]
            choice = here
        else:  # Pydantic adds the member of a union that it tried, or that `name` chooses
            here = [node for node in here if part in _names(node)] or here
            choice = here if part in [_names(node)[1] for node in here] else choice
    if not unknown:
        members = [_names(node)[1] for node in choice if node.get("type") != "null"]
        if len(members) > 1 and all(members):  # the value is not one of these objects
            return f'such as {{"name": "{members[0]}"}}; names are {", ".join(members)}'
        return None if described is None else " ".join(described.partition("\n\n")[0].split())
    names = sorted({name for node in here for name in node.get("properties", {})})
    if not names:
        return None
    if last in names:
        return "it cannot be combined with the other fields beside it"
    name = str(last)[:MAX_NAME_CHARACTERS]
    other = other_name(name, names)
    meant = f"did you mean `{other}`?" if other else did_you_mean(name, names)
    member = name.rstrip("_")  # of Python's `lambda_`
    if not meant and (place := _place_below(member, here, schema)):
        meant = f"did you mean `{member}` in `{place}`?"
    known = f"known fields are {', '.join(f'`{name}`' for name in names)}"
    return with_known(meant, known)


def with_known(meant: str, known: str) -> str:
    """What `did_you_mean` says, followed by all known names."""
    separator = " " if meant.endswith("?") else "; "
    return f"{meant}{separator}{known}" if meant else known


def other_name(name: str, known: Collection[str]) -> str | None:
    """The known name for what is called `name` elsewhere, such as `tags` for `labels`."""
    return next((each for each in _OTHER_NAMES.get(name.lower(), ()) if each in known), None)


def _place_below(name: str, nodes: Sequence[Schema], root: Schema) -> str | None:
    """The field with a member of this name, such as `solver.kernel`, or None. Of several the one
    of which most variants have it."""
    places = Counter(_places_below(name, nodes, root))
    return max(places, key=places.__getitem__, default=None)


def _places_below(
    name: str, nodes: Sequence[Schema], root: Schema, depth: int = 2
) -> Iterator[str]:
    for node in nodes:
        for field, member in node.get("properties", {}).items():
            below = list(variants_of(member, root))
            yield from [field for one in below if name in one.get("properties", {})]
            if depth > 1:
                inner = _places_below(name, below, root, depth - 1)
                yield from (f"{field}.{place}" for place in inner)


def variants_of(schema: Schema, root: Schema) -> Iterator[Schema]:
    """The schema itself, or those that it refers to or chooses from."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        yield from variants_of(root["$defs"][name], root)
        return
    choice = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    for variant in choice:
        yield from variants_of(variant, root)
    if not choice:
        yield schema


def _names(variant: Schema) -> tuple[Any, Any]:
    """The names by which Pydantic distinguishes members of a union."""
    return variant.get("title"), variant.get("properties", {}).get("name", {}).get("const")


async def known_query_parameters(request: Request) -> None:
    """A dependency of every route. Raises InvalidRequest `invalid-parameter` and `invalid-name`."""
    check_path(request)
    if not request.query_params:
        return
    known = _query_names(request.scope["route"].dependant)
    for name in values_of(request.query_params):
        if name not in known:
            raise unknown_parameter(name, known)


def values_of(query: QueryParams) -> Mapping[str, str]:
    """The parameters of a query. Raises InvalidRequest `invalid-parameter` for one that is given
    twice."""
    values: dict[str, str] = {}
    for name, value in query.multi_items():
        if name in values:
            shown = name[:MAX_VALUE_CHARACTERS]
            detail = (
                f"query parameter '{shown}' is given twice; several values are separated by commas"
            )
            raise InvalidRequest("invalid-parameter", detail)
        values[name] = value
    return values


def check_path(request: Request) -> None:
    """Raises InvalidRequest `invalid-name` for a name with an encoded slash: decoded, it would be
    another path than the caller meant."""
    if b"%2f" in (request.scope.get("raw_path") or b"").lower():
        message, hint = "a name in the path contains a slash", "send it without a slash"
        fault = Fault(code=INVALID_NAME, message=message, value="%2f", hint=hint)
        raise InvalidRequest(INVALID_NAME, f"{message}; {hint}", (fault,))


def _query_names(dependant: Dependant) -> set[str]:
    names: set[str] = set()
    for parameter in dependant.query_params:
        model = parameter.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):  # one model for all parameters
            names.update(field.alias or name for name, field in model.model_fields.items())
        else:
            names.add(parameter.alias)
    return names.union(*(_query_names(below) for below in dependant.dependencies))
