"""Links in the OpenAPI document: operations on the resources that a reply names.

With them schemathesis calls operations in chains. They are derived from the paths. A reply of
`/v1/datasets` with an `id` leads to all operations on `/v1/datasets/{id}`, and to the requests that
take a `dataset_id`. A reply that refers to another resource, by a `dataset_id` or a `model`, leads
to that resource.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

Properties = dict[str, dict[str, Any]]
Expressions = dict[str, str]
"""Runtime expressions (locations of values in a request or its reply) by name of a parameter."""


def linked(served: dict[str, Any]) -> dict[str, Any]:
    """The document with links from every successful JSON reply that names a resource."""
    document: dict[str, Any] = copy.deepcopy(served)
    components = document["components"]
    schemas: Properties = components["schemas"]
    operations = [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    for _, _, operation in operations:
        if "requestBody" in operation:
            operation["requestBody"] = _resolved(operation["requestBody"], components)
        for status, reply in operation["responses"].items():
            operation["responses"][status] = _resolved(reply, components)
    for path, _, operation in operations:
        for status, reply in operation["responses"].items():
            content = _properties(_in_json(reply), schemas)
            if not (status.startswith("2") and content):
                continue
            own = _own(path, content, schemas)
            # A job that was just accepted has no model yet.
            others = _others(content, schemas) if status == "200" else {}
            links = {}
            for target_path, method, target in operations:
                link = None
                if _collection(target_path) == _collection(path):
                    link = _parameters(target_path, own)
                elif method == "get" and target_path.endswith("}"):
                    link = _parameters(target_path, others.get(_collection(target_path), {}))
                elif "id" in own and (field := _reference(path)) in _properties(
                    _in_json(target.get("requestBody", {})), schemas
                ):
                    link = {"requestBody": {field: own["id"]}}
                if link and target is not operation:
                    name = target["operationId"]
                    links[name] = {"operationId": name, **link}
            if links:
                reply["links"] = links
    return document


def _resolved(part: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    """A copy of what a reference to a component means."""
    for kind, name in re.findall(r"^#/components/(\w+)/(.+)", part.get("$ref", "")):
        part = components[kind][name]
    return dict(part)


def _own(path: str, reply: Properties, schemas: Properties) -> Expressions:
    """The parameters of the resource that a reply is, has, or lists."""
    from_path = {name: f"$request.path.{name}" for name in _names(path)}
    from_reply: Expressions = {}
    for pointer, properties in _objects(reply, schemas):
        for name, schema in properties.items():
            # The items of a page below a resource are not resources of its kind.
            below = pointer.endswith("/0") and name in from_path
            if not (below or name.endswith("_id") or _properties(schema, schemas)):
                from_reply.setdefault(name, f"$response.body#{pointer}/{name}")
    return from_path | from_reply


def _others(reply: Properties, schemas: Properties) -> dict[str, Expressions]:
    """The parameters of the resources that a reply refers to, by their collections."""
    others = {}
    for name, schema in reply.items():
        expression = f"$response.body#/{name}"
        if name.endswith("_id"):
            others[f"/v1/{name[:-3]}s"] = {"id": expression}
        elif parts := _properties(schema, schemas):
            others[f"/v1/{name}s"] = {part: f"{expression}/{part}" for part in parts}
    return others


def _objects(reply: Properties, schemas: Properties) -> Iterator[tuple[str, Properties]]:
    """A reply, the objects in it, and the first items of its lists, each by its JSON pointer."""
    yield "", reply
    for name, schema in reply.items():
        yield f"/{name}", _properties(schema, schemas)
        yield f"/{name}/0", _properties(schema.get("items", {}), schemas)


def _parameters(path: str, known: Expressions) -> dict[str, Any] | None:
    """The link to a path, if all its parameters are known, and one of them from the reply."""
    taken = {name: known[name] for name in _names(path) if name in known}
    if len(taken) == len(_names(path)) and "$response" in "".join(taken.values()):
        return {"parameters": taken}
    return None


def _collection(path: str) -> str:
    return path.split("/{")[0]


def _reference(path: str) -> str:
    """The name of references to a resource of this path, such as `dataset_id`."""
    return f"{_collection(path).rpartition('/')[2][:-1]}_id"


def _names(path: str) -> list[str]:
    return re.findall(r"{(\w+)}", path)


def _in_json(message: dict[str, Any]) -> dict[str, Any]:
    """The schema of a request or reply in JSON."""
    content: dict[str, Any] = message.get("content", {}).get("application/json", {})
    schema: dict[str, Any] = content.get("schema", {})
    return schema


def _properties(schema: dict[str, Any], schemas: Properties) -> Properties:
    """The properties of an object, which may be nullable."""
    for option in schema.get("anyOf", [schema]):
        name = option.get("$ref", "").rpartition("/")[2]
        if properties := schemas.get(name, option).get("properties"):
            return dict(properties)
    return {}
