"""Generates `service/client/members.py` from the OpenAPI document: `make client`.

It has the members of the service's resources and the arguments of a training with their types and
descriptions, for editors and type checkers; a test checks that it is up to date.
"""

from __future__ import annotations

import tempfile
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from service.app import create_app
from service.settings import Settings
from tools.make_sync_client import CLIENT, formatted

FILE = CLIENT / "members.py"
RESOURCES = {
    "DatasetMembers": "DatasetRead",
    "JobMembers": "JobRead",
    "ModelMembers": "ModelRead",
    "ModelVersionMembers": "ModelVersionRead",
}
"""Classes, and the schemas whose members they have."""
POSITIONAL = ("dataset_id", "model_name", "solver")
"""Members of a training that are no options of `train`."""

_HEAD = '''# Generated from the OpenAPI document by `make client`.
"""Members of the service's resources, and the arguments of a training, with their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict
'''
_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


def members(schemas: Mapping[str, Any]) -> str:
    """The text of the module; `schemas` are those of the document."""
    parts = [_HEAD]
    for name, schema in RESOURCES.items():
        parts.append(_class(name, schemas[schema], _Types(schemas, "list", "dict")))
    training = dict(schemas["JobCreate"]["properties"])
    options = {name: training[name] for name in training if name not in POSITIONAL}
    about = (
        "Fields of `POST /v1/jobs` besides dataset, model and solver; the service validates them."
    )
    arguments = {"description": about, "properties": options}
    types = _Types(schemas, "Sequence", "Mapping", unions=True)
    parts.append(_class("TrainSpec(TypedDict, total=False)", arguments, types))
    return formatted("\n\n".join(parts))


class _Types:
    """Types of Python for schemas; objects of a schema of their own are mappings of anything."""

    def __init__(
        self, schemas: Mapping[str, Any], array: str, mapping: str, *, unions: bool = False
    ) -> None:
        """`unions`: whether values of several types are a union of these, not anything."""
        self._schemas, self._array, self._mapping, self._unions = schemas, array, mapping, unions

    def of(self, schema: Mapping[str, Any]) -> str:
        if "$ref" in schema:
            schema = self._schemas[schema["$ref"].rpartition("/")[2]]
        if alternatives := schema.get("anyOf") or schema.get("oneOf"):
            types = list(dict.fromkeys(map(self.of, alternatives)))
            several = len(set(types) - {"None"}) > 1
            if "Any" in types or (several and not self._unions):
                return "Any"
            return " | ".join(types)
        kind = schema.get("type")
        if kind == "array":
            return f"{self._array}[{self.of(schema['items'])}]"
        if kind == "object":
            if self._unions and "properties" in schema:
                return "Any"  # also an object of a class of `svm`
            patterns = schema.get("patternProperties", {})
            values = next(iter(patterns.values()), schema.get("additionalProperties"))
            return f"{self._mapping}[str, {self.of(values) if isinstance(values, dict) else 'Any'}]"
        return _PLAIN.get(str(kind), "Any")


def _class(header: str, schema: Mapping[str, Any], types: _Types) -> str:
    lines = [f"class {header}:", _docstring(schema["description"]), ""]
    for name, member in schema["properties"].items():
        lines.append(f"    {name}: {types.of(member)}")
        if description := member.get("description"):
            lines.append(_docstring(description))
    return "\n".join(lines)


def _docstring(text: str) -> str:
    lines = textwrap.wrap(f'"""{" ".join(text.split())}"""', 96, break_on_hyphens=False)
    return textwrap.indent("\n".join(lines), "    ")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        document = create_app(Settings(data_dir=Path(folder))).openapi()
    FILE.write_text(members(document["components"]["schemas"]))
