"""Immutable files under keys such as `models/<id>`: written whole or not at all."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Blob:
    """What was written; the sha-256 belongs into the row that names the key."""

    key: str
    sha256: str
    size_bytes: int


class Blobs:
    """Files below one directory. A key is made by us, never from a caller's words."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory.resolve()
        self._incoming = self._directory / "incoming"
        self._incoming.mkdir(parents=True, exist_ok=True)

    def path(self, key: str) -> Path:
        """Where the file is; for readers that need a path."""
        return self._directory / key

    @contextmanager
    def temporary(self) -> Iterator[Path]:
        """A private file on the same file system, removed at the end unless `adopt` took it."""
        handle, name = tempfile.mkstemp(dir=self._incoming)
        os.close(handle)
        path = Path(name)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    @contextmanager
    def temporary_folder(self) -> Iterator[Path]:
        """A private folder on the same file system, removed at the end with all that is left."""
        with tempfile.TemporaryDirectory(dir=self._incoming) as name:
            yield Path(name)

    def write(self, key: str, content: bytes) -> Blob:
        """Store `content` under `key`, durable when this returns."""
        with self.temporary() as path:
            path.write_bytes(content)
            return self.adopt(key, path)

    def adopt(self, key: str, source: Path) -> Blob:
        """Move a finished temporary file under `key`, durable when this returns."""
        with source.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            size = os.fstat(file.fileno()).st_size
            os.fsync(file.fileno())
        target = self.path(key)
        self._make_folder(target.parent)
        source.rename(target)
        _sync_folder(target.parent)
        return Blob(key, digest, size)

    def read(self, key: str) -> bytes:
        """The whole content. Raises FileNotFoundError."""
        return self.path(key).read_bytes()

    def open(self, key: str) -> BufferedReader:
        """A file to read from. Raises FileNotFoundError."""
        return self.path(key).open("rb")

    def delete(self, prefix: str) -> None:
        """Remove the file `prefix`, or every file below it; nothing happens where none is there."""
        target = self.path(prefix)
        if target.is_dir():
            for path in sorted(target.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
            target.rmdir()
        else:
            target.unlink(missing_ok=True)

    def keys(self, older_than_s: float = 0) -> Iterator[str]:
        """All keys whose file is at least that old, abandoned temporary files among them."""
        newest = time.time() - older_than_s
        for path in self._directory.rglob("*"):
            try:
                if path.is_file() and path.stat().st_mtime <= newest:
                    yield path.relative_to(self._directory).as_posix()
            except FileNotFoundError:  # removed meanwhile
                continue

    def _make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        self._make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
