"""What every store of blobs offers."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

import structlog

from service.errors import ServiceError
from service.settings import Limits
from service.storage.space import check_room, file_errors_reported

CHUNK_BYTES = 1024 * 1024
NOT_THERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})
"""Errors of opening that tell of the name alone; ENXIO is a socket's."""

log = structlog.stdlib.get_logger("service.storage")


@dataclass(frozen=True, slots=True)
class Blob:
    """What was written; the sha-256 belongs into the row that names the key."""

    key: str
    sha256: str
    size_bytes: int


class BlobDamaged(Exception):
    """The file is gone, or its bytes are not the ones that were stored."""


class Blobs(ABC):
    """Files by key. Safe to share between threads, and many processes may use the same store.

    All methods raise StorageFull if there is no room, and Unavailable if the store, or the local
    disk, does not answer.
    """

    def __init__(self, scratch: Path, limits: Limits) -> None:
        """`scratch` is a local folder for files that are still being made."""
        self.scratch = scratch
        self._limits = limits

    @contextmanager
    def temporary(self) -> Iterator[Path]:
        """A private local file, removed at the end unless `adopt` took it."""
        with file_errors_reported():
            handle, name = tempfile.mkstemp(dir=self.scratch)
            os.close(handle)
            path = Path(name)
            try:
                yield path
            finally:
                path.unlink(missing_ok=True)

    def check_room(self) -> None:
        """Raises StorageFull where the local disk has no room for what callers bring."""
        with file_errors_reported():
            check_room(self.scratch, self._limits)

    @contextmanager
    def temporary_folder(self) -> Iterator[Path]:
        """A private local folder, removed at the end with all that is left in it."""
        with file_errors_reported(), tempfile.TemporaryDirectory(dir=self.scratch) as name:
            yield Path(name)

    @abstractmethod
    def write(self, key: str, content: bytes) -> Blob:
        """Store `content` under `key`, durable when this returns."""

    @abstractmethod
    def adopt(self, key: str, source: Path) -> Blob:
        """Move a finished temporary file under `key`, durable when this returns."""

    @abstractmethod
    def open(self, key: str, sha256: str) -> BufferedReader:
        """A local file with the bytes that were stored, at its start. Raises BlobDamaged."""

    def read(self, key: str, sha256: str) -> bytes:
        """The whole content, as it was stored. Raises BlobDamaged."""
        with self.open(key, sha256) as file:
            return file.read()

    def check(self, key: str, sha256: str) -> None:
        """Raises BlobDamaged where the store has lost the bytes, whoever has copies of them."""
        self.open(key, sha256).close()

    def delete(self, prefix: str) -> None:
        """Remove the file `prefix` and every file below it.

        Called when no row names them any more: what cannot be removed now is left to the sweep.
        """
        try:
            self._delete(prefix)
        except (OSError, ServiceError):
            log.exception("files could not be removed", prefix=prefix)

    @abstractmethod
    def keys(self, prefix: str = "", older_than_s: float = 0) -> Iterator[str]:
        """All keys below `prefix` whose file is at least that old."""

    def sweep_scratch(self, older_than_s: float) -> list[str]:
        """Remove what dead processes left of files that they were making; gives their names."""
        newest = time.time() - older_than_s
        old, removed = [], []
        for path in self.scratch.rglob("*"):
            with suppress(FileNotFoundError):  # removed meanwhile
                if path.lstat().st_mtime <= newest:
                    old.append(path)
        for path in sorted(old, reverse=True):  # files before their folders
            with suppress(OSError):  # removed meanwhile, or a folder that is not empty
                path.rmdir() if path.is_dir() else path.unlink()
                removed.append(path.name)
        return removed

    @abstractmethod
    def _delete(self, prefix: str) -> None: ...


def open_sound(path: Path, sha256: str) -> BufferedReader | None:
    """The regular file with this digest, at its start; None if there is none. Does not wait for a
    FIFO. Raises OSError."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in NOT_THERE:
            return None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None
    with ExitStack() as unless_sound:
        file = unless_sound.enter_context(os.fdopen(handle, "rb"))
        if digest_of(file) != sha256:
            return None
        unless_sound.pop_all()
    return file


def digest_of(file: BufferedReader) -> str:
    """The sha-256 of what follows; the file is then back where it was."""
    start = file.tell()
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(start)
    return digest
