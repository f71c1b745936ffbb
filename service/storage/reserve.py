"""Blocks of the database's disk that are kept for what makes room: a full disk can be emptied.

Deletes, alias moves and pauses write to the database, too. On a full disk they do it in the blocks
of a file, which is cut for the length of their transaction: other transactions wait for its end.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from service.settings import MIB, Limits
from service.storage.private import private_file
from service.storage.space import watermark

NAME = "reserve"
SIZE_BYTES = 16 * MIB
"""The log of SQLite is 4 MiB long when it is written into the database, which may grow by as much;
a large transaction makes both longer."""
DISK_SHARE = 1 / 16
"""Of a small disk the reserve is no larger part."""
STEP_BYTES = MIB // 16
"""The smallest part that is taken back."""


class Reserve:
    """The file in the folder of an SQLite database. Any number of processes may use it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def keep(self, limits: Limits) -> None:
        """Make the file, in full, if the disk is above its watermark with it. Raises OSError."""
        disk = shutil.disk_usage(self._path.parent)
        wanted = _size(disk.total)
        missing = wanted - self._present()
        if missing > 0 and disk.free - missing >= watermark(disk.total, limits):
            private_file(self._path)
            self._extend(wanted)

    @contextmanager
    def released(self) -> Iterator[None]:
        """On a full disk the block may use what is in reserve; what it leaves is taken back.

        Only for a block that no other one, and no other writer, runs beside.
        """
        present = 0
        with suppress(OSError):  # a disk that fails is reported by the block itself
            disk = shutil.disk_usage(self._path.parent)
            if disk.free < _size(disk.total):
                present = self._present()
                if present:
                    os.truncate(self._path, 0)
        try:
            yield
        finally:
            if present:
                with suppress(OSError):
                    self._extend(present)

    def _present(self) -> int:
        try:
            return self._path.stat().st_size
        except FileNotFoundError:
            return 0

    def _extend(self, wanted: int) -> None:
        """Add blocks up to the size, or as many as there are. Raises OSError."""
        with self._path.open("r+b", buffering=0) as file:
            present = os.fstat(file.fileno()).st_size
            step = wanted - present
            while step > 0:
                try:
                    os.posix_fallocate(file.fileno(), 0, present + step)
                except OSError:
                    file.truncate(present)
                    step = 0 if step <= STEP_BYTES else max(STEP_BYTES, step // 2)
                else:
                    present += step
                    step = min(step, wanted - present)


def _size(disk_bytes: int) -> int:
    """What the file should have on a disk of that size."""
    return min(SIZE_BYTES, int(disk_bytes * DISK_SHARE))
