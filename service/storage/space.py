"""A full disk is an answer, not an accident."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from service.errors import StorageFull
from service.settings import Limits


def check_room(folder: Path, limits: Limits) -> None:
    """Raises StorageFull where so little is free that nothing new should begin: running jobs end
    with it, and resources are deleted."""
    disk = shutil.disk_usage(folder)
    if disk.free < min(limits.disk_free_share * disk.total, limits.disk_free_bytes):
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
