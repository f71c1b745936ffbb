"""From a JSON Schema to the fields of an HTML form.

Nothing here knows what the schema is about: what a request takes is asked for on the page as soon
as the schema names it. What is filled in then is `filled_form`'s.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

Schema: TypeAlias = dict[str, Any]
ABSENT: Any = object()
"""The value of a field that was left empty: it is left out of the body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a field stands."""

    name: str
    """Of its input: unique on the page."""
    pointer: str
    """JSON pointer to its value in the body."""
    label: str
    help: str = ""
    required: bool = False

    @property
    def key(self) -> str:
        """Name of the member that it is."""
        return self.pointer.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Place):
    """A number or a text; `words` are texts that may stand in place of the number."""

    kind: ClassVar[str] = "text"
    numeric: bool
    words: tuple[str, ...] = ()
    bounds: str = ""
    """What is allowed, in words."""
    default: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(Place):
    """One of some words; `optional` where none of them will do, too."""

    kind: ClassVar[str] = "choice"
    options: tuple[str, ...]
    optional: bool = False
    default: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch(Place):
    """Yes or no."""

    kind: ClassVar[str] = "switch"
    default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs(Place):
    """Names with a value each: a line `name = value` for each."""

    kind: ClassVar[str] = "pairs"
    numeric: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(Place):
    """An object: its members, and those that need no input."""

    kind: ClassVar[str] = "group"
    fields: tuple[Field, ...]
    fixed: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One of the forms that a value can have."""

    value: str
    """Of the button that chooses it; empty for none at all."""
    label: str
    help: str = ""
    content: Field | None = None
    """None where there is nothing more to say."""
    constant: Any = ABSENT
    """The value itself, without `content`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variants(Place):
    """A value that can have several forms, of which one is chosen."""

    kind: ClassVar[str] = "variants"
    options: tuple[Variant, ...]
    default: str = ""


Field: TypeAlias = Text | Choice | Switch | Pairs | Group | Variants


def fields_of(schema: Schema, order: Sequence[str] = ()) -> tuple[Field, ...]:
    """A field for each property of an object's schema, those named in `order` first."""
    reader = _Reader(schema.get("$defs", {}))
    group = reader.group(schema, Place(name="", pointer="", label=""))
    rank = {key: i for i, key in enumerate(order)}
    return tuple(sorted(group.fields, key=lambda field: rank.get(field.name, len(rank))))


class _Reader:
    """Reads one document with its definitions."""

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions

    def group(self, schema: Schema, at: Place) -> Group:
        fields, fixed = [], {}
        required = schema.get("required", ())
        for key, member in schema.get("properties", {}).items():
            if "const" in member:
                fixed[key] = member["const"]
                continue
            below = Place(
                name=f"{at.name}.{key}" if at.name else key,
                pointer=f"{at.pointer}/{key}",
                label=_label(key),
                help=member.get("description", ""),
                required=key in required,
            )
            fields.append(self.field(member, below))
        return Group(**_place(at), fields=tuple(fields), fixed=fixed)

    def field(self, schema: Schema, at: Place) -> Field:
        default = schema.get("default")
        members = list(self._members(schema))
        optional = any(member.get("type") == "null" for member in members)
        members = [member for member in members if member.get("type") != "null"]
        if len(members) == 1 and not (optional and _is_object(members[0])):
            return self._single(members[0], at, optional, default)
        words = tuple(member["const"] for member in members if "const" in member)
        others = [member for member in members if "const" not in member]
        if len(words) == len(members):
            shown = "" if default is None else str(default)
            return Choice(**_place(at), options=words, optional=optional, default=shown)
        if len(others) == 1 and not _is_object(others[0]):
            return _text(others[0], at, default, words)
        return self._variants(members, at, optional, default)

    def _members(self, schema: Schema) -> Any:
        """The schemas that a value may follow: references and unions are resolved."""
        if "$ref" in schema:
            yield from self._members(self._definitions[schema["$ref"].rpartition("/")[2]])
        elif union := schema.get("anyOf") or schema.get("oneOf"):
            for member in union:
                yield from self._members(member)
        else:
            yield schema

    def _single(self, schema: Schema, at: Place, optional: bool, default: Any) -> Field:
        if "properties" in schema:
            return self.group(schema, at)
        if _is_object(schema):
            return Pairs(**_place(at), numeric=_takes_numbers(schema))
        if schema.get("type") == "boolean":
            return Switch(**_place(at), default=bool(default))
        if "enum" in schema:
            shown = "" if default is None else str(default)
            options = tuple(map(str, schema["enum"]))
            return Choice(**_place(at), options=options, optional=optional, default=shown)
        return _text(schema, at, default)

    def _variants(self, members: list[Schema], at: Place, optional: bool, default: Any) -> Field:
        options = [Variant(value="", label="not set")] if optional else []
        options += [self._variant(member, at) for member in members]
        if isinstance(default, dict):
            shown = str(default.get("name", ""))
        else:
            shown = "" if default is None else str(default)
        known = {option.value for option in options}
        shown = shown if shown in known else options[0].value
        return Variants(**_place(at), options=tuple(options), default=shown)

    def _variant(self, schema: Schema, at: Place) -> Variant:
        if "const" in schema:
            return Variant(value=schema["const"], label=schema["const"], constant=schema["const"])
        name = schema.get("properties", {}).get("name", {}).get("const")
        title = schema.get("title", "values by name" if _is_object(schema) else "number")
        value = name or _words(title).replace(" ", "-")
        below = Place(name=f"{at.name}:{value}", pointer=at.pointer, label=at.label)
        content = self._single(schema, below, False, None)
        empty = isinstance(content, Group) and not content.fields
        return Variant(
            value=value,
            label=name or _words(title),
            help=schema.get("description", ""),
            content=None if empty else content,
            constant=dict(content.fixed) if isinstance(content, Group) and empty else ABSENT,
        )


def text_of(value: Any) -> str:
    """What an input shows of a value."""
    return value if isinstance(value, str) else json.dumps(value)


def _place(at: Place) -> dict[str, Any]:
    return {
        "name": at.name,
        "pointer": at.pointer,
        "label": at.label,
        "help": at.help,
        "required": at.required,
    }


def _is_object(schema: Schema) -> bool:
    return schema.get("type") == "object"


def _takes_numbers(schema: Schema) -> bool:
    values = schema.get("additionalProperties")
    return isinstance(values, dict) and values.get("type") in ("number", "integer")


def _text(schema: Schema, at: Place, default: Any, words: tuple[str, ...] = ()) -> Text:
    return Text(
        **_place(at),
        numeric=schema.get("type") in ("number", "integer"),
        words=words,
        bounds=_bounds(schema),
        default="" if default is None else text_of(default),
    )


def _bounds(schema: Schema) -> str:
    if schema.get("type") not in ("number", "integer"):
        return ""
    signs = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}
    limits = [f"{sign} {schema[key]:,}" for key, sign in signs.items() if key in schema]
    kind = "whole number" if schema["type"] == "integer" else "number"
    return " ".join([kind, " and ".join(limits)]).strip()


def _label(key: str) -> str:
    words = key.replace("_", " ")
    return words if len(words) == 1 else words[0].upper() + words[1:]


def _words(title: str) -> str:
    """`HeldBack` as `held back`."""
    spaced = "".join(f" {c.lower()}" if c.isupper() else c for c in title)
    return spaced.strip()
