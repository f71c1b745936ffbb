"""BLAS on one thread: with several, the bits of a result depend on the number of threads."""

from __future__ import annotations

import sys
from contextlib import ContextDecorator, ExitStack
from functools import lru_cache
from threading import RLock

from threadpoolctl import ThreadpoolController


class OneThread(ContextDecorator):
    """A block, or the calls of a function, in which the libraries of this process use one thread.

    Blocks may overlap in any order, in any threads: the last one to end restores the old limits.
    """

    def __init__(self) -> None:
        self._lock = RLock()  # an abandoned generator leaves its block in any thread
        self._inside = 0
        self._limited: ThreadpoolController | None = None
        self._limits = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            libraries = _libraries(len(sys.modules))
            if libraries is not self._limited:  # one may have been loaded since the last block
                self._limited = libraries
                self._limits.enter_context(libraries.limit(limits=1))

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limited = None
                self._limits.close()


@lru_cache(maxsize=1)
def _libraries(n_modules: int) -> ThreadpoolController:
    """The loaded libraries; searched again, which takes ms, only after new imports."""
    return ThreadpoolController()


one_blas_thread = OneThread()
