"""Local copies of blobs from S3."""

from __future__ import annotations

import os
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

from service.storage.blobs.undamaged import open_undamaged, still_undamaged
from service.storage.private import private_folder


class FileCache:
    """Files by sha-256; if they exceed `capacity_bytes`, the least recently used are deleted.

    Processes of one machine can share a folder. A deleted file stays readable while it is open.
    """

    def __init__(self, folder: Path, capacity_bytes: int) -> None:
        self._folder = folder
        self._capacity_bytes = capacity_bytes
        private_folder(folder)

    def open(self, sha256: str) -> BufferedReader | None:
        """The copy, if there is an undamaged one."""
        path = self._folder / sha256
        file = None
        with suppress(OSError):  # of the disk: the copy cannot be read
            file = open_undamaged(path, sha256)
        if file is None:
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(FileNotFoundError):
            os.utime(path)
            still_undamaged(file, sha256)
        return file

    def add(self, sha256: str, source: Path) -> None:
        """Move a file with this digest from the same file system into the cache, if it fits."""
        with suppress(OSError):  # copies are optional
            room = self._capacity_bytes - source.stat().st_size
            if room >= 0:
                self.shrink(room)
                source.rename(self._folder / sha256)

    def shrink(self, limit_bytes: int) -> None:
        """Delete the least recently used files until the rest needs at most `limit_bytes`."""
        files = []
        for entry in os.scandir(self._folder):
            with suppress(FileNotFoundError):
                files.append((entry.stat(), entry.path))
        kept_bytes = sum(stat.st_size for stat, _ in files)
        for stat, path in sorted(files, key=lambda item: item[0].st_mtime_ns):
            if kept_bytes <= limit_bytes:
                return
            Path(path).unlink(missing_ok=True)
            kept_bytes -= stat.st_size
