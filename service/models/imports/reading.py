"""JSON and NPZ exports as parts by name: sizes and types checked before anything is allocated."""

from __future__ import annotations

import io
import json
import math
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.errors import Fault, InvalidContent
from service.models.exports import JSON
from service.models.exports.document import JSON_PARTS, NAME, VERSION, About, Parts
from service.web.strict_json import parse_json

MOST_MEMBERS = 30
ABOUT_BYTES = 4 * 1024**2
"""Of what an NPZ says of its model in words: certificates of many pairs are long."""

_DTYPE = re.compile(r"<f8|<i8|<i4|\|b1|<U[1-9]\d{0,3}")
_TYPES: dict[str, set[type]] = {"f": {int, float}, "i": {int}, "b": {bool}, "U": {str}}
_FIELDS = {"format", "format_version", "columns", "origin", "parity"}
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, OSError)


def read(path: Path, media_type: str, inflated_bytes: int) -> tuple[Parts, About]:
    """The parts of the model, and what the file says of it.

    Raises InvalidRequest (`malformed-json`) and InvalidContent (`invalid-model`).
    """
    if media_type == JSON:
        return _read_json(path.read_bytes())
    try:
        return _read_npz(path, inflated_bytes)
    except _BROKEN:
        raise invalid("the archive is damaged, or holds other than plain arrays") from None


def invalid(message: str, part: str | None = None) -> InvalidContent:
    """The problem of a file that is no sound model; `part` says where."""
    fault = Fault(code="invalid-model", message=message, pointer=part and f"/model/{part}")
    where = f"{part}: " if part else ""
    return InvalidContent("invalid-model", f"{where}{message}", (fault,))


def _read_json(content: bytes) -> tuple[Parts, About]:
    document = parse_json(content)
    if type(document) is not dict or type(document.get("model")) is not dict:
        raise invalid("the document has no member `model`, an object with the parts")
    given = document.pop("model")
    about = _about(document)
    parts: Parts = {}
    for name, part in given.items():
        if name in JSON_PARTS:
            if type(part) is not dict:
                raise invalid("must be an object", name)
            parts[name] = json.dumps(part, sort_keys=True)
        else:
            parts[name] = _array(name, part) if type(part) is dict else part
    return parts, about


def _array(name: str, part: dict[str, Any]) -> npt.NDArray[Any]:
    """From `dtype`, `shape` and the flat list `values`."""
    if set(part) != {"dtype", "shape", "values"}:
        raise invalid("an array has the members dtype, shape and values, and no others", name)
    code, shape, values = part["dtype"], part["shape"], part["values"]
    if type(code) is not str or not _DTYPE.fullmatch(code):
        raise invalid("its dtype is none of <f8, <i8, <i4, |b1, <U…", name)
    if type(shape) is not list or not all(type(n) is int and n >= 0 for n in shape):
        raise invalid("its shape is no list of sizes", name)
    if type(values) is not list or len(values) != math.prod(shape):
        raise invalid("it has not as many values as its shape says", name)
    dtype = np.dtype(code)
    if not set(map(type, values)) <= _TYPES[dtype.kind]:
        raise invalid(f"its values are not of the type {code}", name)
    if dtype.kind == "U" and max(map(len, values), default=0) > dtype.itemsize // 4:
        raise invalid("a text is longer than its dtype says", name)
    try:
        return np.array(values, dtype).reshape(shape)
    except (OverflowError, ValueError):
        raise invalid(f"a value is too large for {code}", name) from None


def _read_npz(path: Path, inflated_bytes: int) -> tuple[Parts, About]:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) > MOST_MEMBERS or len({one.filename for one in members}) < len(members):
            raise invalid("the archive has too many members, or one of them twice")
        if sum(one.file_size for one in members) > inflated_bytes:
            raise invalid(f"the archive would inflate to more than {inflated_bytes:,} bytes")
        arrays = {one.filename: _member(archive, one) for one in members}
    arrays.pop("readme.npy", None)
    words = arrays.pop("about.npy", None)
    if words is None or words.shape != () or words.dtype.kind != "U":
        raise invalid("the archive has no member about.npy, a text that describes the model")
    about = _about(parse_json(words.item().encode("utf-8", "replace")))
    parts = {
        name.removesuffix(".npy"): array if array.ndim else array.item()
        for name, array in arrays.items()
    }
    return parts, about


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> npt.NDArray[Any]:
    name = member.filename[:64]
    if not re.fullmatch(r"[a-z_]{1,40}\.npy", member.filename) or member.flag_bits & 0x1:
        raise invalid(f"the archive has a member {name!r}, or it is encrypted")
    with archive.open(member) as file:
        content = file.read(member.file_size + 1)
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise invalid(f"{name} is in a version of NPY that is not read here")
    header = np.lib.format.read_array_header_1_0
    if version == (2, 0):
        header = np.lib.format.read_array_header_2_0
    shape, fortran, dtype = header(stream, max_header_size=4096)
    words = dtype.kind == "U" and name in ("readme.npy", "about.npy")
    if not words and not _DTYPE.fullmatch(dtype.str):
        raise invalid(f"the dtype of {name} is none of <f8, <i8, <i4, |b1, <U…")
    start = stream.tell()
    size = len(content) - start
    if fortran or dtype.itemsize * math.prod(shape) != size:
        raise invalid(f"{name} is not as large as its header says, or not in C order")
    if words and size > ABOUT_BYTES:
        raise invalid(f"{name} is too long")
    if dtype.kind == "U":
        characters = np.frombuffer(content, "<u4", offset=start)
        if ((characters > 0x10FFFF) | ((characters >= 0xD800) & (characters < 0xE000))).any():
            raise invalid(f"{name} holds what is no character")
    return np.frombuffer(content, dtype, offset=start).reshape(shape)


def _about(document: Any) -> About:
    if type(document) is not dict or document.get("format") != NAME:
        raise invalid(f"it does not say that it is a {NAME}")
    if document.get("format_version") != VERSION:
        raise invalid(f"its format_version is not {VERSION}, the one that is read here")
    unknown = sorted(set(document) - _FIELDS)
    if unknown:
        raise invalid(f"it has a member {unknown[0][:64]!r}, which is not known here")
    columns, origin = document.get("columns"), document.get("origin")
    if columns is not None and not (
        type(columns) is list and all(type(name) is str and name.strip() for name in columns)
    ):
        raise invalid("`columns` is neither null nor a list of names")
    if columns is not None and len(set(columns)) < len(columns):
        raise invalid("`columns` has a name twice")
    if type(origin) is not dict:
        raise invalid("`origin` is no object")
    return About(columns, origin)
