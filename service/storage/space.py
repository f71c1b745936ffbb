"""Full and failing disks as service errors."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from service.errors import StorageFull, Unavailable
from service.settings import Limits

RETRY_S = 2
FREE_FILES = 1000
"""Inodes that stay free for running jobs, if that is less than their share."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
FAILING = frozenset(
    {
        *(errno.EIO, errno.EBADMSG, errno.EUCLEAN),  # the disk, or its file system
        *(errno.EACCES, errno.EPERM, errno.EROFS),
        *(errno.ENOENT, errno.ENOTDIR, errno.ENODEV, errno.ENXIO),  # not mounted
        *(errno.ESTALE, errno.ENOTCONN, errno.EREMOTEIO),  # of another machine
    }
)
"""Errors of disks that network connections and pipes do not have."""

log = structlog.stdlib.get_logger("service.storage")


def watermark(total_bytes: int, limits: Limits) -> float:
    """How much of a disk of that size stays free."""
    return min(limits.disk_free_share * total_bytes, limits.disk_free_bytes)


def check_room(folder: Path, limits: Limits) -> None:
    """Raises StorageFull if free space or inodes are below the limit for new uploads and jobs; the
    rest is for running jobs and deletions."""
    disk = os.statvfs(folder)
    size = disk.f_frsize
    if disk.f_bavail * size < watermark(disk.f_blocks * size, limits):
        raise _full("the disk is nearly full")
    # Some file systems make inodes as they are needed, and count none.
    if disk.f_favail < min(limits.disk_free_share * disk.f_files, FREE_FILES):
        raise _full(f"only {disk.f_favail:,} of the disk's {disk.f_files:,} inodes are free")


def _full(reason: str) -> StorageFull:
    detail = f"{reason}; nothing was stored. Delete resources that are not needed"
    return StorageFull("storage-full", detail)


@contextmanager
def file_errors_reported() -> Iterator[None]:
    """Raises StorageFull if the disk has no space for writes of the block, Unavailable if it
    fails."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise StorageFull(
                "storage-full", "the disk has no space or no inodes left; nothing was stored"
            ) from None
        if error.errno not in FAILING:
            raise
        log.warning("disk failed", cause=str(error))
        detail = "the file store does not respond"
        raise Unavailable("storage-unavailable", detail, retry_after_s=RETRY_S) from error
