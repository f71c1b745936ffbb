"""JSON and NPZ exports: the parts of a model by name, as `FittedPipeline.to_arrays` gives them."""

from __future__ import annotations

import inspect
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import orjson

from service.errors import InvalidContent
from service.models.exports import ExportFormat, plain

NAME = "svm-service-model"
VERSION = 1
"""Version of the document format; older ones stay readable."""
MOST_JSON_VALUES = 8_000_000
"""Numbers of a JSON export: about 160 MB."""
JSON_PARTS = ("features", "kernel", "encoding", "columns", "target", "texts")
"""Stored as a text with JSON; in a JSON document they are objects."""

Parts: TypeAlias = dict[str, Any]
"""Arrays, numbers and texts by name."""


@dataclass(frozen=True, slots=True)
class About:
    """Members of a document besides the model's parts."""

    columns: list[str] | None
    origin: dict[str, Any]
    parity: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "format": NAME,
            "format_version": VERSION,
            "columns": self.columns,
            "origin": self.origin,
            "parity": self.parity,
        }


def write(form: ExportFormat, parts: Parts, about: About, path: Path) -> None:
    """Write JSON or NPZ, the same bytes for the same arguments.

    Raises InvalidContent (`export-unsupported`) if JSON would be too large.
    """
    if form == "npz":
        _write_npz(parts, about, path)
    else:
        _write_json(parts, about, path)


def _write_json(parts: Parts, about: About, path: Path) -> None:
    count = sum(part.size for part in parts.values() if isinstance(part, np.ndarray))
    if count > MOST_JSON_VALUES:
        raise InvalidContent(
            "export-unsupported",
            f"as JSON the {count:,} numbers of this model would be too large; at most "
            f"{MOST_JSON_VALUES:,} are written; use npz",
        )
    model = {name: _as_json(name, part) for name, part in parts.items()}
    path.write_bytes(orjson.dumps({**about.as_dict(), "model": model}))


def _as_json(name: str, part: Any) -> Any:
    if isinstance(part, np.ndarray):
        values = part.ravel().tolist()
        return {"dtype": _little(part).dtype.str, "shape": list(part.shape), "values": values}
    return json.loads(part) if name in JSON_PARTS else part


def _write_npz(parts: Parts, about: About, path: Path) -> None:
    members = {name: _little(np.asarray(part)) for name, part in parts.items()}
    members["about"] = np.array(json.dumps(about.as_dict(), ensure_ascii=False))
    members["readme"] = np.array(inspect.getsource(plain))
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in members.items():  # with the date 1980-01-01, as NumPy does it
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)


def _little(array: Any) -> Any:
    """In the byte order and layout of the digest."""
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return little.reshape(array.shape)
