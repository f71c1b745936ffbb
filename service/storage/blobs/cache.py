"""Local copies of blobs that are kept elsewhere."""

from __future__ import annotations

import os
from contextlib import suppress
from io import BufferedReader
from pathlib import Path

from service.storage.blobs.base import open_sound
from service.storage.private import private_folder


class FileCache:
    """Files by their sha-256; beyond `capacity_bytes` the least recently used go.

    Processes of one machine may share a folder. A file that is dropped stays readable for whom has
    it open.
    """

    def __init__(self, folder: Path, capacity_bytes: int) -> None:
        self._folder = folder
        self._capacity_bytes = capacity_bytes
        private_folder(folder)

    def open(self, sha256: str) -> BufferedReader | None:
        """The copy, if there is a sound one."""
        path = self._folder / sha256
        file = None
        with suppress(OSError):  # of the disk: it has no copy that can be read
            file = open_sound(path, sha256)
        if file is None:
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(FileNotFoundError):
            os.utime(path)
        return file

    def add(self, sha256: str, source: Path) -> None:
        """Take over a file of the same file system, if it may stay; it must have this digest."""
        with suppress(OSError):  # a copy is no must
            room = self._capacity_bytes - source.stat().st_size
            if room >= 0:
                self.shrink(room)
                source.rename(self._folder / sha256)

    def shrink(self, limit_bytes: int) -> None:
        """Drop the least recently used files until the rest takes no more than `limit_bytes`."""
        found = []
        for entry in os.scandir(self._folder):
            with suppress(FileNotFoundError):
                found.append((entry.stat(), entry.path))
        kept_bytes = sum(stat.st_size for stat, _ in found)
        for stat, path in sorted(found, key=lambda item: item[0].st_mtime_ns):
            if kept_bytes <= limit_bytes:
                return
            Path(path).unlink(missing_ok=True)
            kept_bytes -= stat.st_size
