"""The memory of all processes of a service together: its peak, and afterwards."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

SAMPLE_S = 0.002
"""Short enough that no process grows by 16 MiB meanwhile."""
SETTLE_S = 5.0
"""Time for a service to release memory."""
MIB = 1024 * 1024
_PAGE = resource.getpagesize()


@dataclass
class Growth:
    """In bytes, compared with before."""

    peak: int = 0
    kept: int = 0
    """Not released within SETTLE_S."""


@contextmanager
def watched(pid: int, kept: int) -> Iterator[Growth]:
    """Growth of a process and its descendants during the block, and afterwards, when at most
    `kept` should remain."""
    growth, stop = Growth(), threading.Event()
    before = resident(pid)

    def sample() -> None:
        while not stop.wait(SAMPLE_S):
            growth.peak = max(growth.peak, resident(pid) - before)

    watch = threading.Thread(target=sample)
    watch.start()
    try:
        yield growth
    finally:
        stop.set()
        watch.join()
        growth.kept = resident(pid) - before
        deadline = time.monotonic() + SETTLE_S
        while growth.kept > kept and time.monotonic() < deadline:
            time.sleep(SAMPLE_S)
            growth.kept = min(growth.kept, resident(pid) - before)


def resident(pid: int, parent: bytes = b"") -> int:
    """Resident bytes of a process and its descendants; shared pages count for each.

    A new process that has not started its program yet has the memory of its parent.
    """
    try:
        pages = Path(f"/proc/{pid}/statm").read_bytes()
        own = 0 if pages == parent else int(pages.split()[1]) * _PAGE
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except (OSError, IndexError):  # it has just ended
        return 0
    return own + sum(resident(child, pages) for task in tasks for child in _children(task))


def _children(task: Path) -> list[int]:
    try:
        return [int(child) for child in (task / "children").read_bytes().split()]
    except OSError:
        return []
