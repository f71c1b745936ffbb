"""Converts the entries of a form to JSON, and JSON to entries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, TypeAlias

from service.dashboard.forms.schema import (
    ABSENT,
    Choice,
    Field,
    Group,
    Pairs,
    Switch,
    Text,
    Variant,
    Variants,
    text_of,
)

Entries: TypeAlias = Mapping[str, str]
"""Values of the inputs of a page by their names; without boxes that are not checked."""


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
            return entries.get(field.name) or ABSENT
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
