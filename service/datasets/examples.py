"""Uploads that run as they are, shown in the documentation: twelve iris flowers in each format."""

from __future__ import annotations

import json
from typing import Any

from service.rows.format_table import FORMATS, SUFFIXES
from service.rows.spec import DELIMITED, JSON, LIBSVM, NDJSON, ZIP

_NAMES = ("sepal_length", "sepal_width", "petal_length", "petal_width")
_ROWS: tuple[tuple[tuple[float, ...], str], ...] = (
    ((5.1, 3.5, 1.4, 0.2), "setosa"),
    ((4.9, 3.0, 1.4, 0.2), "setosa"),
    ((4.7, 3.2, 1.3, 0.2), "setosa"),
    ((5.0, 3.6, 1.4, 0.2), "setosa"),
    ((7.0, 3.2, 4.7, 1.4), "versicolor"),
    ((6.4, 3.2, 4.5, 1.5), "versicolor"),
    ((6.9, 3.1, 4.9, 1.5), "versicolor"),
    ((5.5, 2.3, 4.0, 1.3), "versicolor"),
    ((6.3, 3.3, 6.0, 2.5), "virginica"),
    ((5.8, 2.7, 5.1, 1.9), "virginica"),
    ((7.1, 3.0, 5.9, 2.1), "virginica"),
    ((6.3, 2.9, 5.6, 1.8), "virginica"),
)
_SPECIES = ("setosa", "versicolor", "virginica")


def request_body() -> dict[str, Any]:
    """The `openapi_extra=` of the upload: every format as a raw body, and the form."""
    text = {"type": "string"}
    binary = {"type": "string", "format": "binary"}
    content: dict[str, Any] = {
        one.media_type: {"schema": {**binary, "example": f"@data{one.suffixes[0]}"}}
        if one.magic
        else {"schema": text}
        for one in FORMATS.values()
    }
    content[ZIP] = {"schema": {**binary, "example": "@data.csv.zip"}}
    content[JSON]["schema"] = _JSON_SCHEMA
    examples = {
        **{media_type: _delimited(delimiter) for media_type, delimiter in DELIMITED.items()},
        NDJSON: _ndjson(),
        JSON: _json(),
        LIBSVM: _libsvm(),
    }
    for media_type, example in examples.items():
        content[media_type]["example"] = example
    content["multipart/form-data"] = {"schema": _form_schema(binary)}
    return {"requestBody": {"required": True, "content": content}}


_JSON_SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["rows"],
    "additionalProperties": False,
    "properties": {
        "columns": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Names of the columns. Without `labels` one of them holds the labels: "
            "see `target`.",
        },
        "rows": {
            "type": "array",
            "items": {"type": "array", "items": {"type": ["number", "string", "boolean"]}},
            "description": "Numbers, or true and false for 1 and 0; labels may also be texts.",
        },
        "labels": {
            "type": "array",
            "items": {"type": ["string", "number", "boolean"]},
            "description": "One for each row. Left out if the rows hold them, or have none.",
        },
        "target": {"type": "string", "description": "The name of `labels`."},
    },
}


def _form_schema(binary: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "description": "The parameters of the query may also be fields.",
        "required": ["file"],
        "additionalProperties": {"type": "string"},
        "properties": {
            "file": {
                **binary,
                "description": "The data. Their format is the part's Content-Type, or follows "
                f"from the file's name: {', '.join(SUFFIXES)}; else its contents say it. "
                "It may be in a zip file of its own, or compressed by gzip, bzip2, xz or zstd, "
                "such as data.csv.gz.",
                "example": "iris.csv",
            },
            "labels": {
                **binary,
                "description": "One label a line, if `file` holds features only; or an NPY vector.",
            },
        },
    }


def _delimited(delimiter: str) -> str:
    lines = [delimiter.join((*_NAMES, "species"))]
    lines += [delimiter.join((*map(str, row), label)) for row, label in _ROWS]
    return "\n".join(lines) + "\n"


def _json() -> dict[str, Any]:
    return {
        "columns": list(_NAMES),
        "rows": [list(row) for row, _ in _ROWS],
        "labels": [label for _, label in _ROWS],
    }


def _ndjson() -> str:
    rows = (dict(zip((*_NAMES, "species"), (*row, label), strict=True)) for row, label in _ROWS)
    return "".join(json.dumps(row) + "\n" for row in rows)


def _libsvm() -> str:
    lines = []
    for row, label in _ROWS:
        pairs = " ".join(f"{index}:{value}" for index, value in enumerate(row, 1))
        lines.append(f"{_SPECIES.index(label)} {pairs}")
    return "\n".join(lines) + "\n"
