"""The compiled inner loops. They import Numba, so solvers import them when they run.

A loop is written once, over `svm.loops.row_operations`, and compiled for dense and for CSR data.
Every loop has a slow, obvious NumPy twin in `tests/svm`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, TypeVar, cast

import numba

from svm.loops.machine_code import MachineCodeCache

F = TypeVar("F", bound=Callable[..., Any])

# Sums may be reordered, so that they can use vector registers. Unlike full fast-math this keeps
# infinities and NaN, by which a diverged training is detected.
REORDER = {"reassoc", "contract", "nsz"}
OPTIONS: Any = {"fastmath": REORDER, "error_model": "numpy", "forceinline": True}
"""A loop contains the code of those that it calls. Otherwise it would run theirs if a process has
loaded them before, and its own copy if not, which is optimized another time: the last bits would
depend on what else has run."""


def compiled(function: F) -> F:
    """Compile without the GIL, and keep the machine code on disk if a folder is writable."""
    loop: Any = numba.njit(nogil=True, **OPTIONS)(function)
    with suppress(RuntimeError):  # read-only installation, and NUMBA_CACHE_DIR not set
        loop._cache = MachineCodeCache(function)
        _kept.append(loop)
    return cast(F, loop)


_kept: list[Any] = []
"""The loops whose machine code is kept on disk."""


def load_compiled() -> None:
    """Load the machine code of all loops that is on disk: forks of this process then have it.

    Nothing is compiled, and no thread is started.
    """
    for module in iter_modules(__path__, f"{__name__}."):
        import_module(module.name)
    for loop in _kept:
        for signature in loop._cache.signatures(loop.targetctx.codegen()):
            loop.compile(signature)
