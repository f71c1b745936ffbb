"""The compiled inner loops. Importing this package imports Numba, so solvers do it when they run.

A loop is written once, over `svm.loops.row_operations`, and compiled for dense and for CSR data.
Every loop has a slow, obvious NumPy twin in `tests/svm`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

# Sums may be reordered, which lets them use vector registers; unlike blanket fast-math this keeps
# infinities and NaN, which tell that a training diverged.
REORDER = {"reassoc", "contract", "nsz"}


def compiled(function: F, *, fastmath: Collection[str] = REORDER) -> F:
    """Compile without the GIL, and keep the machine code on disk where a folder is writable."""
    compile_with = partial(numba.njit, nogil=True, fastmath=set(fastmath), error_model="numpy")
    try:
        return cast(F, compile_with(cache=True)(function))
    except RuntimeError:  # read-only installation, and NUMBA_CACHE_DIR not set
        return cast(F, compile_with()(function))
