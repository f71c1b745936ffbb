"""Named arrays as bytes, without pickling."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]


def pack(arrays: Arrays) -> bytes:
    """An NPZ file. Raises ValueError for arrays of objects, and MemoryError."""
    buffer = io.BytesIO()
    try:
        np.savez(buffer, allow_pickle=False, **arrays)
    except ValueError as error:  # closing the incomplete file hides what happened before
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, MemoryError):
            cause = cause.__context__
        raise cause or error from None
    return buffer.getvalue()


def unpack(content: bytes) -> dict[str, npt.NDArray[Any]]:
    """The arrays that were given to `pack`."""
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def under(name: str, arrays: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """The same with `name` before each of their names, to pack several groups together."""
    return {f"{name}.{key}": np.asarray(array) for key, array in arrays.items()}


def below(name: str, arrays: Arrays) -> dict[str, npt.NDArray[Any]]:
    """The arrays that were given to `under` with this name."""
    start = f"{name}."
    return {key.removeprefix(start): a for key, a in arrays.items() if key.startswith(start)}
