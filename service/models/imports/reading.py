"""JSON and NPZ exports as parts by name, and what they say of their model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from service.models.exports import JSON
from service.models.exports.document import NAME, VERSION, About, Parts
from service.models.imports import json_document, npz_archive
from service.models.imports.parts import invalid
from service.rows.formats.json_stream import raw
from service.settings import Limits
from service.web.bodies.strict_json import parse_json

ABOUT_BYTES = 2 * 1024**2
"""Of what a file says of its model, as JSON: certificates of many pairs are long."""
ABOUT_VALUES = 200_000
"""The same in values; each of them takes many bytes as a Python object."""

_FIELDS = {"format", "format_version", "columns", "origin", "parity"}


def read(path: Path, media_type: str, limits: Limits) -> tuple[Parts, About]:
    """The parts of the model, whose large arrays stay in files beside `path`; and what the file
    says of it.

    Raises InvalidRequest (`malformed-json`), TooLarge and InvalidContent (`invalid-model`).
    """
    if media_type != JSON:
        parts, about = npz_archive.read(path, limits, 4 * ABOUT_BYTES)
        return parts, _about(_parsed(about))
    parts, places = json_document.read(path, limits)
    _check_fields(set(places))
    if sum(place.end - place.start for place in places.values()) > ABOUT_BYTES:
        raise _too_long()
    return parts, _about({name: _parsed(raw(path, place)) for name, place in places.items()})


def _parsed(text: bytes) -> Any:
    if len(text) > ABOUT_BYTES or sum(map(text.count, (b",", b"[", b"{"))) > ABOUT_VALUES:
        raise _too_long()
    return parse_json(text)


def _too_long() -> Exception:
    return invalid("what it says of the model, besides its parts, is too long")


def _about(document: Any) -> About:
    if type(document) is not dict or document.get("format") != NAME:
        raise invalid(f"it does not say that it is a {NAME}")
    if document.get("format_version") != VERSION:
        raise invalid(f"its format_version is not {VERSION}, the one that is read here")
    _check_fields(set(document))
    columns, origin = document.get("columns"), document.get("origin")
    if columns is not None and not (
        type(columns) is list and all(type(name) is str and name.strip() for name in columns)
    ):
        raise invalid("`columns` is neither null nor a list of names")
    if columns is not None and len(set(columns)) < len(columns):
        raise invalid("`columns` has a name twice")
    if type(origin) is not dict:
        raise invalid("`origin` is not an object")
    return About(columns, origin)


def _check_fields(names: set[str]) -> None:
    unknown = sorted(names - _FIELDS)
    if unknown:
        raise invalid(f"it has a member {unknown[0][:64]!r}, which is not known here")
