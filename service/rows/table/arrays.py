"""`.npy` files of ours: written block by block, read block by block, never whole in memory."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
import numpy.typing as npt

from service.rows.spec import HEADER_BYTES

BLOCK_BYTES = 1024 * 1024


class ArrayWriter:
    """One `.npy` file in C order whose number of rows is known at the end only."""

    def __init__(self, path: Path, dtype: str) -> None:
        self._dtype = np.dtype(dtype)
        self._file = path.open("wb")
        self._file.write(bytes(HEADER_BYTES))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, block: npt.NDArray[Any]) -> None:
        self._file.write(np.ascontiguousarray(block, dtype=self._dtype).data)

    def copy(self, path: Path) -> None:
        """All rows of a file of ours of the same type."""
        with path.open("rb") as file:
            file.seek(HEADER_BYTES)
            shutil.copyfileobj(file, self._file, BLOCK_BYTES)

    def finish(self, shape: tuple[int, ...]) -> None:
        self._file.seek(0)
        header = {"descr": self._dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)
        assert self._file.tell() == HEADER_BYTES
        self.close()

    def close(self) -> None:
        self._file.close()


def write_array(path: Path, array: npt.NDArray[Any]) -> None:
    """Write a whole array as `ArrayWriter` does."""
    with ArrayWriter(path, array.dtype.str) as writer:
        writer.write(array)
        writer.finish(array.shape)


def in_folder(folder: Path) -> Callable[[str], Path]:
    """What gives the path of an array by its name."""
    return lambda name: folder / f"{name}.npy"


@contextmanager
def rewriting(folder: Path) -> Iterator[Path]:
    """A folder for arrays that in the end replace those of the same names."""
    part = folder / "rewritten"
    part.mkdir(exist_ok=True)
    yield part
    for path in part.iterdir():
        path.replace(folder / path.name)
    part.rmdir()


def blocks(path: Path, rows: int | None = None) -> Iterator[npt.NDArray[Any]]:
    """Rows of an array some MiB at a time, or this many; entries, the same number in each type."""
    with path.open("rb") as file:
        yield from blocks_of(file, rows)


def blocks_of(file: BinaryIO, rows: int | None = None) -> Iterator[npt.NDArray[Any]]:
    """The same of an open file."""
    np.lib.format.read_magic(file)
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    width = shape[1] if len(shape) == 2 else 1
    rows = rows or max(1, BLOCK_BYTES // (8 * width))
    for start in range(0, shape[0], rows):
        count = min(rows, shape[0] - start)
        block = np.fromfile(file, dtype, count * width)
        yield block.reshape(count, *shape[1:])


def sparse_rows(
    indptr: Path, indices: Path, data: Path
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]]:
    """Rows of a CSR matrix some MiB at a time: how many entries each has, their columns, values."""
    bounds = np.load(indptr)
    n_rows, step = len(bounds) - 1, BLOCK_BYTES // 8
    with indices.open("rb") as columns, data.open("rb") as values:
        columns.seek(HEADER_BYTES)
        values.seek(HEADER_BYTES)
        start = 0
        while start < n_rows:
            end = int(np.searchsorted(bounds, bounds[start] + step, side="right")) - 1
            end = min(max(end, start + 1), start + step, n_rows)
            count = int(bounds[end] - bounds[start])
            yield (
                np.diff(bounds[start : end + 1]).astype(np.int64),
                np.fromfile(columns, np.int32, count).astype(np.int64),
                np.fromfile(values, np.float64, count),
            )
            start = end
