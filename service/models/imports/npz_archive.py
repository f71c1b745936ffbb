"""An NPZ export: its members are unpacked to files, whose headers are checked first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt

from service.errors import InvalidContent
from service.models.exports.document import Parts
from service.models.imports.parts import (
    ARRAYS,
    LONGER,
    NUMBERS,
    check_array,
    check_name,
    check_number,
    check_text,
    invalid,
)
from service.models.mapped import mapped
from service.rows.formats.archive import Archive, BadArchive
from service.rows.formats.npy import MAX_TEXT_BYTES, read_header, texts_of
from service.settings import Limits

ABOUT, README = "about", "readme"
MOST_MEMBERS = 30
_SUFFIX = ".npy"


def read(path: Path, limits: Limits, about_bytes: int) -> tuple[Parts, bytes]:
    """The parts of the model, with arrays in files next to `path`, and the text of its member
    `about`, at most `about_bytes` long.

    Raises InvalidContent (`invalid-model`), and TooLarge for an archive that inflates too much.
    """
    try:
        archive = Archive(path, MOST_MEMBERS)
        names = [_part_of(member) for member in archive.names if member != README + _SUFFIX]
        if ABOUT not in names:
            raise invalid("the archive has no member about.npy, a text that describes the model")
        files = archive.unpack([name + _SUFFIX for name in names], path.parent, limits.upload_bytes)
    except BadArchive as error:
        raise invalid(error.message) from None
    about = _text(ABOUT, files.pop(ABOUT + _SUFFIX), about_bytes)
    parts = {
        name.removesuffix(_SUFFIX): _part(name.removesuffix(_SUFFIX), file, limits)
        for name, file in files.items()
    }
    return parts, about.encode()


def _part_of(member: str) -> str:
    name = member.removesuffix(_SUFFIX)
    if name == member:
        raise invalid(f"the archive has a member {member[:64]!r}")
    if name != ABOUT:
        check_name(name)
    return name


def _part(name: str, file: Path, limits: Limits) -> Any:
    if name in ARRAYS:
        array = _array(name, file, MAX_TEXT_BYTES)
        check_array(name, array.dtype.str, array.shape, limits)
        if array.dtype.kind == "U":
            _texts(name, array)
        return array
    if name in NUMBERS:
        array = _array(name, file, 0)
        number = array.item() if array.shape == () else None
        check_number(name, number)
        return number
    text = _text(name, file, 4 * LONGER.get(name, MAX_TEXT_BYTES // 4))
    check_text(name, text)
    return text


def _text(name: str, file: Path, most_bytes: int) -> str:
    array = _array(name, file, most_bytes)
    if array.shape != () or array.dtype.kind != "U":
        raise invalid("it is not a text", name)
    return _texts(name, array.reshape(1))[0]


def _texts(name: str, array: npt.NDArray[Any]) -> list[str]:
    try:
        return texts_of(array)
    except InvalidContent:
        raise invalid("a text contains an invalid character", name) from None


def _array(name: str, file: Path, text_bytes: int) -> npt.NDArray[Any]:
    try:
        with file.open("rb") as opened:
            header = read_header(opened, file.stat().st_size, text_bytes=text_bytes)
    except InvalidContent as error:
        raise invalid(error.faults[0].message, name) from None
    if header.fortran_order and len(header.shape) > 1:
        raise invalid("it is not in C order", name)
    return mapped(file, header.dtype, header.shape, header.size)
