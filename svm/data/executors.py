"""Threads: who computes the runs of shards of a pass, this thread or threads of this process; and
BLAS on a single one: with several, the bits of a result depend on the number of threads."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ContextDecorator, ExitStack
from contextvars import copy_context
from functools import lru_cache
from threading import RLock
from typing import Protocol, TypeVar

from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")


class Executor(Protocol):
    """Computes independent parts of a pass over the data. No bit depends on which one does."""

    @property
    def threads(self) -> int:
        """How many work at once."""

    def map(self, function: Callable[[T], R], parts: Sequence[T]) -> list[R]:
        """The function's values, in the order of the parts. When it raises for a part, so does
        this, after all parts that have begun have ended."""


class InThreads:
    """Several parts at once, by as many threads as `wanted` says at each pass. The threads begin
    with the first parts, and end with this object."""

    def __init__(self, wanted: Callable[[], int]) -> None:
        self._wanted = wanted
        self._pool: tuple[int, ThreadPoolExecutor] | None = None

    @property
    def threads(self) -> int:
        return self._wanted()

    def map(self, function: Callable[[T], R], parts: Sequence[T]) -> list[R]:
        threads = self.threads
        if threads == 1 or len(parts) == 1:
            return [function(part) for part in parts]
        pool = self._pool_of(threads)
        # In a copy of this context each, which has NumPy's settings for floating-point errors.
        futures = [pool.submit(copy_context().run, function, part) for part in parts]
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()
            wait(futures)

    def _pool_of(self, threads: int) -> ThreadPoolExecutor:
        if self._pool is None or self._pool[0] != threads:
            if self._pool is not None:
                self._pool[1].shutdown()
            self._pool = threads, ThreadPoolExecutor(threads, thread_name_prefix="svm-shards")
        return self._pool[1]


IN_THIS_THREAD: Executor = InThreads(lambda: 1)


def as_function(threads: int | Callable[[], int]) -> Callable[[], int]:
    """What gives a number of threads, or the function itself."""
    return (lambda: threads) if isinstance(threads, int) else threads


def executor_of(threads: int | Callable[[], int]) -> Executor:
    """The executor for a number of threads, or for a function that gives it before each pass."""
    return IN_THIS_THREAD if threads == 1 else InThreads(as_function(threads))


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
