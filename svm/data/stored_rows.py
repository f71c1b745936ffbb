"""Rows that stay in files and are read when needed: data larger than memory.

Files are read, not mapped: mapped pages count as memory of the process that maps them.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np

from svm.data.executors import IN_THIS_THREAD, Executor
from svm.data.matrices import Array, Floats, Indices, Matrix, cuts, is_sparse
from svm.data.texts import Texts, with_texts

PIECE_VALUES = 1 << 20
"""Values of a matrix that are processed together: 8 MiB."""
FAR = 1024
"""Gaps between two wanted rows with more rows than this are skipped, not read."""


class StoredArray:
    """Numbers in a file, one after the other; read by position, so any thread may read."""

    def __init__(self, file: IO[bytes], dtype: np.dtype[Any], offset: int = 0) -> None:
        """Numbers after `offset` bytes of an open file. The caller may close its file object."""
        self.dtype = dtype
        self._offset = offset
        self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)

    def read_into(self, out: Array, start: int) -> None:
        """Fill `out`, C-contiguous, with the numbers from position `start`. Raises OSError."""
        rest = out.reshape(-1).view(np.uint8).data
        at = self._offset + start * self.dtype.itemsize
        while rest:
            count = os.preadv(self._descriptor, [rest], at)
            if count == 0:
                raise OSError(f"a file of rows ends at byte {at}, but more was expected")
            rest, at = rest[count:], at + count


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredRows:
    """A matrix in files: dense in C order, or CSR with `indptr` in memory.

    `X[rows]` chooses rows without reading them.
    """

    data: StoredArray
    n_rows: int
    """In the files."""
    n_features: int
    indices: StoredArray | None = None
    indptr: Array | None = None
    """(n_rows + 1,) for CSR."""
    chosen: Indices | None = None
    """Rows of the files that are the rows of this matrix, strictly ascending; None for all."""
    digest: str
    """Of the source of the rows; equal for equal rows."""
    texts: Texts | None = None
    """Of raw rows with columns of texts."""
    scratch: Path
    """Folder for temporary copies. They have no name there, and are deleted with the process."""

    @property
    def shape(self) -> tuple[int, int]:
        return (self.n_rows if self.chosen is None else len(self.chosen), self.n_features)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.data.dtype

    def __getitem__(self, rows: Indices) -> StoredRows:
        """Some rows, strictly ascending."""
        rows = np.asarray(rows, dtype=np.int64)
        digest = sha256(self.digest.encode() + rows.tobytes()).hexdigest()
        chosen = rows if self.chosen is None else self.chosen[rows]
        return replace(self, chosen=chosen, digest=digest)

    def sizes(self, rows: Indices) -> int | Indices:
        """Values stored for each of `rows`; one number if all have the same."""
        if self.indptr is None:
            return self.n_features
        rows = rows if self.chosen is None else self.chosen[rows]
        sizes: Indices = (self.indptr[rows + 1] - self.indptr[rows]).astype(np.int64)
        return sizes

    def read(self, rows: Indices) -> Matrix:
        """Some rows, ascending, in memory."""
        operand = Reader(self).read(rows)
        if self.indptr is None:
            dense: Floats = operand
            return dense if self.texts is None else with_texts(dense, self.texts)
        from scipy.sparse import csr_array

        return csr_array(operand, shape=(len(rows), self.n_features))

    def rewritten(self, transform: Callable[[Matrix], Matrix], width: int = 0) -> StoredRows:
        """The rows after `transform`, in new files; a transformed row has `width` values.

        It is called with some rows at a time; a row's result must not depend on the other rows.
        """
        lengths: list[Array] = []
        with ExitStack() as stack:
            files: list[IO[bytes]] = []
            for piece in pieces(self, width):
                made = transform(piece)
                arrays = [made.data, made.indices] if is_sparse(made) else [made]
                while len(files) < len(arrays):
                    files.append(stack.enter_context(tempfile.TemporaryFile(dir=self.scratch)))
                for file, array in zip(files, arrays, strict=True):
                    file.write(np.ascontiguousarray(array).data)
                if is_sparse(made):
                    lengths.append(np.diff(made.indptr))
            for file in files:
                file.flush()
            data, *indices = (
                StoredArray(file, array.dtype) for file, array in zip(files, arrays, strict=True)
            )
        return replace(
            self,
            data=data,
            indices=indices[0] if indices else None,
            indptr=np.concatenate([[0], *lengths]).cumsum() if indices else None,
            n_rows=self.shape[0],
            n_features=made.shape[1],
            chosen=None,
            texts=getattr(made, "texts", None),
        )


Rows: TypeAlias = "Matrix | StoredRows"


def is_csr(X: Rows) -> bool:
    """Whether X is sparse, in memory or in files."""
    return getattr(X, "indptr", None) is not None


def stored_values(X: Rows, rows: Indices | None = None) -> int:
    """Entries of a dense matrix, non-zeros of a sparse one; of some `rows`, if they are given."""
    n, d = X.shape if rows is None else (len(rows), X.shape[1])
    if not is_csr(X):
        return int(n * d)
    sizes = row_sizes(X, np.arange(n) if rows is None else rows)
    return sizes * int(n) if isinstance(sizes, int) else int(sizes.sum())


def row_sizes(X: Rows, rows: Indices) -> int | Indices:
    """Values stored for each of `rows`; one number if all have the same."""
    if isinstance(X, StoredRows):
        return X.sizes(rows)
    if is_sparse(X):
        sizes: Indices = np.diff(X.indptr)[rows].astype(np.int64)
        return sizes
    return int(X.shape[1])


def pieces(X: Rows, width: int = 0, rows: Indices | None = None) -> Iterator[Matrix]:
    """All rows in order, or `rows` (ascending), about `PIECE_VALUES` values at a time.

    Every row counts for at least `width` values. The pieces are the same in memory and in files.
    """
    for run in piece_runs(X, width, rows):
        yield piece_of(X, run, rows)


def piece_runs(X: Rows, width: int = 0, rows: Indices | None = None) -> list[slice]:
    """Where the `pieces` begin and end."""
    chosen = np.arange(X.shape[0]) if rows is None else rows
    sizes = row_sizes(X, chosen)
    sizes = max(sizes, width) if isinstance(sizes, int) else np.maximum(sizes, width)
    return [slice(*ends) for ends in pairwise(cuts(sizes, len(chosen), PIECE_VALUES))]


def piece_of(X: Rows, run: slice, rows: Indices | None = None) -> Matrix:
    """One of them."""
    if isinstance(X, StoredRows):
        return X.read(np.arange(run.start, run.stop) if rows is None else rows[run])
    some: Matrix = X[run if rows is None else rows[run]]
    return some


def gathered(X: Rows, rows: Indices, executor: Executor = IN_THIS_THREAD) -> Rows:
    """Some rows, ascending; of a dense matrix a copy that threads make."""
    if executor.threads == 1 or type(X) is not np.ndarray:
        return X[rows]
    some = np.empty((len(rows), X.shape[1]), X.dtype)

    def copy(run: slice) -> None:
        np.take(X, rows[run], axis=0, out=some[run], mode="clip")  # any other mode copies twice

    executor.map(copy, piece_runs(X, rows=rows))
    return some


class Reader:
    """Reads rows into buffers that the next `read` overwrites; for one thread."""

    def __init__(self, X: StoredRows) -> None:
        self._X = X
        self._arrays = [array for array in (X.data, X.indices) if array is not None]
        self._buffers = [np.empty(0, array.dtype) for array in self._arrays]

    def read(self, *runs: Indices) -> Any:
        """The rows of all `runs`, each ascending, one below the other.

        An operand of compiled loops: an array, or (data, indices, indptr).
        """
        X = self._X
        if X.chosen is not None:
            runs = tuple(X.chosen[run] for run in runs)
        starts, ends = self._extents(np.concatenate(runs))
        indptr = np.zeros(len(starts) + 1, dtype=np.int32)
        np.cumsum(ends - starts, out=indptr[1:])
        total = int(indptr[-1])
        if total > len(self._buffers[0]):
            self._buffers = [np.empty(total, array.dtype) for array in self._arrays]
        parts = [buffer[:total] for buffer in self._buffers]
        at = 0
        for run in runs:
            for near in np.split(run, np.flatnonzero(np.diff(run) > FAR) + 1):
                at = self._fill(parts, at, near)
        return parts[0].reshape(-1, X.n_features) if X.indptr is None else (*parts, indptr)

    def _extents(self, rows: Indices) -> tuple[Indices, Indices]:
        """Positions in the files at which the values of each row begin and end."""
        X = self._X
        if X.indptr is None:
            return rows * X.n_features, (rows + 1) * X.n_features
        return X.indptr[rows].astype(np.int64), X.indptr[rows + 1].astype(np.int64)

    def _fill(self, parts: list[Array], at: int, rows: Indices) -> int:
        """Read ascending rows of the files into `parts` from position `at`; returns their end."""
        if len(rows) == 0:
            return at
        starts, ends = self._extents(rows[[0, -1]])
        if rows[-1] - rows[0] + 1 == len(rows):
            stop = at + int(ends[1] - starts[0])
            for part, array in zip(parts, self._arrays, strict=True):
                array.read_into(part[at:stop], int(starts[0]))
            return stop
        # All rows in between are read, a piece at a time, and the wanted ones kept.
        stretch = np.arange(rows[0], rows[-1] + 1)
        wanted = np.zeros(len(stretch), dtype=bool)
        wanted[rows - rows[0]] = True
        starts, ends = self._extents(stretch)
        for first, last in pairwise(cuts(ends - starts, len(stretch), PIECE_VALUES)):
            mask = wanted[first:last]
            if not mask.any():
                continue
            lengths = ends[first:last] - starts[first:last]
            stop = at + int(lengths[mask].sum())
            for part, array in zip(parts, self._arrays, strict=True):
                values = np.empty(int(lengths.sum()), array.dtype)
                array.read_into(values, int(starts[first]))
                if self._X.indptr is None:
                    part[at:stop] = values.reshape(len(mask), -1)[mask].reshape(-1)
                else:
                    part[at:stop] = values[np.repeat(mask, lengths)]
            at = stop
        return at
