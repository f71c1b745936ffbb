"""Named arrays as bytes, without pickling."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]
Content: TypeAlias = bytes | Arrays
"""Of a file: as it is, or arrays to pack, which are not copied in memory."""


def pack(arrays: Arrays) -> bytes:
    """An NPZ file. Raises as `pack_into`."""
    buffer = io.BytesIO()
    pack_into(buffer, arrays)
    return buffer.getvalue()


def pack_into(file: IO[bytes], arrays: Arrays) -> None:
    """Write an NPZ file. Raises ValueError for arrays of objects, OSError and MemoryError."""
    try:
        np.savez(file, allow_pickle=False, **arrays)
    except ValueError as error:  # closing the incomplete file hides what happened before
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, MemoryError | OSError):
            cause = cause.__context__
        raise cause or error from None


def unpack(content: bytes | IO[bytes]) -> dict[str, npt.NDArray[Any]]:
    """The arrays that were packed."""
    file = io.BytesIO(content) if isinstance(content, bytes) else content
    with np.load(file, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def under(name: str, arrays: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """The same with `name` before each of their names, to pack several groups together."""
    return {f"{name}.{key}": np.asarray(array) for key, array in arrays.items()}


def below(name: str, arrays: Arrays) -> dict[str, npt.NDArray[Any]]:
    """The arrays that were given to `under` with this name."""
    start = f"{name}."
    return {key.removeprefix(start): a for key, a in arrays.items() if key.startswith(start)}
