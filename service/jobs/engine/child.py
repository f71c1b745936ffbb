"""A child process that is kept running, and that ends when its standard input closes.

The child is `python -m <module>`, with the settings in its environment. When it dies it is started
again. Once its standard input closes, because this process stops or dies, it saves what it does
and ends.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from service.settings import Settings
from service.storage.machine_code import machine_code_folder

STOP_S = 18
"""How long a stop may take before the child is killed; jobs then resume from their checkpoints."""
HEALTHY_S = 60
"""A child that lived this long is started again at once."""
MAX_PAUSE_S = 30.0

DASK = {
    # A worker is ended at its memory limit. Nothing spills to disk, and none is paused on the way.
    "DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "False",
    "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "False",
    "DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE": "False",
    "DASK_DISTRIBUTED__WORKER__MEMORY__TERMINATE": "0.95",
    # A nanny starts its worker again however often it dies. By default Dask ends the nanny of a
    # worker that is lost a second time within this time.
    "DASK_DISTRIBUTED__DEPLOY__LOST_WORKER_TIMEOUT": "1000 days",
    # No dashboard, no sampling of stacks, no logging configuration of its own.
    "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
    "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES": "[]",
    "DASK_DISTRIBUTED__WORKER__HTTP__ROUTES": "[]",
    "DASK_LOGGING__VERSION": "1",
    "DASK_LOGGING__DISABLE_EXISTING_LOGGERS": "False",
    # If the engine is killed, Python's resource tracker removes the semaphores of its nannies
    # and warns about each: operators need not see that.
    "PYTHONWARNINGS": "ignore:resource_tracker",
}
"""Our defaults for Dask; variables of the environment override them."""

logger = logging.getLogger(__name__)


class Child:
    """Keeps one child process alive between `start` and `stop`."""

    def __init__(self, module: str, settings: Settings, *arguments: str) -> None:
        self._module = module
        self._settings = settings
        self._arguments = arguments
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._supervisor = threading.Thread(target=self._supervise, name=module, daemon=True)

    @property
    def pid(self) -> int | None:
        """The child's process id while it runs."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        """Begin in the background."""
        self._supervisor.start()

    def stop(self) -> None:
        """Let the child save what it does, and wait for all processes to end."""
        self._stopping.set()
        with self._lock:
            process = self._process
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                logger.warning("%s did not stop in %s s and is killed", self._module, STOP_S)
                process.kill()
        if self._supervisor.ident is not None:
            self._supervisor.join()

    def _supervise(self) -> None:
        pause = 0.0
        while not self._stopping.wait(pause):
            started = time.monotonic()
            with self._lock:
                if self._stopping.is_set():
                    return
                try:
                    process = self._process = self._launch()
                except OSError:  # out of memory or processes at the moment
                    logger.exception("%s could not be started", self._module)
                    pause = MAX_PAUSE_S
                    continue
            with process:  # closes its pipe
                code = process.wait()
            if not self._stopping.is_set():
                logger.error("%s ended with code %s and is started again", self._module, code)
            failed_early = time.monotonic() - started < HEALTHY_S
            pause = min(MAX_PAUSE_S, max(0.5, 2 * pause)) if failed_early else 0.0

    def _launch(self) -> subprocess.Popen[bytes]:
        inherited = {name: value for name, value in os.environ.items() if name[:4] != "SVM_"}
        return subprocess.Popen(
            [sys.executable, "-P", "-m", self._module, *self._arguments],
            stdin=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches this process alone, which then stops the child
            env={
                "NUMBA_CACHE_DIR": str(machine_code_folder(self._settings.data_dir)),
                **DASK,
                **inherited,
                **self._settings.environment(),
                # The child imports the same modules as this process, from any directory.
                "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path),
                # Before NumPy is imported there: results must not depend on the number of cores.
                "OPENBLAS_NUM_THREADS": "1",
                "OMP_NUM_THREADS": "1",
                "MKL_NUM_THREADS": "1",
            },
        )


def stop_requested() -> threading.Event:
    """In the child: set once standard input closes or SIGTERM comes."""
    stop = threading.Event()

    def await_end_of_input() -> None:
        sys.stdin.read()
        stop.set()

    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    threading.Thread(target=await_end_of_input, daemon=True).start()
    return stop


def end_within(seconds: float) -> None:
    """In the child: end after this time, with all its child processes, even if one hangs."""

    def end() -> None:
        for process in multiprocessing.active_children():
            process.kill()
        os._exit(0)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
