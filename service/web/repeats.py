"""The OpenAPI document as it is served: without repetitions, a third of the size.

Responses, parameters and bodies that several operations have become components; each use is a
reference. Left out is what readers have elsewhere: examples of problems (a response names its
problems, `/problems` explains each), titles that repeat the name of a plain member, and a
parameter's description in its schema.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

Owners = Iterator[tuple[dict[Any, Any] | list[Any], Any, str]]
"""Places of objects of one kind: container, key, and a name for the component."""
SHORTEST = 70
"""Characters of JSON; a reference has about half as many."""


def shorten(document: dict[str, Any]) -> None:
    """Change the document."""
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
    used = set(re.findall(r"#/components/examples/([\w.-]+)", json.dumps(document)))
    examples = document["components"]["examples"]
    document["components"]["examples"] = {name: examples[name] for name in sorted(used)}


def _remove_titles(part: Any) -> None:
    """Of members that are plain or one of several types: generators name only the others by it."""
    if isinstance(part, dict):
        plain = part.get("type", "object") != "object" or "anyOf" in part
        if isinstance(part.get("title"), str) and plain and "enum" not in part:
            del part["title"]
        part = list(part.values())
    if isinstance(part, list):
        for one in part:
            _remove_titles(one)


def _name_repeats(document: dict[str, Any]) -> None:
    for kind, owners in (
        ("parameters", _parameters),
        ("requestBodies", _bodies),
        ("responses", _responses),
    ):
        uses = Counter(_text(owner[key]) for owner, key, _ in owners(document))
        names: dict[str, str] = {}
        same_name: Counter[str] = Counter()
        components: dict[str, Any] = {}
        for owner, key, wanted in owners(document):
            text = _text(owner[key])
            if uses[text] < 2 or len(text) < SHORTEST:
                continue
            if text not in names:
                same_name[wanted] += 1
                number = same_name[wanted]
                names[text] = wanted if number == 1 else f"{wanted}-{number}"
                components[names[text]] = owner[key]
            owner[key] = {"$ref": f"#/components/{kind}/{names[text]}"}
        if components:
            document["components"][kind] = components


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in document["paths"].values():
        yield from methods.values()


def _parameters(document: dict[str, Any]) -> Owners:
    for operation in _operations(document):
        parameters = operation.get("parameters", [])
        for position, parameter in enumerate(parameters):
            yield parameters, position, _word(parameter["name"])


def _bodies(document: dict[str, Any]) -> Owners:
    for operation in _operations(document):
        if "requestBody" in operation:
            yield operation, "requestBody", operation["operationId"]


def _responses(document: dict[str, Any]) -> Owners:
    for operation in _operations(document):
        for status in operation["responses"]:
            yield operation["responses"], status, status


def _word(name: str) -> str:
    """As the name of a component may be."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", name)


def _text(part: Any) -> str:
    return json.dumps(part, sort_keys=True)
