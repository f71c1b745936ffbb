"""Zip archives: their members as files, whatever the directory of the archive says."""

from __future__ import annotations

import errno
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from service.common.encodings import MAX_RATIO
from service.rows.faults import inflates_too_much

CHUNK_BYTES = 1024 * 1024
_COMPRESSIONS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
"""What `numpy.savez` writes. Other ones inflate far more than 100:1, without a limit on the way."""
_ENCRYPTED = 0x1
_MEMBER_BYTES = 1024
"""Of the directory for one member; some 60 are needed."""

_END = struct.Struct("<4s4H2LH")
_END_SIGNATURE = b"PK\x05\x06"
_LARGE_SIGNATURE = b"PK\x06\x07"
_LARGE_BYTES = 20
_BROKEN = (
    *(zipfile.BadZipFile, zlib.error, EOFError, ValueError, OverflowError, struct.error),
    *(RuntimeError, NotImplementedError),  # encrypted or written in other ways
)


class BadArchive(Exception):
    """An archive that is not read."""

    def __init__(self, message: str, member: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.member = member


class Archive:
    """The members of an archive, looked at before any of them is read."""

    def __init__(self, path: Path, most_members: int) -> None:
        """Raises BadArchive if the end of the file is not that of so small an archive: reading
        a large directory would cost memory before anything is known."""
        self._path = path
        _check_directory(path, most_members)
        with self._opened() as archive:
            members = archive.infolist()
        self.names = [member.filename for member in members]
        for member in members:
            name = member.filename[:64]
            if self.names.count(member.filename) > 1:
                raise BadArchive(f"the archive has two members {name!r}", name)
            if member.flag_bits & _ENCRYPTED:
                raise BadArchive("the archive is encrypted", name)
            if member.compress_type not in _COMPRESSIONS:
                message = f"the member {name!r} is compressed in a way that is not read"
                raise BadArchive(message, name)

    def unpack(self, names: list[str], folder: Path, limit_bytes: int) -> dict[str, Path]:
        """Files with these members, by name. Raises as `check_inflated`."""
        files = {name: folder / f"member-{number}" for number, name in enumerate(names)}
        for path in files.values():
            path.touch()  # a member may be empty
        for name, chunks in groupby(self._inflated(names, limit_bytes), itemgetter(0)):
            with files[name].open("wb") as file:
                file.writelines(chunk for _, chunk in chunks)
        return files

    def check_inflated(self, limit_bytes: int) -> None:
        """Read all members, each to its end.

        Raises BadArchive, and TooLarge as soon as there are more than `limit_bytes` or 100:1.
        """
        for _ in self._inflated(self.names, limit_bytes):
            pass

    def _inflated(self, names: list[str], limit_bytes: int) -> Iterator[tuple[str, bytes]]:
        """The members in chunks, each with the name of its member."""
        limit = min(limit_bytes, MAX_RATIO * self._path.stat().st_size)
        inflated = 0
        with self._opened() as archive:
            for name in names:
                with archive.open(name) as member:
                    while chunk := member.read(CHUNK_BYTES):
                        inflated += len(chunk)
                        if inflated > limit:
                            raise inflates_too_much("archive", limit_bytes)
                        yield name, chunk

    @contextmanager
    def _opened(self) -> Iterator[zipfile.ZipFile]:
        try:
            with zipfile.ZipFile(self._path) as archive:
                yield archive
        except _BROKEN:
            raise BadArchive("the archive is damaged") from None
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            # A member that begins before the file does.
            raise BadArchive("the archive is damaged") from None


def _check_directory(path: Path, most_members: int) -> None:
    size = path.stat().st_size
    tail_bytes = min(size, _LARGE_BYTES + _END.size)
    with path.open("rb") as file:
        file.seek(size - tail_bytes)
        tail = file.read()
    if tail_bytes < _END.size or tail[-_END.size :][:4] != _END_SIGNATURE:
        raise BadArchive("the archive does not end as one without a comment does")
    if tail.startswith(_LARGE_SIGNATURE):
        raise BadArchive("the archive has a directory for more than 4 GiB")
    *_, n_members, directory_bytes, _, comment_bytes = _END.unpack(tail[-_END.size :])
    if comment_bytes:
        raise BadArchive("the archive does not end as one without a comment does")
    if n_members > most_members or directory_bytes > most_members * _MEMBER_BYTES:
        raise BadArchive(f"the archive has more than {most_members} members")
