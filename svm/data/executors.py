"""Who computes the runs of shards of a pass: this thread, or threads of this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import cached_property
from typing import Protocol, TypeVar

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


class InThisThread:
    """One part after the other."""

    threads = 1

    def map(self, function: Callable[[T], R], parts: Sequence[T]) -> list[R]:
        return [function(part) for part in parts]


class InThreads:
    """Several parts at once. The threads begin with the first parts, and end with this object."""

    def __init__(self, threads: int) -> None:
        self.threads = threads

    def map(self, function: Callable[[T], R], parts: Sequence[T]) -> list[R]:
        if len(parts) == 1:
            return [function(parts[0])]
        # In a copy of this context each, which has NumPy's settings for floating-point errors.
        futures = [self._pool.submit(copy_context().run, function, part) for part in parts]
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()
            wait(futures)

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self.threads, thread_name_prefix="svm-shards")


IN_THIS_THREAD: Executor = InThisThread()


def executor_of(threads: int) -> Executor:
    """The executor for a number of threads."""
    return IN_THIS_THREAD if threads == 1 else InThreads(threads)
