"""File descriptors: how many this process may have, and how many of them connections may take."""

from __future__ import annotations

import resource

MOST = 65_536
RESERVE = 128
"""For the database, child processes, logs, and files that requests read."""
LEAST_CONNECTIONS = 16


def raise_file_limit() -> int:
    """Set the limit for open files to the most that is allowed, up to `MOST`; gives the limit.

    Child processes inherit it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft == resource.RLIM_INFINITY or soft >= allowed:
        return MOST if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed


def most_connections(wanted: int, file_limit: int) -> int:
    """Connections that may be open at once: each of them may be an upload, which has a file too."""
    return min(wanted, max(LEAST_CONNECTIONS, (file_limit - RESERVE) // 2))
