"""A full disk is an answer, not an accident."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.errors import StorageFull

WATERMARK_SHARE = 0.05
WATERMARK_BYTES = 1024**3
"""Of the two whichever is less stays free: running jobs end with it, and resources are deleted."""


def check_room(folder: Path) -> None:
    """Raises StorageFull where so little is free that nothing new should begin."""
    disk = shutil.disk_usage(folder)
    if disk.free < min(WATERMARK_SHARE * disk.total, WATERMARK_BYTES):
        detail = "the disk is nearly full; nothing was stored. Delete what is not needed any more"
        raise StorageFull("storage-full", detail)


@contextmanager
def full_disk_reported() -> Iterator[None]:
    """Raises StorageFull where the block fails for want of space."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise StorageFull("storage-full", "the disk is full; nothing was stored") from None
