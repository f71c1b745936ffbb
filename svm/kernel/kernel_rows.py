"""Rows of the kernel matrix, cached within a limit of memory."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from threading import Lock
from typing import NamedTuple, cast

import numpy as np

from svm.data.executors import IN_THIS_THREAD, Executor
from svm.data.matrices import Indices, Mask, Matrix, Vector
from svm.kernel.kernels import AnyKernel
from svm.kernel.row_products import KernelEvaluator

CACHE_BYTES = 1 << 29
"""Size of the cache, for all binary problems of a training together."""
BLOCKS = 8
"""Matrices of working sets that are kept: 4 MiB."""
ENTRY_BYTES = 400
"""Overhead of a cached row."""
PIECE = 64
"""Most rows computed between two calls of `interrupted`. The bits of a row do not depend on the
other rows, the cache or the number of threads."""
PIECE_WORK = 1 << 32
"""Multiplications between two calls, unless one row needs more: 0.2 s."""


class KernelRow(NamedTuple):
    """The kernel values of one row with those of a group."""

    values: Vector
    """Read-only, contiguous float64."""
    address: int
    """Of the values: compiled loops over many rows take addresses, not arrays."""


class KernelRows:
    """k(xᵢ, ·) over the rows of a group, for any rows i. Safe to share between threads.

    A problem of two classes among many needs no kernel values with the rows of other classes, and
    the values with the rows of one class are the same in all of its problems. So problems share
    groups: the rows of a class.
    """

    def __init__(
        self,
        X: Matrix,
        kernel: AnyKernel,
        groups: Indices | None = None,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        """`groups` (n_samples,) are the group numbers of the rows; None for a single group."""
        self._X = X
        self._kernel = kernel
        self._groups = groups
        self._kept: OrderedDict[int, KernelRow] = OrderedDict()
        self._bytes, self._most_bytes = 0, cache_bytes
        self._lock = Lock()
        self._evaluators: dict[int, KernelEvaluator] = {}
        self._blocks: OrderedDict[bytes, Vector] = OrderedDict()

    def groups_of(self, rows: Indices) -> list[tuple[int, Indices]]:
        """Each group with rows among `rows`, and their positions there. `rows` are ascending, and
        have all rows of a group or none."""
        if self._groups is None:
            return [(0, np.arange(len(rows)))]
        groups = self._groups[rows]
        return [(int(group), np.flatnonzero(groups == group)) for group in np.unique(groups)]

    def get(
        self,
        rows: Indices,
        group: int,
        interrupted: Callable[[], None],
        executor: Executor = IN_THIS_THREAD,
    ) -> list[KernelRow]:
        """(rows of the group,) for each of `rows`. In float64 even if X is float32: a
        certificate must not rest on rounded values."""
        kept = self._kept
        keys = (group * self._X.shape[0] + rows).tolist()
        with self._lock:
            # References kept from here on: rows of another thread may evict them.
            cached = list(map(kept.get, keys))
            if group not in self._evaluators:
                self._evaluators[group] = KernelEvaluator(self._kernel, self._members(group))
            missing = [k for k, row in enumerate(cached) if row is None]
            found = [key for key in keys if key in kept] if missing else keys
            deque(map(kept.move_to_end, found), maxlen=0)  # sooner than a loop
        if not missing:
            return cast(list[KernelRow], cached)
        computed = self._compute(self._evaluators[group], rows[missing], interrupted, executor)
        with self._lock:
            for k, row in zip(missing, computed, strict=True):
                cached[k] = row
                if keys[k] not in kept:
                    self._bytes += ENTRY_BYTES + row.values.nbytes
                kept[keys[k]] = row
            while self._bytes > self._most_bytes and len(kept) > PIECE:
                self._bytes -= ENTRY_BYTES + kept.popitem(last=False)[1].values.nbytes
        return [row for row in cached if row is not None]

    def holds(self, rows: Indices, groups: Sequence[int]) -> Mask:
        """Which rows are kept, with those of all of these groups."""
        keys = [(group * self._X.shape[0] + rows).tolist() for group in set(groups)]
        kept = [all(map(self._kept.__contains__, of_row)) for of_row in zip(*keys, strict=True)]
        return np.array(kept, dtype=bool)

    def block(
        self, rows: Indices, columns: Indices, interrupted: Callable[[], None], executor: Executor
    ) -> Vector:
        """k(xᵢ, xⱼ) for some rows i and j, with the bits of `get`; not kept."""
        if len(rows) == 0:
            return np.empty((0, len(columns)))
        kernel = KernelEvaluator(self._kernel, self._X[columns])
        return np.vstack(self._evaluated(kernel, rows, interrupted, executor))

    def keep_block(self, rows: Indices, gram: Vector) -> None:
        """Keep the end of a matrix of kernel values, of these rows, for the next working set."""
        with self._lock:
            self._blocks[rows.tobytes()] = gram[-len(rows) :, -len(rows) :].copy()
            if len(self._blocks) > BLOCKS:
                self._blocks.popitem(last=False)

    def take_block(self, rows: Indices, gram: Vector) -> int:
        """Copy the block of these rows to the beginning of a matrix. Returns how many they are, or
        0 if it is not kept."""
        with self._lock:
            block = self._blocks.pop(rows.tobytes(), None)
        if block is None:
            return 0
        gram[: len(rows), : len(rows)] = block
        return len(rows)

    def _members(self, group: int) -> Matrix:
        return self._X if self._groups is None else self._X[np.flatnonzero(self._groups == group)]

    def _compute(
        self,
        kernel: KernelEvaluator,
        rows: Indices,
        interrupted: Callable[[], None],
        executor: Executor,
    ) -> list[KernelRow]:
        computed = self._evaluated(kernel, rows, interrupted, executor)
        # Each row is a separate array: a view would keep the whole block in memory.
        return [_row(values.copy()) for some in computed for values in some]

    def _evaluated(
        self,
        kernel: KernelEvaluator,
        rows: Indices,
        interrupted: Callable[[], None],
        executor: Executor,
    ) -> list[Vector]:
        """The kernel values of some rows, piece by piece."""

        def compute(piece: Indices) -> Vector:
            interrupted()
            return kernel(self._X[piece].astype(np.float64, copy=False))

        most = max(1, min(PIECE, PIECE_WORK // max(1, kernel.stored_values)))
        # As many for each thread, so that all end at about the same time.
        rounds = max(1, -(-len(rows) // (most * executor.threads)))
        size = max(1, -(-len(rows) // (rounds * executor.threads)))
        if rounds > 1:  # products of four rows at a time are the fastest
            size = min(most, -(-size // 4) * 4)
        pieces = [rows[start : start + size] for start in range(0, len(rows), size)]
        return executor.map(compute, pieces)


def _row(values: Vector) -> KernelRow:
    return KernelRow(values, values.__array_interface__["data"][0])
