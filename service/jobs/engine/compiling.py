"""Compiles loops before a job needs them, and tells when a job has to.

`python -m service.jobs.engine.compiling` compiles what the first training needs, at installation;
a process beside the workers compiles the rest.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

from service.jobs.core.attempts import Attempt
from service.settings import Settings
from service.storage.machine_code import LOCK, VARIABLE, keep_machine_code

logger = logging.getLogger(__name__)


def is_complete() -> bool:
    """Whether all loops are compiled for this version of Numba and this processor."""
    return _mark().exists()


def run() -> None:
    """Compile all, after everything else that this machine does; not longer than the supervisor
    lives."""
    os.setpriority(os.PRIO_PROCESS, 0, 19)
    supervisor = os.getppid()
    # A disk that is full or fails is no reason not to train: then each process compiles.
    with suppress(OSError), (_folder() / LOCK).open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another service may compile the same
        if is_complete():
            return
        from svm.training.warm_up import warm_up

        warm_up(lambda: os.getppid() != supervisor)
        if os.getppid() == supervisor:
            _mark().touch()


def main() -> None:
    """Compile what `auto` needs for numbers without gaps, in the folder that the service uses."""
    keep_machine_code(Settings().data_dir)
    from svm.training.warm_up import warm_up_first

    warm_up_first()


@contextmanager
def report_compiling(attempt: Attempt) -> Iterator[None]:
    """During the block the phases of the job, and the log, say when loops are compiled."""
    # Imported by workers in any case.
    from numba.core import event

    class Listener(event.Listener):
        said = False

        def on_start(self, event: object) -> None:
            if not self.said:
                self.said = True
                logger.info("compiling loops for this machine, once")
            attempt.compile(1)

        def on_end(self, event: object) -> None:
            attempt.compile(-1)

    with event.install_listener("numba:compile", Listener()):
        yield


def _folder() -> Path:
    return Path(os.environ[VARIABLE])


def _mark() -> Path:
    from llvmlite import binding

    return _folder() / f"complete-{version('numba')}-{binding.get_host_cpu_name()}"


if __name__ == "__main__":
    main()
