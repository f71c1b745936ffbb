"""What the OpenAPI document repeats becomes components; generated clients have their names."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

COMPONENTS = "#/components/schemas/"
SHORTEST = 70
"""Characters of JSON; a reference has about half as many."""
SHORTEST_SCHEMA = 150
"""Characters of JSON: shorter ones are read more easily in their place."""


def shorten(document: dict[str, Any]) -> None:
    """Shorten the document to a third: it is served without repetitions.

    Responses, parameters and bodies that several operations have become components, and schemas
    that several members have; each use is a reference. Left out is what readers have elsewhere:
    examples of problems (a response names its problems, `/problems` explains each), titles that
    repeat the name of a plain member, and a parameter's description in its schema.
    """
    for operation in _operations(document):
        for parameter in operation.get("parameters", ()):
            if parameter["schema"].get("description") == parameter.get("description"):
                parameter["schema"].pop("description", None)
        for status, response in operation["responses"].items():
            if not status.startswith("2"):
                for content in response.get("content", {}).values():
                    content.pop("examples", None)
    _remove_titles(document["paths"])
    _remove_titles(document["components"]["schemas"])
    _name_repeats(document)
    while _name_schemas(document["components"]["schemas"]):
        pass  # a schema that has a name now may have parts that others have
    used = set(re.findall(r"#/components/examples/([\w.-]+)", json.dumps(document)))
    examples = document["components"]["examples"]
    document["components"]["examples"] = {name: examples[name] for name in sorted(used)}


def objects(part: Any) -> Iterator[dict[str, Any]]:
    """All objects in a part of the document, an outer one before those in it."""
    if isinstance(part, dict):
        yield part
        part = list(part.values())
    if isinstance(part, list):
        for below in part:
            yield from objects(below)


def _remove_titles(part: dict[str, Any]) -> None:
    """Of members that are plain or one of several types: generators name only the others by it."""
    for member in objects(part):
        plain = member.get("type", "object") != "object" or "anyOf" in member
        if isinstance(member.get("title"), str) and plain and "enum" not in member:
            del member["title"]


def _name_repeats(document: dict[str, Any]) -> None:
    components = document["components"]
    uses = Counter((kind, _text(owner[key])) for kind, owner, key, _ in _places(document))
    names: dict[tuple[str, str], str] = {}
    for kind, owner, key, wanted in _places(document):
        text = _text(owner[key])
        if uses[kind, text] < 2 or len(text) < SHORTEST:
            continue
        if (kind, text) not in names:
            components.setdefault(kind, {})
            names[kind, text] = name = _free(wanted, components[kind])
            components[kind][name] = owner[key]
        owner[key] = {"$ref": f"#/components/{kind}/{names[kind, text]}"}


def _name_schemas(schemas: dict[str, Any]) -> bool:
    """Move the outermost schemas that several members have; whether there were any."""
    uses: Counter[str] = Counter()
    names: dict[str, str] = {}

    def count(part: Any) -> None:
        for owner, key, _ in _members(part, ""):
            uses[_text(owner[key])] += 1
            count(owner[key])

    def replace(part: Any, name: str) -> None:
        for owner, key, wanted in _members(part, name):
            text = _text(owner[key])
            # Generators make a second type of the same name of a component that is a reference.
            if uses[text] < 2 or len(text) < SHORTEST_SCHEMA or "$ref" in owner[key]:
                replace(owner[key], wanted)
                continue
            if text not in names:
                names[text] = _free(_word(wanted), schemas)
                schemas[names[text]] = owner[key]
            owner[key] = {"$ref": COMPONENTS + names[text]}

    whole = dict(schemas)
    for schema in whole.values():
        count(schema)
    for name, schema in whole.items():
        replace(schema, name)
    return bool(names)


def _members(schema: Any, name: str) -> Iterator[tuple[Any, Any, str]]:
    """Places of the schemas directly in a schema: container, key, and the name of the member."""
    if not isinstance(schema, dict):
        return
    for member in schema.get("properties", ()):
        yield schema["properties"], member, member
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield schema, key, name
    for key in ("anyOf", "oneOf", "allOf"):
        for position in range(len(schema.get(key, ()))):
            yield schema[key], position, name


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in document["paths"].values():
        yield from methods.values()


def _places(document: dict[str, Any]) -> Iterator[tuple[str, Any, Any, str]]:
    """Places of objects that may be components: kind, container, key, and a name for it."""
    for operation in _operations(document):
        for position, parameter in enumerate(operation.get("parameters", ())):
            yield "parameters", operation["parameters"], position, _word(parameter["name"])
        if "requestBody" in operation:
            yield "requestBodies", operation, "requestBody", _word(operation["operationId"])
        for status, response in operation["responses"].items():
            yield "responses", operation["responses"], status, _response_name(status, response)


def _response_name(status: str, response: dict[str, Any]) -> str:
    """`JobRead`, `JobReadAccepted`, of one problem `QueueFull`, of several `BadRequest`; of the
    Open Inference Protocol `V2NotFound`."""
    if not status.isdigit():
        return "Problem"
    phrase = _word(HTTPStatus(int(status)).phrase)
    content = response.get("content", {})
    if int(status) < 400:
        schema: str = content.get("application/json", {}).get("schema", {}).get("$ref", "")
        return schema.removeprefix(COMPONENTS) + ("" if schema and status == "200" else phrase)
    codes = response["description"].split("`")[1::2]
    version = "V2" if "application/json" in content else ""
    return version + (_word(codes[0]) if len(codes) == 1 else phrase)


def _word(name: str) -> str:
    """A name in the form of the other components: `missing_labels` is `MissingLabels`."""
    return "".join(part[0].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", name) if part)


def _free(wanted: str, taken: dict[str, Any]) -> str:
    """The name, with a number if it is taken: generators make it a name of a type."""
    numbers = ("", *range(2, len(taken) + 3))
    return next(name for name in (f"{wanted}{number}" for number in numbers) if name not in taken)


def _text(part: Any) -> str:
    return json.dumps(part, sort_keys=True)
