"""A JSON export, read piece by piece: it is never completely in memory."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.common.strict_json import parse_json
from service.models.exports.document import JSON_PARTS, MOST_JSON_VALUES, Parts
from service.models.imports.parts import (
    ARRAYS,
    LONGER,
    NUMBERS,
    TEXT_CHARACTERS,
    check_array,
    check_name,
    check_number,
    check_text,
    invalid,
)
from service.models.mapped import mapped
from service.rows.json_reading.stream import Span, elements, is_object, members, raw
from service.rows.spec import HEADER_BYTES
from service.rows.table.arrays import ArrayWriter
from service.settings import Limits

MODEL = "model"
COLUMNS = "columns"
SHORT_BYTES = 8 * TEXT_CHARACTERS
"""Longest part that is not an array."""

_TYPES: dict[str, set[type]] = {"f": {int, float}, "i": {int}, "b": {bool}, "U": {str}}


def read(path: Path, limits: Limits) -> tuple[Parts, dict[str, Span]]:
    """The parts of the model, with arrays in files next to `path`, and the spans of the other
    members.

    Raises InvalidRequest (`malformed-json`) and InvalidContent (`invalid-model`).
    """
    document = members(path)
    span = document.pop(MODEL, None)
    if span is None:
        raise invalid("the document has no member `model`, an object with the parts")
    spans = _object(path, span, "`model` is not an object with the parts", None)
    for name in spans:
        check_name(name)
    parts: Parts = {}
    left = MOST_JSON_VALUES
    for name, part in spans.items():
        parts[name] = _part(path, name, part, limits, left)
        left -= parts[name].size if name in ARRAYS else 0
    return parts, document


def _part(path: Path, name: str, span: Span, limits: Limits, most_values: int) -> Any:
    if name in ARRAYS:
        return _array(path, name, span, limits, most_values)
    if span.end - span.start > 8 * LONGER.get(name, TEXT_CHARACTERS):
        raise invalid("it is too long", name)
    value = parse_json(raw(path, span))
    if name in NUMBERS:
        check_number(name, value)
        return value
    if name in JSON_PARTS:
        expected = list if name == COLUMNS else dict
        if type(value) is not expected:
            raise invalid(f"must be {'a list' if name == COLUMNS else 'an object'}", name)
        value = json.dumps(value, sort_keys=True, ensure_ascii=False)
    check_text(name, value)
    return value


def _array(path: Path, name: str, span: Span, limits: Limits, most_values: int) -> npt.NDArray[Any]:
    """From `dtype`, `shape` and the flat list `values`."""
    part = _object(path, span, "it is not an array: an object with dtype, shape, values", name)
    if set(part) != {"dtype", "shape", "values"}:
        raise invalid("an array has the members dtype, shape and values, and no others", name)
    if max(value.end - value.start for key, value in part.items() if key != "values") > SHORT_BYTES:
        raise invalid("its dtype or shape is too long", name)
    shape = parse_json(raw(path, part["shape"]))
    dtype = check_array(name, parse_json(raw(path, part["dtype"])), shape, limits)
    count = math.prod(shape)
    if count > most_values:
        message = f"the model has more than {MOST_JSON_VALUES:,} numbers; import it as NPZ"
        raise invalid(message, name)
    file = path.with_name(f"{name}.npy")
    with ArrayWriter(file, dtype.str) as writer:
        if _write_values(writer, path, name, part["values"], dtype, count) != count:
            raise invalid("the number of its values does not match its shape", name)
        writer.finish(tuple(shape))
    return mapped(file, dtype, tuple(shape), HEADER_BYTES)


def _object(path: Path, span: Span, otherwise: str, name: str | None) -> dict[str, Span]:
    if not is_object(path, span):
        if span.end - span.start <= SHORT_BYTES:
            parse_json(raw(path, span))  # raises if it is not JSON
        raise invalid(otherwise, name)
    return members(path, span)


def _write_values(
    writer: ArrayWriter, path: Path, name: str, span: Span, dtype: np.dtype[Any], count: int
) -> int:
    """Write at most `count` values; returns their number."""
    batches = elements(path, span)
    if batches is None:
        raise invalid("its values are not a list", name)
    done = 0
    for batch in batches:
        done += len(batch)
        if done > count:
            break
        if not set(map(type, batch)) <= _TYPES[dtype.kind]:
            raise invalid(f"its values are not of the type {dtype.str}", name)
        if dtype.kind == "U" and max(map(len, batch), default=0) > dtype.itemsize // 4:
            raise invalid("a text is longer than its dtype says", name)
        try:
            writer.write(np.array(batch, dtype))
        except (OverflowError, ValueError):
            raise invalid(f"a value is too large for {dtype.str}", name) from None
    return done
