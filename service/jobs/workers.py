"""The worker processes as the API process sees them: one child that it keeps running.

The child is `service.jobs.engine_process`: Dask's scheduler and nannies; the workers are its
children. It lives by its standard input: the settings come on the first line, and once the pipe
closes, because this process stops or dies, it lets the workers save their jobs and ends.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import svm
from service.settings import Settings

STOP_S = 18
"""How long a stop may take before the child is killed; jobs then go on from their checkpoints."""
HEALTHY_S = 60
"""A child that lived this long is started again at once."""
MAX_PAUSE_S = 30.0

logger = logging.getLogger(__name__)


class Engine:
    """Keeps the engine process alive between `start` and `stop`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._supervisor = threading.Thread(target=self._supervise, name="engine", daemon=True)

    @property
    def pid(self) -> int | None:
        """The child's process id while it runs."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def start(self) -> None:
        """Begin in the background; nothing happens where the settings ask for no workers."""
        if self._settings.workers > 0:
            self._supervisor.start()

    def stop(self) -> None:
        """Let the workers save what they do, and wait for all processes to end."""
        self._stopping.set()
        with self._lock:
            process = self._process
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            logger.warning("the engine did not stop in %s s and is killed", STOP_S)
            process.kill()
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
                except OSError:  # no memory or no process left at the moment
                    logger.exception("the engine could not be started")
                    pause = MAX_PAUSE_S
                    continue
            with process:  # closes its pipe
                code = process.wait()
            if not self._stopping.is_set():
                logger.error("the engine ended with code %s and is started again", code)
            failed_early = time.monotonic() - started < HEALTHY_S
            pause = min(MAX_PAUSE_S, max(0.5, 2 * pause)) if failed_early else 0.0

    def _launch(self) -> subprocess.Popen[str]:
        settings = self._settings
        numba_cache = settings.data_dir.resolve() / "numba" / _digest_of_loops()
        numba_cache.mkdir(parents=True, exist_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "service.jobs.engine_process"],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C reaches this process alone, which then stops the child
            env={
                "NUMBA_CACHE_DIR": str(numba_cache),
                **os.environ,
                # Dask shall not set up its own way of logging.
                "DASK_LOGGING__VERSION": "1",
                "DASK_LOGGING__DISABLE_EXISTING_LOGGERS": "False",
                # The child finds what this process finds, from whatever directory it was started.
                "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path),
                # Before NumPy is imported there: results must not depend on the number of cores.
                "OPENBLAS_NUM_THREADS": "1",
                "OMP_NUM_THREADS": "1",
                "MKL_NUM_THREADS": "1",
            },
        )
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died at once; `wait` tells
            process.stdin.write(settings.model_dump_json() + "\n")
            process.stdin.flush()
        return process


def _digest_of_loops() -> str:
    """Of the sources of the compiled loops. Numba looks only at the file that a loop stands in,
    so after a change in another one it would run old machine code."""
    digest = hashlib.sha256()
    for path in sorted((Path(svm.__file__).parent / "loops").glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
