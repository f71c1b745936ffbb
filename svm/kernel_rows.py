"""Rows of the kernel matrix, kept as long as memory for them lasts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock

import numpy as np

from svm.kernels import AnyKernel, dense_rows
from svm.matrices import Indices, Matrix, Vector, is_sparse
from svm.rows import row_norms

CACHE_BYTES = 1 << 29
"""For all binary problems of a training together."""
TILE = 128
"""Rows computed by one matrix product, always as many: a row's bits do not depend on which others
are computed with it, nor on what was kept."""
COLUMNS = 4096
"""Columns between two looks at the caller's wishes."""


class KernelRows:
    """k(xᵢ, ·) over all rows of X, for the rows i asked for. Safe to share between threads."""

    def __init__(self, X: Matrix, kernel: AnyKernel, cache_bytes: int = CACHE_BYTES) -> None:
        self._X = X
        self._kernel = kernel
        self._kept: OrderedDict[int, Vector] = OrderedDict()
        self._room = max(TILE, cache_bytes // (8 * max(1, X.shape[0])))
        self._lock = Lock()
        self._norms = row_norms(X)

    def get(self, rows: Indices, columns: Indices, interrupted: Callable[[], None]) -> Vector:
        """(len(rows), len(columns)), in float64 whatever the precision of X: a certificate that
        rests on rounded values would not be one."""
        wanted = rows.tolist()
        with self._lock:
            # Held on to from here: another thread's rows may push them out.
            found = {row: self._kept[row] for row in wanted if row in self._kept}
        missing = np.array([row for row in wanted if row not in found], np.int64)
        for start in range(0, len(missing), TILE):
            some = missing[start : start + TILE]
            tile = self._computed(some, interrupted)
            # Copies: a view would keep the whole tile in memory, beyond what is counted.
            found |= {row: values.copy() for row, values in zip(some.tolist(), tile, strict=False)}
        out = np.empty((len(rows), len(columns)))
        everything = len(columns) == self._X.shape[0]
        for k, row in enumerate(wanted):
            out[k] = found[row] if everything else found[row][columns]
        with self._lock:
            for row in wanted:
                self._kept[row] = found[row]
                self._kept.move_to_end(row)
            while len(self._kept) > self._room:
                self._kept.popitem(last=False)
        return out

    def _computed(self, rows: Indices, interrupted: Callable[[], None]) -> Vector:
        """Kernel rows, (TILE, n_rows): those of `rows`, filled up with the last one's."""
        rows = np.concatenate([rows, np.full(TILE - len(rows), rows[-1])])
        X, n = self._X, self._X.shape[0]
        left = dense_rows(X, rows)
        values = np.empty((TILE, n))
        for start in range(0, n, COLUMNS):
            interrupted()
            part = slice(start, min(n, start + COLUMNS))
            right = X[part].astype(np.float64, copy=False)
            products = np.ascontiguousarray((right @ left.T).T) if is_sparse(X) else left @ right.T
            norms = self._norms[rows], self._norms[part]
            values[:, part] = self._kernel.of_products(products, *norms)
        return values
