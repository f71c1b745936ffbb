"""Hints for invalid fields of a body: the description in its JSON Schema, or the known fields."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from service.errors import MAX_NAME_CHARACTERS
from svm.solvers.other_names import did_you_mean

Schema = Mapping[str, Any]

_OTHER_NAMES = dict.fromkeys(("label", "labels"), ("tags", "tag"))
"""What other services call a field or a query parameter, with its names here."""


def hint_of(schema: Schema, location: Sequence[str | int], unknown: bool) -> str | None:
    """The hint for the field at Pydantic's `location` in a body with this schema, or None.

    `unknown`: there is no such field.
    """
    described: str | None = None
    here = list(_variants(schema, schema))
    *path, last = location
    choice = here
    for part in path if unknown else location:
        if isinstance(part, int):
            here = choice = [v for node in here for v in _variants(node.get("items", {}), schema)]
            continue
        fields = [node["properties"][part] for node in here if part in node.get("properties", {})]
        if fields:
            described = next((f["description"] for f in fields if "description" in f), None)
            here = [variant for field in fields for variant in _variants(field, schema)]
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


def _place_below(name: str, nodes: Sequence[Schema], root: Schema, depth: int = 2) -> str | None:
    """The first field with a member of this name, such as `solver.kernel`, or None."""
    for node in nodes:
        for field, member in node.get("properties", {}).items():
            below = list(_variants(member, root))
            if any(name in one.get("properties", {}) for one in below):
                return str(field)
            if depth > 1 and (place := _place_below(name, below, root, depth - 1)):
                return f"{field}.{place}"
    return None


def _variants(schema: Schema, root: Schema) -> Iterator[Schema]:
    """The schema itself, or those that it refers to or chooses from."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        yield from _variants(root["$defs"][name], root)
        return
    choice = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    for variant in choice:
        yield from _variants(variant, root)
    if not choice:
        yield schema


def _names(variant: Schema) -> tuple[Any, Any]:
    """The names by which Pydantic distinguishes members of a union."""
    return variant.get("title"), variant.get("properties", {}).get("name", {}).get("const")
