"""Files inside of archives: the one member of a zip file, or what a gzip file holds.

The suffix of the inner name is the format.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from service.errors import InvalidContent, UnsupportedFormat
from service.rows.faults import refuse
from service.rows.format_table import FORMATS, LABEL_FORMATS, SUFFIXES
from service.rows.formats.shared.archive import CHUNK_BYTES, Archive, BadArchive
from service.rows.spec import GZIP, ZIP, ParseSpec
from service.web.http.encodings import Inflater

ARCHIVES = {".zip": ZIP, ".gz": GZIP}
"""By the suffix of a name."""
MAX_MEMBERS = 200
"""In the directory of a zip file, to be listed if there are too many."""
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
    """The same upload without archives. Raises ServiceError for those that are not read."""
    if spec.media_type in ARCHIVES.values():
        inner = _inner(spec, spec.data, spec.media_type, spec.name, tuple(FORMATS))
        spec = replace(spec, data=str(inner.path), media_type=inner.media_type)
    if spec.labels is not None and spec.labels_media_type in ARCHIVES.values():
        media_type, name = spec.labels_media_type, spec.labels_name
        inner = _inner(spec, spec.labels, media_type, name, LABEL_FORMATS)
        spec = replace(spec, labels=str(inner.path), labels_media_type=inner.media_type)
    return spec


def _inner(
    spec: ParseSpec, data: str, media_type: str, name: str, offered: tuple[str, ...]
) -> _Inner:
    path = Path(data)
    if media_type == ZIP:
        return _member(spec, path, offered)
    name = name[: -len(".gz")] if name.lower().endswith(".gz") else _name_in_header(path)
    hint = "or send it as its own format, with Content-Encoding: gzip"
    inner_format = _format(name, offered, f"name it such as data.csv.gz, {hint}")
    inner = path.with_name(f"{path.name}-inflated")
    inflater = Inflater(spec.limits.inflated_bytes)
    with path.open("rb") as file, inner.open("wb") as out:
        while block := file.read(CHUNK_BYTES):
            for piece in inflater.feed(block):
                out.write(piece)
        inflater.finish()
    return _Inner(inner, inner_format)


def _member(spec: ParseSpec, path: Path, offered: tuple[str, ...]) -> _Inner:
    try:
        archive = Archive(path, MAX_MEMBERS)
        names = [name for name in archive.names if not _is_of_system(name)]
        if len(names) != 1:
            listed = ", ".join(repr(name[:64]) for name in names[:20])
            message = f"the archive has {len(names)} files, one is expected"
            raise _unsupported(f"{message}: {listed}" if names else message)
        media_type = _format(names[0], offered, "its suffix says what format it is")
        folder = path.with_name(f"{path.name}-inflated")
        folder.mkdir(exist_ok=True)
        files = archive.unpack(names, folder, spec.limits.inflated_bytes)
    except BadArchive as error:
        raise _unsupported(error.message, error.member) from None
    return _Inner(files[names[0]], media_type)


def _is_of_system(name: str) -> bool:
    """Folders, and what macOS adds."""
    return name.endswith("/") or name.startswith(_OF_SYSTEMS) or name.endswith("/.DS_Store")


def _format(name: str, offered: tuple[str, ...], hint: str) -> str:
    media_type = SUFFIXES.get(PurePosixPath(name).suffix.lower())
    if media_type in offered:
        return media_type
    known = ", ".join(suffix for suffix, one in SUFFIXES.items() if one in offered)
    what = f"the file {name[:64]!r} is not one of {known}" if name else "the file has no name"
    raise UnsupportedFormat("unsupported-format", f"{what}; {hint}")


def _name_in_header(path: Path) -> str:
    """The name that gzip keeps, or nothing."""
    with path.open("rb") as file:
        head = file.read(512)
    if len(head) < _FIXED_BYTES or head[3] & (_HAS_NAME | _HAS_EXTRA) != _HAS_NAME:
        return ""
    return head[_FIXED_BYTES:].partition(b"\0")[0].decode("latin-1")


def _unsupported(message: str, value: str | None = None) -> InvalidContent:
    return refuse("archive-unsupported", message, value=value, hint=_HINT)
