"""Memory that requests free is kept for the next ones."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # mallopt(3)
KEPT_BYTES = 32 * 1024**2
"""Of free memory at the end of the heap."""
ON_HEAP_BYTES = 16 * 1024**2
"""The largest piece that is taken from the heap, and not from the system each time."""


def give_back_memory() -> None:
    """Return to the system what is free by now: large bodies may have taken much more than usual.
    Takes milliseconds."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def keep_freed_memory() -> None:
    """Tell glibc's allocator not to return memory to the system after every request.

    Left to itself it does from some 260 kB on, and the next request's pages are faulted in anew: a
    third of the time of a hundred rows of JSON. Where the allocator is another, nothing happens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, ON_HEAP_BYTES)
