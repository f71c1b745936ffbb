"""Rows of the kernel matrix, kept as long as memory for them lasts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from threading import Lock

import numpy as np

from svm.kernels import AnyKernel, dense_rows
from svm.matrices import Indices, Matrix, Vector, is_sparse
from svm.row_products import row_norms

CACHE_BYTES = 1 << 29
"""For all binary problems of a training together."""
TILE = 128
"""Rows computed by one matrix product, always as many: a row's bits do not depend on which others
are computed with it, nor on what was kept, nor on the number of threads."""
COLUMNS = 4096
"""Columns of one matrix product, and between two looks at the caller's wishes."""


class KernelRows:
    """k(xᵢ, ·) over all rows of X, for the rows i asked for. Safe to share between threads."""

    def __init__(self, X: Matrix, kernel: AnyKernel, cache_bytes: int = CACHE_BYTES) -> None:
        self._X = X
        self._kernel = kernel
        self._kept: OrderedDict[int, Vector] = OrderedDict()
        self._room = max(TILE, cache_bytes // (8 * max(1, X.shape[0])))
        self._lock = Lock()
        self._norms = row_norms(X)

    def get(self, rows: Indices, interrupted: Callable[[], None], threads: int = 1) -> list[Vector]:
        """(n_rows,) for each of `rows`, not to be written to; in float64 whatever the precision of
        X: a certificate that rests on rounded values would not be one. `threads` compute them."""
        wanted = rows.tolist()
        with self._lock:
            # Held on to from here: another thread's rows may push them out.
            found = {row: self._kept[row] for row in wanted if row in self._kept}
        missing = np.array([row for row in wanted if row not in found], np.int64)
        found |= self._computed(missing, interrupted, threads)
        with self._lock:
            for row in wanted:
                self._kept[row] = found[row]
                self._kept.move_to_end(row)
            while len(self._kept) > self._room:
                self._kept.popitem(last=False)
        return [found[row] for row in wanted]

    def _computed(
        self, rows: Indices, interrupted: Callable[[], None], threads: int
    ) -> dict[int, Vector]:
        n = self._X.shape[0]
        # Each row an array of its own: a part of a larger one would keep all of that in memory.
        values = {row: np.empty(n) for row in rows.tolist()}
        tiles = [rows[start : start + TILE] for start in range(0, len(rows), TILE)]
        parts = [slice(start, min(n, start + COLUMNS)) for start in range(0, n, COLUMNS)]
        # The last tile is filled up with its last row.
        filled = [np.concatenate([t, np.full(TILE - len(t), t[-1])]) for t in tiles]
        left = [dense_rows(self._X, tile) for tile in filled]

        def compute(piece: tuple[int, slice]) -> None:
            interrupted()
            k, part = piece
            block = self._block(left[k], self._norms[filled[k]], part)
            for row, some in zip(tiles[k].tolist(), block, strict=False):
                values[row][part] = some

        pieces = list(product(range(len(tiles)), parts))
        if threads == 1 or len(pieces) <= 1:
            for piece in pieces:
                compute(piece)
        else:
            with ThreadPoolExecutor(threads, thread_name_prefix="svm-kernel") as pool:
                for _ in pool.map(compute, pieces):
                    pass
        return values

    def _block(self, left: Vector, norms: Vector, part: slice) -> Vector:
        """(TILE, len(part)) kernel values of the rows `left` with those of `part`."""
        right = self._X[part].astype(np.float64, copy=False)
        products = np.ascontiguousarray((right @ left.T).T) if is_sparse(right) else left @ right.T
        return self._kernel.of_products(products, norms, self._norms[part])
