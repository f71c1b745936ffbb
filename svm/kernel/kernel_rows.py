"""Rows of the kernel matrix, kept as long as memory for them lasts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import numpy as np

from svm.data.matrices import Indices, Matrix, Vector
from svm.kernel.kernel_evaluator import Likeness
from svm.kernel.kernels import AnyKernel

CACHE_BYTES = 1 << 29
"""For all binary problems of a training together."""
ENTRY_BYTES = 400
"""Of what is kept, beside its values."""
PIECE = 64
"""Most rows computed between two looks at the caller's wishes. Which rows those are, what was kept
and how many threads there are changes no bit of a row."""
PIECE_WORK = 1 << 32
"""Multiplications between two looks, where that is not less than for one row: 0.2 s."""


class KernelRows:
    """k(xᵢ, ·) over the rows of a group, for the rows i asked for. Safe to share between threads.

    A problem of two classes among many needs no kernel values with the rows of the others, and the
    values of a row with those of its own class are the same in all problems of that class: the
    groups are what problems have in common.
    """

    def __init__(
        self,
        X: Matrix,
        kernel: AnyKernel,
        groups: Indices | None = None,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        """`groups` (n_samples,) are the numbers of the rows' groups; None for one of all."""
        self._X = X
        self._kernel = kernel
        self._groups = groups
        self._kept: OrderedDict[int, Vector] = OrderedDict()
        self._bytes, self._most_bytes = 0, cache_bytes
        self._lock = Lock()
        self._likeness: dict[int, Likeness] = {}

    def groups_of(self, rows: Indices) -> list[tuple[int, Indices]]:
        """Each group that some of `rows` are in, and which of them; `rows` ascending, and of a
        group all or none."""
        if self._groups is None:
            return [(0, np.arange(len(rows)))]
        groups = self._groups[rows]
        return [(int(group), np.flatnonzero(groups == group)) for group in np.unique(groups)]

    def get(
        self, rows: Indices, group: int, interrupted: Callable[[], None], threads: int = 1
    ) -> list[Vector]:
        """(rows of the group,) for each of `rows`, not to be written to; in float64 whatever the
        precision of X: a certificate that rests on rounded values would not be one. `threads`
        compute them."""
        kept = self._kept
        keys = (group * self._X.shape[0] + rows).tolist()
        with self._lock:
            # Held on to from here: another thread's rows may push them out.
            found = [kept.get(key) for key in keys]
            if group not in self._likeness:
                self._likeness[group] = Likeness(self._kernel, self._members(group))
        missing = [k for k, values in enumerate(found) if values is None]
        computed = self._computed(self._likeness[group], rows[missing], interrupted, threads)
        with self._lock:
            for key, values in zip(keys, found, strict=True):
                if values is not None and key in kept:
                    kept.move_to_end(key)
            for k, values in zip(missing, computed, strict=True):
                found[k] = values
                if keys[k] not in kept:
                    self._bytes += ENTRY_BYTES + values.nbytes
                kept[keys[k]] = values
            while self._bytes > self._most_bytes and len(kept) > PIECE:
                self._bytes -= ENTRY_BYTES + kept.popitem(last=False)[1].nbytes
        return [values for values in found if values is not None]

    def _members(self, group: int) -> Matrix:
        return self._X if self._groups is None else self._X[np.flatnonzero(self._groups == group)]

    def _computed(
        self, likeness: Likeness, rows: Indices, interrupted: Callable[[], None], threads: int
    ) -> list[Vector]:
        def compute(piece: Indices) -> list[Vector]:
            interrupted()
            some = self._X[piece].astype(np.float64, copy=False)
            # Each row an array of its own: a part of a larger one would keep all of that in memory.
            return [values.copy() for values in likeness(some)]

        piece = PIECE_WORK // max(1, likeness.stored_values)
        size = max(1, min(PIECE, piece, -(-len(rows) // threads)))
        pieces = [rows[start : start + size] for start in range(0, len(rows), size)]
        if threads == 1 or len(pieces) <= 1:
            computed = [compute(piece) for piece in pieces]
        else:
            with ThreadPoolExecutor(threads, thread_name_prefix="svm-kernel") as pool:
                computed = list(pool.map(compute, pieces))
        return [values for some in computed for values in some]
