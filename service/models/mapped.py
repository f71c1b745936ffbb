"""Memory-mapped arrays: only the part in use is in memory."""

from __future__ import annotations

import io
import math
import mmap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALL_BYTES = 1024 * 1024
"""Smaller arrays are read at once."""
BLOCK_VALUES = 1 << 17


def mapped(
    path: Path, dtype: np.dtype[Any], shape: tuple[int, ...], offset: int = 0
) -> NDArray[Any]:
    """The array at `offset` of the file, in C order, read-only."""
    if dtype.itemsize * math.prod(shape) <= SMALL_BYTES:
        small = np.fromfile(path, dtype, math.prod(shape), offset=offset).reshape(shape)
        small.flags.writeable = False
        return small
    return np.memmap(path, dtype, "r", offset, shape).view(np.ndarray)


def blocks(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The values of a contiguous array in C order, in blocks."""
    flat = array.reshape(-1)
    for start in range(0, flat.size, BLOCK_VALUES):
        yield flat[start : start + BLOCK_VALUES]
        release(array)


def release(array: NDArray[Any]) -> None:
    """Release the memory of a mapped array; its values stay in the file."""
    owner: Any = array
    while owner is not None:
        if isinstance(owner, mmap.mmap):
            owner.madvise(mmap.MADV_DONTNEED)
        owner = getattr(owner, "base", None)


class ReleasingWriter(io.BufferedWriter):
    """A new file that releases the memory of mapped arrays as it writes them."""

    def __init__(self, path: Path, arrays: Iterable[NDArray[Any]]) -> None:
        super().__init__(io.FileIO(path, "wb"))
        self._arrays = list(arrays)

    def write(self, content: Any) -> int:
        written = super().write(content)
        for array in self._arrays:
            release(array)
        return written
