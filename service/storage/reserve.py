"""Reserved disk space for the database, so that resources can be deleted on a full disk.

Deletes, alias moves and pauses write to the database, too. On a full disk they use the blocks of a
reserve file, which is truncated during their transaction; other transactions wait for its end.
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
"""SQLite's log is 4 MiB long when it is written into the database, which can grow by as much; large
transactions need more."""
DISK_SHARE = 1 / 16
"""Largest share of a small disk."""
STEP_BYTES = MIB // 16
"""Smallest step when the file grows again."""


class Reserve:
    """The reserve file in the folder of an SQLite database. Processes can share it."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / NAME

    def keep(self, limits: Limits) -> None:
        """Create or extend the file, if enough space remains free. Raises OSError."""
        disk = shutil.disk_usage(self._path.parent)
        wanted = _size(disk.total)
        missing = wanted - self._present()
        if missing > 0 and disk.free - missing >= watermark(disk.total, limits):
            private_file(self._path)
            self._extend(wanted)

    @contextmanager
    def released(self) -> Iterator[None]:
        """On a full disk the block can use the reserve; the rest is reserved again afterwards.

        No other block and no other writer may run at the same time.
        """
        present = 0
        with suppress(OSError):  # the block reports a failing disk itself
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
        """Add blocks up to the size, or as many as are free. Raises OSError."""
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
    """Size of the file on a disk of this size."""
    return min(SIZE_BYTES, int(disk_bytes * DISK_SHARE))
