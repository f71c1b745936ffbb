"""Settings of glibc's malloc: memory that requests free is kept for the next ones."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # mallopt(3)
KEPT_BYTES = 32 * 1024**2
"""Most free memory at the end of the heap."""
ON_HEAP_BYTES = 16 * 1024**2
"""The largest allocation from the heap; larger ones come from the system each time."""
VECTOR_BYTES = 1024**2
"""The same in workers."""


def return_free_memory() -> None:
    """Return free memory to the system, after large bodies. Takes milliseconds."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def keep_freed_memory() -> None:
    """Make glibc's malloc keep memory instead of returning it to the system after every request.

    By default it returns memory from about 260 kB, and the next request causes page faults: a third
    of the time of a hundred rows of JSON. With another allocator, this does nothing.
    """
    _set(_TRIM_THRESHOLD, KEPT_BYTES)
    _set(_MMAP_THRESHOLD, ON_HEAP_BYTES)


def bound_free_memory() -> None:
    """Let a process that works in a limited memory keep little that it does not use.

    All threads allocate what any of them has freed: by default each has a heap of its own. Vectors
    of the length of a wide row come from the system, and return to it: by default they leave holes
    in the heap, which count as used. Both are worth hundreds of megabytes to a training of many
    classes, and no solver became slower by it.
    """
    _set(_ARENA_MAX, 1)
    _set(_TRIM_THRESHOLD, KEPT_BYTES)
    _set(_MMAP_THRESHOLD, VECTOR_BYTES)


def _set(option: int, value: int) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(option, value)
