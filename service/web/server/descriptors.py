"""The error while the process has no file descriptor left."""

from __future__ import annotations

import errno

from service.errors import Unavailable

RETRY_S = 5


def no_more_files(error: Exception) -> Unavailable | None:
    """The error to report for an exception, if its cause is a lack of file descriptors."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        detail = "too many files are open; retry shortly"
        return Unavailable("overloaded", detail, retry_after_s=RETRY_S)
    return None
