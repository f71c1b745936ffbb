"""NPZ: an archive of the arrays `X` and, for the labels, `y`, as `numpy.savez` writes it."""

from __future__ import annotations

import errno
import struct
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.datasets.parsing import npy
from service.datasets.parsing.faults import MAX_RATIO, Faults, inflates_too_much, refuse
from service.datasets.parsing.labels import Labels, Target, wrong_count
from service.datasets.parsing.layout import NO_TARGET
from service.datasets.parsing.spec import ParseSpec
from service.datasets.parsing.writers import Table
from service.errors import InvalidContent, InvalidRequest

MEMBERS = {"X.npy", "y.npy"}
CHUNK_BYTES = 1024 * 1024

_END = struct.Struct("<4s4H2LH")
_END_SIGNATURE = b"PK\x05\x06"
_LARGE_SIGNATURE = b"PK\x06\x07"
_LARGE_BYTES = 20
_MAX_DIRECTORY_BYTES = 4096
"""Two members need some 120; reading a longer one would cost memory before anything is known."""
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, EOFError, ValueError, OverflowError, struct.error),
    *(RuntimeError, NotImplementedError),  # encrypted, compressed in another way
)


def read(spec: ParseSpec) -> Table:
    """Write `X.npy`. Raises ServiceError for what is wrong with the archive or its arrays."""
    found = _extract(spec)
    if "X.npy" not in found:
        raise _unsafe("the archive has no member X.npy")
    labelled = "y.npy" in found
    if labelled and (spec.labels is not None or spec.target not in (None, NO_TARGET)):
        message = "the labels are in the archive, as y: leave out `labels` and `target`"
        raise InvalidRequest("invalid-parameter", message)
    target = NO_TARGET if spec.target is None else spec.target
    table = npy.read(replace(spec, data=str(found["X.npy"]), target=target))
    if not labelled:
        return table
    return replace(table, target=_labels(found["y.npy"], table.n_samples))


def _labels(path: Path, n_samples: int) -> Target:
    labels = Labels(Faults())
    for block in npy.read_labels(path, texts=True):
        if block.dtype.kind == "U":
            labels.add_json(_texts(block))
        else:
            labels.add_numbers(block)
    if labels.count != n_samples:
        raise wrong_count(labels.count, n_samples)
    return labels.finish()


def _texts(block: npt.NDArray[Any]) -> list[str]:
    number = np.dtype(np.uint32).newbyteorder(block.dtype.byteorder)
    characters = np.ascontiguousarray(block).view(number)
    # NumPy would end the conversion with a SystemError, or make texts that nobody can write.
    if ((characters > 0x10FFFF) | ((characters >= 0xD800) & (characters < 0xE000))).any():
        raise refuse("npy-corrupt", "a label holds what is no character")
    texts: list[str] = block.tolist()
    return texts


def _extract(spec: ParseSpec) -> dict[str, Path]:
    """The members by name, inflated beside the archive. Raises InvalidContent and TooLarge."""
    archive_path = Path(spec.data)
    _check_directory(archive_path)
    found: dict[str, Path] = {}
    try:
        with zipfile.ZipFile(archive_path) as archive:
            members = archive.infolist()
            _check_members(members)
            for member in members:
                found[member.filename] = Path(spec.out) / f"member-{len(found)}"
            _inflate(archive, found, archive_path.stat().st_size, spec.limits.inflated_bytes)
    except _BROKEN:
        raise _damaged() from None
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise _damaged() from None  # a member that begins before the file does
    return found


def _check_directory(path: Path) -> None:
    """The archive ends with its directory, and that is short: looked at before it is read."""
    size = path.stat().st_size
    tail_bytes = min(size, _LARGE_BYTES + _END.size)
    with path.open("rb") as file:
        file.seek(size - tail_bytes)
        tail = file.read()
    if tail_bytes < _END.size or tail[-_END.size :][:4] != _END_SIGNATURE:
        raise _unsafe("the archive does not end as one without a comment does")
    if tail.startswith(_LARGE_SIGNATURE):
        raise _unsafe("the archive has a directory for more than 4 GiB")
    *_, n_members, directory_bytes, _, comment_bytes = _END.unpack(tail[-_END.size :])
    if comment_bytes or n_members > len(MEMBERS) or directory_bytes > _MAX_DIRECTORY_BYTES:
        raise _unsafe(f"the archive has more than its members {' and '.join(sorted(MEMBERS))}")


def _check_members(members: list[zipfile.ZipInfo]) -> None:
    names = [member.filename for member in members]
    for name in names:
        if name not in MEMBERS:
            message = f"the archive has a member {name[:64]!r}"
            raise _unsafe(message, value=name[:64])
        if names.count(name) > 1:
            raise _unsafe(f"the archive has two members {name!r}", value=name)
    if any(member.flag_bits & 0x1 for member in members):
        raise _unsafe("the archive is encrypted")


def _inflate(
    archive: zipfile.ZipFile, members: dict[str, Path], archive_bytes: int, limit_bytes: int
) -> None:
    """Raises TooLarge as soon as there is too much, whatever the directory says."""
    limit = min(limit_bytes, MAX_RATIO * archive_bytes)
    inflated = 0
    for name, path in members.items():
        with archive.open(name) as member, path.open("wb") as file:
            while chunk := member.read(CHUNK_BYTES):
                inflated += len(chunk)
                if inflated > limit:
                    raise inflates_too_much("archive", limit_bytes)
                file.write(chunk)


def _damaged() -> InvalidContent:
    return _unsafe("the archive is damaged, or compressed in a way that is not read")


def _unsafe(message: str, value: str | None = None) -> InvalidContent:
    hint = "write it with savez(file, X=X, y=y)"
    return refuse("npz-unsafe", message, value=value, hint=hint)
