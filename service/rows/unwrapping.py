"""Files inside of archives: the one member of a zip file, or what a compressed file holds.

The suffix of the inner name is the format, or else its contents say it.
"""

from __future__ import annotations

import bz2
import lzma
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath

from service.common.encodings import Decompressor, Inflater, Zlib
from service.errors import InvalidContent, UnsupportedFormat
from service.rows.faults import refuse
from service.rows.format_table import FORMATS, HEAD_BYTES, LABEL_FORMATS, SUFFIXES, format_of
from service.rows.formats.shared.archive import Archive, BadArchive
from service.rows.spec import BZIP2, CSV, GZIP, UNKNOWN, XZ, ZIP, ZSTD, ParseSpec

if sys.version_info >= (3, 14):
    from compression.zstd import DecompressionParameter, ZstdDecompressor
else:
    from backports.zstd import DecompressionParameter, ZstdDecompressor

ARCHIVES = {".zip": ZIP, ".gz": GZIP, ".bz2": BZIP2, ".xz": XZ, ".zst": ZSTD}
"""By the suffix of a name."""
MAX_MEMBERS = 200
"""In the directory of a zip file, to be listed if there are too many."""
BLOCK_BYTES = 64 * 1024
"""Small: after each, the size of what it holds is checked."""
WINDOW_LOG = 26
"""Of xz and zstd: what they may keep in memory is 64 MiB, as `xz -9` needs."""
_DECOMPRESSORS: dict[str, Callable[[], Decompressor]] = {
    GZIP: Zlib,
    BZIP2: bz2.BZ2Decompressor,
    XZ: partial(lzma.LZMADecompressor, memlimit=(1 << WINDOW_LOG) + (4 << 20)),
    ZSTD: partial(ZstdDecompressor, options={DecompressionParameter.window_log_max: WINDOW_LOG}),
}
_OF_SYSTEMS = ("__MACOSX/", ".DS_Store")
_HINT = "send a zip file of one file"
_HAS_NAME, _HAS_EXTRA = 8, 4
_FIXED_BYTES = 10
"""How long the header of a gzip file is without its optional parts."""


@dataclass(frozen=True, slots=True)
class _Inner:
    path: Path
    media_type: str


def unwrapped(spec: ParseSpec) -> ParseSpec:
    """The same upload without archives, and with the format of a file whose name does not say it.

    Raises ServiceError for those that are not read.
    """
    if spec.media_type == UNKNOWN:
        spec = replace(spec, media_type=format_of(_head(Path(spec.data))))
    if spec.media_type in ARCHIVES.values():
        inner = _inner(spec, spec.data, spec.media_type, spec.name, tuple(FORMATS))
        spec = replace(spec, data=str(inner.path), media_type=inner.media_type)
    if spec.labels is not None and spec.labels_media_type in ARCHIVES.values():
        media_type, name = spec.labels_media_type, spec.labels_name
        inner = _inner(spec, spec.labels, media_type, name, LABEL_FORMATS)
        spec = replace(spec, labels=str(inner.path), labels_media_type=inner.media_type)
    return spec


def _head(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(HEAD_BYTES)


def _inner(
    spec: ParseSpec, data: str, media_type: str, name: str, offered: tuple[str, ...]
) -> _Inner:
    path = Path(data)
    if media_type == ZIP:
        return _member(spec, path, offered)
    outer = PurePosixPath(name)
    inner_name = outer.stem if ARCHIVES.get(outer.suffix.lower()) == media_type else ""
    if media_type == GZIP and not inner_name:
        inner_name = _name_in_header(path)
    inner = path.with_name(f"{path.name}-inflated")
    what = media_type.rpartition("/")[2].removeprefix("x-")
    inflater = Inflater(spec.limits.inflated_bytes, _DECOMPRESSORS[media_type], what)
    with path.open("rb") as file, inner.open("wb") as out:
        while block := file.read(BLOCK_BYTES):
            for piece in inflater.feed(block):
                out.write(piece)
        inflater.finish()
    return _Inner(inner, _format(inner_name, inner, offered))


def _member(spec: ParseSpec, path: Path, offered: tuple[str, ...]) -> _Inner:
    try:
        archive = Archive(path, MAX_MEMBERS)
        names = [name for name in archive.names if not _is_of_system(name)]
        if len(names) != 1:
            listed = ", ".join(repr(name[:64]) for name in names[:20])
            message = f"the archive has {len(names)} files, one is expected"
            raise _unsupported(f"{message}: {listed}" if names else message)
        folder = path.with_name(f"{path.name}-inflated")
        folder.mkdir(exist_ok=True)
        files = archive.unpack(names, folder, spec.limits.inflated_bytes)
    except BadArchive as error:
        raise _unsupported(error.message, error.member) from None
    inner = files[names[0]]
    return _Inner(inner, _format(names[0], inner, offered))


def _is_of_system(name: str) -> bool:
    """Folders, and what macOS adds."""
    return name.endswith("/") or name.startswith(_OF_SYSTEMS) or name.endswith("/.DS_Store")


def _format(name: str, path: Path, offered: tuple[str, ...]) -> str:
    """By the suffix, or else by the contents."""
    media_type = SUFFIXES.get(PurePosixPath(name).suffix.lower(), CSV)
    if media_type == CSV and not name.lower().endswith(".csv"):
        media_type = format_of(_head(path))
    if media_type in offered:
        return media_type
    known = ", ".join(suffix for suffix, one in SUFFIXES.items() if one in offered)
    message = f"the file {name[:64]!r} in the archive is {media_type}, not one of {known}"
    raise UnsupportedFormat("unsupported-format", message)


def _name_in_header(path: Path) -> str:
    """The name that gzip keeps, or nothing."""
    with path.open("rb") as file:
        head = file.read(512)
    if len(head) < _FIXED_BYTES or head[3] & (_HAS_NAME | _HAS_EXTRA) != _HAS_NAME:
        return ""
    return head[_FIXED_BYTES:].partition(b"\0")[0].decode("latin-1")


def _unsupported(message: str, value: str | None = None) -> InvalidContent:
    return refuse("archive-unsupported", message, value=value, hint=_HINT)
