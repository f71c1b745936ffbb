"""Compiles the loops that no job has used yet, in a process of its own."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from service.storage.lock import DataDirInUse, exclusive


def is_complete() -> bool:
    """Whether all loops are compiled for this version of Numba and this processor."""
    return _mark().exists()


def run() -> None:
    """Compile all, after everything else that this machine does; not longer than the supervisor
    lives."""
    os.setpriority(os.PRIO_PROCESS, 0, 19)
    supervisor = os.getppid()
    # A disk that is full or fails is no reason not to train: then each process compiles.
    with suppress(DataDirInUse, OSError), exclusive(_folder()):
        from svm.training.warm_up import warm_up

        warm_up(lambda: os.getppid() != supervisor)
        if os.getppid() == supervisor:
            _mark().touch()


def _folder() -> Path:
    return Path(os.environ["NUMBA_CACHE_DIR"])


def _mark() -> Path:
    from llvmlite import binding

    return _folder() / f"complete-{version('numba')}-{binding.get_host_cpu_name()}"
