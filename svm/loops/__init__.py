"""The compiled inner loops. They import Numba, so solvers import them when they run.

A loop is written once, over `svm.loops.row_operations`, and compiled for dense and for CSR data.
Every loop has a slow, obvious NumPy twin in `tests/svm`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import numba

from svm.loops.machine_code import MachineCodeCache

F = TypeVar("F", bound=Callable[..., Any])

# Sums may be reordered, so that they can use vector registers. Unlike full fast-math this keeps
# infinities and NaN, by which a diverged training is detected.
REORDER = {"reassoc", "contract", "nsz"}


def compiled(function: F) -> F:
    """Compile without the GIL, and keep the machine code on disk if a folder is writable."""
    loop: Any = numba.njit(nogil=True, fastmath=REORDER, error_model="numpy")(function)
    with suppress(RuntimeError):  # read-only installation, and NUMBA_CACHE_DIR not set
        loop._cache = MachineCodeCache(function)
    return cast(F, loop)
