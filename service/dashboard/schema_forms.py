"""Converts a JSON Schema to the fields of an HTML form, entries to a body, and a body to entries.

It works for any schema: new members of a request appear on the page by themselves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any, ClassVar, TypeAlias

from service.web.bodies.validation import Schema, variants_of

Entries: TypeAlias = Mapping[str, str]
"""Values of the inputs of a page by their names; without boxes that are not checked."""
ABSENT: Any = object()
"""The value of an empty field: it is left out of the body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldBase:
    """What all kinds of fields have."""

    name: str
    """Name of its input, unique on the page."""
    pointer: str
    """JSON pointer to its value in the body."""
    label: str
    help: str = ""
    required: bool = False

    @property
    def key(self) -> str:
        """Name of its member in the body."""
        return self.pointer.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(FieldBase):
    """A number, a text or a list; `words` are texts that are allowed instead of a number."""

    kind: ClassVar[str] = "text"
    numeric: bool
    words: tuple[str, ...] = ()
    listed: bool = False
    """A list, written as JSON."""
    bounds: str = ""
    """The allowed range, as a text."""
    default: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice(FieldBase):
    """One of several words; or none if `optional`."""

    kind: ClassVar[str] = "choice"
    options: tuple[str, ...]
    optional: bool = False
    default: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch(FieldBase):
    """Yes or no."""

    kind: ClassVar[str] = "switch"
    default: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs(FieldBase):
    """Names with values, as lines `name = value`."""

    kind: ClassVar[str] = "pairs"
    numeric: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Group(FieldBase):
    """An object: its fields, and its constant members."""

    kind: ClassVar[str] = "group"
    fields: tuple[Field, ...]
    fixed: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One kind of value."""

    value: str
    """Value of its button; empty for null."""
    label: str
    help: str = ""
    content: Field | None = None
    """None if there are no further inputs."""
    constant: Any = ABSENT
    """The value itself, without `content`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variants(FieldBase):
    """A value of one of several kinds."""

    kind: ClassVar[str] = "variants"
    options: tuple[Variant, ...]
    default: str = ""


YES_OR_NO = {"yes": True, "no": False}
"""Options of a choice that is a boolean."""
Field: TypeAlias = Text | Choice | Switch | Pairs | Group | Variants


def fields_of(schema: Schema, order: Sequence[str] = ()) -> tuple[Field, ...]:
    """A field for each property of an object's schema; those in `order` first."""
    reader = _Reader(schema)
    group = reader.group(schema, FieldBase(name="", pointer="", label=""))
    rank = {key: i for i, key in enumerate(order)}
    return tuple(sorted(group.fields, key=lambda field: rank.get(field.name, len(rank))))


class _Reader:
    """Reads one schema with its definitions."""

    def __init__(self, root: Schema) -> None:
        self._root = root

    def group(self, schema: Schema, at: FieldBase) -> Group:
        fields, fixed = [], {}
        required = schema.get("required", ())
        for key, member in schema.get("properties", {}).items():
            if "const" in member:
                fixed[key] = member["const"]
                continue
            below = FieldBase(
                name=f"{at.name}.{key}" if at.name else key,
                pointer=f"{at.pointer}/{key}",
                label=_label(key),
                help=member.get("description", ""),
                required=key in required,
            )
            fields.append(self.field(member, below))
        return Group(**_base(at), fields=tuple(fields), fixed=fixed)

    def field(self, schema: Schema, at: FieldBase) -> Field:
        default = schema.get("default")
        members = [
            constant for one in variants_of(schema, self._root) for constant in _constants(one)
        ]
        optional = any(member.get("type") == "null" for member in members)
        members = [member for member in members if member.get("type") != "null"]
        words = tuple(member["const"] for member in members if "const" in member)
        others = [member for member in members if "const" not in member]
        if not others:
            shown = "" if default is None else str(default)
            return Choice(**_base(at), options=words, optional=optional, default=shown)
        if len(others) == 1 and not _is_object(others[0]) and words:
            return _text(others[0], at, default, words)
        if optional and [member.get("type") for member in members] == ["boolean"]:
            return Choice(**_base(at), options=tuple(YES_OR_NO), optional=True)
        if len(members) == 1 and not (optional and _is_object(members[0])):
            return self._single(members[0], at, default)
        return self._variants(members, at, optional, default)

    def _single(self, schema: Schema, at: FieldBase, default: Any) -> Field:
        if "properties" in schema:
            return self.group(schema, at)
        if _is_object(schema):
            return Pairs(**_base(at), numeric=_takes_numbers(schema))
        if schema.get("type") == "boolean":
            return Switch(**_base(at), default=bool(default))
        return _text(schema, at, default)

    def _variants(
        self, members: list[Schema], at: FieldBase, optional: bool, default: Any
    ) -> Field:
        options = [Variant(value="", label="not set")] if optional else []
        options += [self._variant(member, at) for member in members]
        if isinstance(default, dict):
            shown = str(default.get("name", ""))
        else:
            shown = "" if default is None else str(default)
        known = {option.value for option in options}
        shown = shown if shown in known else options[0].value
        return Variants(**_base(at), options=tuple(options), default=shown)

    def _variant(self, schema: Schema, at: FieldBase) -> Variant:
        if "const" in schema:
            return Variant(value=schema["const"], label=schema["const"], constant=schema["const"])
        name = schema.get("properties", {}).get("name", {}).get("const")
        title = schema.get("title", "values by name" if _is_object(schema) else "number")
        value = name or _words(title).replace(" ", "-")
        below = FieldBase(name=f"{at.name}:{value}", pointer=at.pointer, label=at.label)
        content = self._single(schema, below, None)
        empty = isinstance(content, Group) and not content.fields
        return Variant(
            value=value,
            label=name or _words(title),
            help=schema.get("description", ""),
            content=None if empty else content,
            constant=dict(content.fixed) if isinstance(content, Group) and empty else ABSENT,
        )


def text_of(value: Any) -> str:
    """A value as the text of an input."""
    return value if isinstance(value, str) else json.dumps(value)


def _base(at: FieldBase) -> dict[str, Any]:
    return {member.name: getattr(at, member.name) for member in fields(at)}


def _is_object(schema: Schema) -> bool:
    return schema.get("type") == "object"


def _constants(schema: Schema) -> list[Schema]:
    """One schema for each word of a member of a union."""
    words = schema.get("enum")
    return [schema] if words is None else [{"type": "string", "const": word} for word in words]


def _takes_numbers(schema: Schema) -> bool:
    values = schema.get("additionalProperties")
    return isinstance(values, dict) and values.get("type") in ("number", "integer")


def _text(schema: Schema, at: FieldBase, default: Any, words: tuple[str, ...] = ()) -> Text:
    return Text(
        **_base(at),
        numeric=schema.get("type") in ("number", "integer"),
        words=words,
        listed=schema.get("type") == "array",
        bounds=_bounds(schema),
        default="" if default is None else text_of(default),
    )


def _bounds(schema: Schema) -> str:
    if schema.get("type") == "array":
        example = '[{"x": 2}, {"x": 1, "y": 1}]' if _is_object(schema["items"]) else '["a", "b"]'
        return f"list, such as {example}"
    if schema.get("type") not in ("number", "integer"):
        return ""
    signs = {"exclusiveMinimum": ">", "minimum": "≥", "exclusiveMaximum": "<", "maximum": "≤"}
    limits = [
        "> 0" if schema[key] == 1e-100 else f"{sign} {schema[key]:,}"
        for key, sign in signs.items()
        if key in schema and schema[key] < 1e100  # no limit of a person
    ]
    kind = "whole number" if schema["type"] == "integer" else "number"
    return " ".join([kind, " and ".join(limits)]).strip()


def _label(key: str) -> str:
    words = key.replace("_", " ")
    return words if len(words) == 1 else words[0].upper() + words[1:]


def _words(title: str) -> str:
    """`ValidationSplit` as `validation split`."""
    spaced = "".join(f" {c.lower()}" if c.isupper() else c for c in title)
    return spaced.strip()


def body_of(fields: Sequence[Field], entries: Entries) -> dict[str, Any]:
    """The body from the entries. A text instead of a number stays a text: the validation of the
    body reports it."""
    values = {field.key: _value(field, entries) for field in fields}
    return {key: value for key, value in values.items() if value is not ABSENT}


def entries_of(fields: Sequence[Field], body: Mapping[str, Any]) -> dict[str, str]:
    """Entries that show a body, with defaults for what it does not have."""
    entries: dict[str, str] = {}
    for field in fields:
        _write(field, body.get(field.key, ABSENT), entries)
    return entries


def _value(field: Field, entries: Entries) -> Any:
    match field:
        case Text():
            written = entries.get(field.name, "").strip()
            if not written:
                return ABSENT
            if field.listed:
                return _list_in(written)
            return number_in(written) if field.numeric and written not in field.words else written
        case Choice():
            chosen = entries.get(field.name) or ABSENT
            return YES_OR_NO.get(chosen, chosen) if field.options == tuple(YES_OR_NO) else chosen
        case Switch():
            return field.name in entries
        case Pairs():
            return _pairs(field, entries)
        case Group():
            members = body_of(field.fields, entries)
            return {**field.fixed, **members} if members or field.fixed else ABSENT
        case Variants():
            chosen = entries.get(field.name, field.default)
            option = next((option for option in field.options if option.value == chosen), None)
            if option is None:
                return {"name": chosen[:64]}
            if option.content is None:
                return option.constant
            value = _value(option.content, entries)
            # Chosen and left empty: validation reports what is missing.
            return {} if value is ABSENT and not isinstance(option.content, Text) else value


def _list_in(written: str) -> Any:
    """The list, else the text itself."""
    try:
        value = json.loads(written, parse_constant=lambda _: written)
    except (ValueError, RecursionError):
        return written
    return value if isinstance(value, list) else written


def _pairs(field: Pairs, entries: Entries) -> Any:
    values = {}
    for line in entries.get(field.name, "").splitlines():
        name, _, value = line.partition("=")
        if line.strip():
            values[name.strip()] = number_in(value.strip()) if field.numeric else value.strip()
    return values or ABSENT


def number_in(written: str) -> Any:
    """An integer or a finite float, else the text itself."""
    try:
        number = json.loads(written, parse_constant=lambda _: written)
    except ValueError:
        return written
    valid = type(number) is int or (type(number) is float and isfinite(number))
    return number if valid else written


def _write(field: Field, value: Any, entries: dict[str, str]) -> None:
    given = value is not ABSENT and value is not None
    match field:
        case Choice() if isinstance(value, bool):
            entries[field.name] = "yes" if value else "no"
        case Text() | Choice():
            entries[field.name] = text_of(value) if given else field.default
        case Switch():
            if value if given else field.default:
                entries[field.name] = "on"
        case Pairs():
            pairs = value.items() if given else ()
            lines = [f"{name} = {text_of(member)}" for name, member in pairs]
            entries[field.name] = "\n".join(lines)
        case Group():
            members = value if given else {}
            entries.update(entries_of(field.fields, members))
        case Variants():
            chosen = next((o for o in field.options if given and _fits(o, value)), None)
            entries[field.name] = field.default if chosen is None else chosen.value
            for option in field.options:
                if option.content is not None:
                    _write(option.content, value if option is chosen else ABSENT, entries)


def _fits(option: Variant, value: Any) -> bool:
    if option.content is None:
        return bool(option.value and option.constant == value)
    match option.content:
        case Group(fields=fields, fixed=fixed):
            if not isinstance(value, dict):
                return False
            constant = all(value.get(key, fixed[key]) == fixed[key] for key in fixed)
            named = value.get("name") == fixed.get("name")
            return constant and named and set(value) <= {*(each.key for each in fields), *fixed}
        case Pairs():
            return isinstance(value, dict)
        case Variants(options=options):
            return any(_fits(option, value) for option in options)
        case _:
            return not isinstance(value, dict)
