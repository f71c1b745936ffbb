"""A full disk is an answer, not an accident."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from service.errors import StorageFull


@contextmanager
def full_disk_reported() -> Iterator[None]:
    """Raises StorageFull where the block fails for want of space."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise StorageFull("storage-full", "the disk is full; nothing was stored") from None
