"""Reads JSON and NPZ exports: the model's parts by name, and the facts about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from service.common.strict_json import parse_json
from service.models.exports import JSON
from service.models.exports.document import NAME, VERSION, About, Parts
from service.models.imports import json_document, npz_archive
from service.models.imports.parts import invalid
from service.rows.cell_texts.reading import Reading
from service.rows.json_reading.stream import raw
from service.settings import Limits

ABOUT_BYTES = 2 * 1024**2
"""Longest JSON besides the model's parts: certificates of many pairs are long."""
ABOUT_VALUES = 200_000
"""Most values in it, since each is a Python object of many bytes."""

_FIELDS = {"format", "format_version", "columns", "origin", "parity"}


def read(path: Path, media_type: str, limits: Limits) -> tuple[Parts, About]:
    """The parts of the model, with large arrays in files next to `path`, and the facts about it.

    Raises InvalidRequest (`malformed-json`), TooLarge and InvalidContent (`invalid-model`).
    """
    if media_type != JSON:
        parts, about = npz_archive.read(path, limits, 4 * ABOUT_BYTES)
        return parts, _about(_parsed(about))
    parts, spans = json_document.read(path, limits)
    _check_fields(set(spans))
    if sum(span.end - span.start for span in spans.values()) > ABOUT_BYTES:
        raise _too_long()
    return parts, _about({name: _parsed(raw(path, span)) for name, span in spans.items()})


def _parsed(text: bytes) -> Any:
    if len(text) > ABOUT_BYTES or sum(map(text.count, (b",", b"[", b"{"))) > ABOUT_VALUES:
        raise _too_long()
    return parse_json(text)


def _too_long() -> Exception:
    return invalid("the members besides the model's parts are too long")


def _about(document: Any) -> About:
    if type(document) is not dict or document.get("format") != NAME:
        raise invalid(f"its format is not {NAME}")
    if document.get("format_version") != VERSION:
        raise invalid(f"its format_version is not {VERSION}, the supported one")
    _check_fields(set(document))
    columns, origin = document.get("columns"), document.get("origin")
    if columns is not None and not (
        type(columns) is list and all(type(name) is str and name.strip() for name in columns)
    ):
        raise invalid("`columns` is not null or a list of names")
    if columns is not None and len(set(columns)) < len(columns):
        raise invalid("`columns` has a name twice")
    if type(origin) is not dict:
        raise invalid("`origin` is not an object")
    try:
        Reading.of(origin.get("reading"))
    except ValueError as error:
        raise invalid(f"`reading` of its origin: {error}") from None
    return About(columns, origin)


def _check_fields(names: set[str]) -> None:
    unknown = sorted(names - _FIELDS)
    if unknown:
        raise invalid(f"it has an unknown member {unknown[0][:64]!r}")
