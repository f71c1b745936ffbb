"""The memory of a service: of all its processes together, at its peak and afterwards."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

LOOK_S = 0.002
"""No process takes 16 MiB more in this time."""
SETTLE_S = 5.0
"""In which a service gives memory back."""
MIB = 1024 * 1024
_PAGE = resource.getpagesize()


@dataclass
class Growth:
    """In bytes, against the time before."""

    peak: int = 0
    kept: int = 0
    """Of what was never given back within SETTLE_S."""


@contextmanager
def watched(pid: int, kept: int) -> Iterator[Growth]:
    """How much more memory a process and all below it take in the block, and after its end, when
    it is waited for that no more than `kept` remains."""
    growth, stop = Growth(), threading.Event()
    before = resident(pid)

    def look() -> None:
        while not stop.wait(LOOK_S):
            growth.peak = max(growth.peak, resident(pid) - before)

    watch = threading.Thread(target=look)
    watch.start()
    try:
        yield growth
    finally:
        stop.set()
        watch.join()
        growth.kept = resident(pid) - before
        deadline = time.monotonic() + SETTLE_S
        while growth.kept > kept and time.monotonic() < deadline:
            time.sleep(LOOK_S)
            growth.kept = min(growth.kept, resident(pid) - before)


def resident(pid: int) -> int:
    """Bytes that a process and all below it have in memory; pages that they share count for each
    of them."""
    try:
        own = int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except (OSError, IndexError):  # it just ended
        return 0
    return own + sum(resident(child) for task in tasks for child in _children(task))


def _children(task: Path) -> list[int]:
    try:
        return [int(child) for child in (task / "children").read_bytes().split()]
    except OSError:
        return []
