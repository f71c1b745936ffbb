"""Named arrays as bytes, without pickling."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Arrays = Mapping[str, npt.NDArray[Any]]


def pack(arrays: Arrays) -> bytes:
    """An NPZ file. Raises ValueError for arrays of objects."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def unpack(content: bytes) -> dict[str, npt.NDArray[Any]]:
    """The arrays that were given to `pack`."""
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
