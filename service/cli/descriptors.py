"""Limits of open files and of connections."""

from __future__ import annotations

import resource

MOST = 65_536
RESERVE = 128
"""Files for the database, child processes, logs, and reads of requests."""
LEAST_CONNECTIONS = 16


def raise_file_limit() -> int:
    """Raise the limit of open files to the hard limit, at most `MOST`; returns it.

    Child processes inherit it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft == resource.RLIM_INFINITY or soft >= allowed:
        return MOST if soft == resource.RLIM_INFINITY else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return allowed


def most_connections(wanted: int, file_limit: int) -> int:
    """Most connections open at once: each can be an upload, which also has a file."""
    return min(wanted, max(LEAST_CONNECTIONS, (file_limit - RESERVE) // 2))
