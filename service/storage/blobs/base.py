"""The interface of blob stores."""

from __future__ import annotations

import os
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

import structlog

from service.errors import ServiceError
from service.settings import Limits
from service.storage.space import check_room, file_errors_reported

CHUNK_BYTES = 1024 * 1024
log = structlog.stdlib.get_logger("service.storage")


@dataclass(frozen=True, slots=True)
class Blob:
    """A stored file; its sha-256 is stored in the row that names the key."""

    key: str
    sha256: str
    size_bytes: int


class BlobDamaged(Exception):
    """The file is missing, or its bytes do not match the digest."""


class Blobs(ABC):
    """Files by key. Safe to share between threads, and processes can use the same store.

    All methods raise StorageFull if there is no space, and Unavailable if the store or the local
    disk does not respond.
    """

    def __init__(self, scratch: Path, limits: Limits) -> None:
        """`scratch` is a local folder for unfinished files."""
        self.scratch = scratch
        self._limits = limits

    @contextmanager
    def temporary(self) -> Iterator[Path]:
        """A private local file, deleted at the end unless `adopt` moved it."""
        with file_errors_reported():
            handle, name = tempfile.mkstemp(dir=self.scratch)
            os.close(handle)
            path = Path(name)
            try:
                yield path
            finally:
                path.unlink(missing_ok=True)

    def check_room(self) -> None:
        """Raises StorageFull if the local disk has too little space for uploads."""
        with file_errors_reported():
            check_room(self.scratch, self._limits)

    @contextmanager
    def temporary_folder(self) -> Iterator[Path]:
        """A private local folder, deleted at the end with its contents."""
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
        """A local file with the stored bytes. Raises BlobDamaged."""

    def read(self, key: str, sha256: str) -> bytes:
        """The stored bytes. Raises BlobDamaged."""
        with self.open(key, sha256) as file:
            return file.read()

    def check(self, key: str, sha256: str) -> None:
        """Raises BlobDamaged if the store has lost the bytes, even if there is a local copy."""
        self.open(key, sha256).close()

    def delete(self, prefix: str) -> None:
        """Delete the file `prefix` and every file below it.

        Called when no row names them any more. The sweep deletes later what fails now.
        """
        try:
            self._delete(prefix)
        except (OSError, ServiceError):
            log.exception("deleting files failed", prefix=prefix)

    @abstractmethod
    def keys(self, prefix: str = "", older_than_s: float = 0) -> Iterator[str]:
        """All keys below `prefix` of files that are at least that old."""

    def sweep_scratch(self, older_than_s: float) -> list[str]:
        """Delete unfinished files of processes that died; returns their names."""
        newest = time.time() - older_than_s
        old, removed = [], []
        for path in self.scratch.rglob("*"):
            with suppress(FileNotFoundError):  # deleted meanwhile
                if path.lstat().st_mtime <= newest:
                    old.append(path)
        for path in sorted(old, reverse=True):  # files before their folders
            with suppress(OSError):  # deleted meanwhile, or a folder that is not empty
                path.rmdir() if path.is_dir() else path.unlink()
                removed.append(path.name)
        return removed

    @abstractmethod
    def _delete(self, prefix: str) -> None: ...
