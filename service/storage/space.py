"""Full and failing disks as service errors."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from service.errors import StorageFull, Unavailable
from service.settings import Limits

RETRY_S = 2
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
    """Raises StorageFull if the free space is below the limit for new uploads and jobs; the rest is
    for running jobs and deletions."""
    disk = shutil.disk_usage(folder)
    if disk.free < watermark(disk.total, limits):
        detail = "the disk is nearly full; nothing was stored. Delete resources that are not needed"
        raise StorageFull("storage-full", detail)


@contextmanager
def file_errors_reported() -> Iterator[None]:
    """Raises StorageFull if the disk has no space for writes of the block, Unavailable if it
    fails."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise StorageFull("storage-full", "the disk is full; nothing was stored") from None
        if error.errno not in FAILING:
            raise
        log.warning("disk failed", cause=str(error))
        detail = "the file store does not respond"
        raise Unavailable("storage-unavailable", detail, retry_after_s=RETRY_S) from error
