"""Rows of the kernel matrix, kept as long as memory for them lasts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock

import numpy as np

from svm.kernels import AnyKernel
from svm.likeness import Likeness
from svm.matrices import Indices, Matrix, Vector
from svm.stored_rows import stored_values

CACHE_BYTES = 1 << 29
"""For all binary problems of a training together."""
PIECE = 64
"""Most rows computed between two looks at the caller's wishes. Which rows those are, what was kept
and how many threads there are changes no bit of a row."""
PIECE_WORK = 1 << 32
"""Multiplications between two looks, where that is not less than for one row: 0.2 s."""


class KernelRows:
    """k(xᵢ, ·) over all rows of X, for the rows i asked for. Safe to share between threads."""

    def __init__(self, X: Matrix, kernel: AnyKernel, cache_bytes: int = CACHE_BYTES) -> None:
        self._X = X
        self._kernel = kernel
        self._kept: OrderedDict[int, Vector] = OrderedDict()
        self._room = max(PIECE, cache_bytes // (8 * max(1, X.shape[0])))
        self._piece = min(PIECE, PIECE_WORK // max(1, stored_values(X)))
        self._lock = Lock()
        self._likeness: Likeness | None = None

    def get(self, rows: Indices, interrupted: Callable[[], None], threads: int = 1) -> list[Vector]:
        """(n_rows,) for each of `rows`, not to be written to; in float64 whatever the precision of
        X: a certificate that rests on rounded values would not be one. `threads` compute them."""
        wanted = rows.tolist()
        with self._lock:
            # Held on to from here: another thread's rows may push them out.
            found = {row: self._kept[row] for row in wanted if row in self._kept}
            if self._likeness is None:
                self._likeness = Likeness(self._kernel, self._X)
        missing = np.array([row for row in wanted if row not in found], np.int64)
        found |= self._computed(self._likeness, missing, interrupted, threads)
        with self._lock:
            for row in wanted:
                self._kept[row] = found[row]
                self._kept.move_to_end(row)
            while len(self._kept) > self._room:
                self._kept.popitem(last=False)
        return [found[row] for row in wanted]

    def _computed(
        self, likeness: Likeness, rows: Indices, interrupted: Callable[[], None], threads: int
    ) -> dict[int, Vector]:
        def compute(piece: Indices) -> list[Vector]:
            interrupted()
            some = self._X[piece].astype(np.float64, copy=False)
            # Each row an array of its own: a part of a larger one would keep all of that in memory.
            return [values.copy() for values in likeness(some)]

        size = max(1, min(self._piece, -(-len(rows) // threads)))
        pieces = [rows[start : start + size] for start in range(0, len(rows), size)]
        if threads == 1 or len(pieces) <= 1:
            computed = [compute(piece) for piece in pieces]
        else:
            with ThreadPoolExecutor(threads, thread_name_prefix="svm-kernel") as pool:
                computed = list(pool.map(compute, pieces))
        return dict(zip(rows.tolist(), (row for some in computed for row in some), strict=True))
