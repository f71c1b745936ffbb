"""Blobs in a directory: a temporary file, then a rename, each made durable."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

from service.settings import Limits
from service.storage.blobs.base import Blob, BlobDamaged, Blobs, digest_of, open_undamaged
from service.storage.disk import file_errors_reported, private_folder


class LocalBlobs(Blobs):
    """Files below one directory, which several processes of one machine can share."""

    def __init__(self, directory: Path, limits: Limits | None = None, make: bool = True) -> None:
        """`limits` None: the default ones. `make` creates the directory if it is missing."""
        self._directory = directory.resolve()
        # On the same file system: `adopt` renames.
        super().__init__(self._directory / "incoming", limits or Limits())
        if make:
            private_folder(self.scratch)

    def path(self, key: str) -> Path:
        """The path of the file."""
        return self._directory / key

    def adopt(self, key: str, source: Path) -> Blob:
        target = self.path(key)
        with file_errors_reported():
            with source.open("rb") as file:
                digest = digest_of(file)
                size = os.fstat(file.fileno()).st_size
                os.fsync(file.fileno())
            self._make_folder(target.parent)
            source.rename(target)
            sync_folder(target.parent)
        return Blob(key, digest, size)

    def open(self, key: str, sha256: str) -> BufferedReader:
        return self._open(key, sha256, unread=True)

    def check(self, key: str, sha256: str) -> None:
        self._open(key, sha256, unread=False).close()

    def _open(self, key: str, sha256: str, *, unread: bool) -> BufferedReader:
        with file_errors_reported():
            file = open_undamaged(self.path(key), sha256, unread=unread)
            if file is None:
                self._check_mounted()
                raise BlobDamaged(key)
        return file

    def keys(self, prefix: str = "", older_than_s: float = 0) -> Iterator[str]:
        newest = time.time() - older_than_s
        with file_errors_reported():
            self._check_mounted()
            yield from self._keys(prefix, newest)

    def _keys(self, prefix: str, newest: float) -> Iterator[str]:
        for folder, folders, names in os.walk(self.path(prefix), onerror=_unless_removed):
            if self.scratch.name in folders and Path(folder) == self._directory:
                folders.remove(self.scratch.name)
            for name in names:
                path = Path(folder, name)
                with suppress(FileNotFoundError):  # deleted meanwhile
                    if path.lstat().st_mtime <= newest:
                        yield path.relative_to(self._directory).as_posix()

    def _delete(self, prefix: str) -> None:
        target = self.path(prefix)
        if target.is_dir():
            # Another process can be deleting the same files.
            shutil.rmtree(target, ignore_errors=True)
        else:
            target.unlink(missing_ok=True)

    def _check_mounted(self) -> None:
        """Raises FileNotFoundError if the directory is not the store, for example because its disk
        is not mounted: then the files are not missing."""
        if not self.scratch.is_dir():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.scratch))

    def _make_folder(self, folder: Path) -> None:
        if folder.is_dir():
            return
        self._make_folder(folder.parent)
        private_folder(folder)
        sync_folder(folder.parent)


def _unless_removed(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


def sync_folder(folder: Path) -> None:
    """Make its entries durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
