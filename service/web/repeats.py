"""Names what an OpenAPI document repeats: most of it would be the same problems, again and again.

Responses and parameters that several operations have, and headers and links of several responses,
become components; each use is a reference. The meaning is the same, the size a third.
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
"""Characters of JSON; a reference has half as many."""


def name_repeats(document: dict[str, Any]) -> None:
    """Change the document: responses last, because they contain headers and links."""
    for kind, owners in (
        ("parameters", _parameters),
        ("headers", _headers),
        ("links", _links),
        ("requestBodies", _bodies),
        ("responses", _responses),
    ):
        uses = Counter(_text(owner[key]) for owner, key, _ in owners(document))
        names: dict[str, str] = {}
        taken: Counter[str] = Counter()
        components = document["components"].setdefault(kind, {})
        for owner, key, wanted in owners(document):
            text = _text(owner[key])
            if uses[text] < 2 or len(text) < SHORTEST:
                continue
            if text not in names:
                taken[wanted] += 1
                names[text] = wanted if taken[wanted] == 1 else f"{wanted}-{taken[wanted]}"
                components[names[text]] = owner[key]
            owner[key] = {"$ref": f"#/components/{kind}/{names[text]}"}


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in document["paths"].values():
        yield from methods.values()


def _parameters(document: dict[str, Any]) -> Owners:
    for operation in _operations(document):
        parameters = operation.get("parameters", [])
        for position, parameter in enumerate(parameters):
            yield parameters, position, _word(parameter["name"])


def _responses(document: dict[str, Any]) -> Owners:
    for operation in _operations(document):
        for status in operation["responses"]:
            yield operation["responses"], status, f"status-{status}"


def _bodies(document: dict[str, Any]) -> Owners:
    for operation in _operations(document):
        if "requestBody" in operation:
            yield operation, "requestBody", operation["operationId"]


def _headers(document: dict[str, Any]) -> Owners:
    yield from _parts(document, "headers")


def _links(document: dict[str, Any]) -> Owners:
    yield from _parts(document, "links")


def _parts(document: dict[str, Any], kind: str) -> Owners:
    for operation in _operations(document):
        for response in operation["responses"].values():
            for name in response.get(kind, {}):
                yield response[kind], name, _word(name)


def _word(name: str) -> str:
    """As a name of a component may be."""
    return re.sub(r"[^A-Za-z0-9._-]", "-", name)


def _text(part: Any) -> str:
    return json.dumps(part, sort_keys=True)
