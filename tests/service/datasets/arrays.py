"""Arrays as files of their formats."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt


def npy(array: npt.NDArray[Any], version: tuple[int, int] | None = None) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version, allow_pickle=True)
    return file.getvalue()
