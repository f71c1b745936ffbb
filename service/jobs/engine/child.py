"""A child process that is kept running, and that ends when its standard input closes.

The child is `python -m <module>`, with the settings in its environment; the first one may be a fork
instead. When it dies it is started again. Once its standard input closes, because this process
stops or dies, it saves what it does and ends.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, NoReturn

from service.common.malloc import return_free_memory
from service.settings import Settings
from service.storage.machine_code import keep_machine_code
from service.subprocesses import ONE_THREAD

logger = logging.getLogger(__name__)


class Forked:
    """A process that does `prepare` at once, `run` after the first byte in its standard input, and
    ends with it.

    It has the members of `subprocess.Popen` that `Child` needs.
    """

    def __init__(
        self, prepare: Callable[[], None], run: Callable[[], None], keep: int | None = None
    ) -> None:
        """`keep` is a file that stays open in the process, besides the standard ones."""
        gc.collect()
        gc.freeze()  # a collection in either process would copy the pages that they share
        return_free_memory()  # or each would have it once it writes there
        for stream in (sys.stdout, sys.stderr):
            stream.flush()  # or both processes would write what is in it
        reader, writer = os.pipe()
        told, teller = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _become_child(reader, teller, prepare, run, keep or 2)
        os.close(reader)
        os.close(teller)
        self.stdin = os.fdopen(writer, "wb", buffering=0)
        self.stdout = os.fdopen(told, "rb", buffering=0)

    def wait(self) -> int:
        """Wait for its end, once. Its exit code, or less than 0 for a signal."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def kill(self) -> None:
        """End it at once."""
        os.kill(self.pid, signal.SIGKILL)


def _become_child(
    reader: int, teller: int, prepare: Callable[[], None], run: Callable[[], None], keep: int
) -> NoReturn:
    def work() -> None:
        os.setsid()  # Ctrl-C reaches the other process alone, which then stops this one
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(reader, 0)
        os.dup2(teller, 1)
        os.closerange(3, keep)
        os.closerange(keep + 1, os.sysconf("SC_OPEN_MAX"))  # among them the lock of the data
        prepare()
        gc.enable()
        if os.read(0, 1):
            run()

    end_after(work)


def signal_pipe(on_end: Callable[..., None], *ends: int) -> tuple[int, int]:
    """The two ends of a pipe that gets a byte for each signal, so that a wait for it ends: for the
    end of a child, and for those that `on_end` handles. Neither end blocks."""
    reader, writer = os.pipe()
    for end in (reader, writer):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number in ends:
        signal.signal(number, on_end)
    return reader, writer


def end_after(work: Callable[[], None]) -> NoReturn:
    """Do all that a forked process is for, and end it."""
    code = 1
    try:
        work()
        code = 0
    except SystemExit as end:  # what is wrong was reported
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        logger.exception("a forked process failed")
    finally:
        os._exit(code)


STOP_S = 18
"""How long a stop may take before the child is killed; jobs then resume from their checkpoints."""
HEALTHY_S = 60
"""A child that lived this long is started again at once."""
MAX_PAUSE_S = 30.0


class Child:
    """Keeps one child process alive between `start` and `stop`."""

    def __init__(
        self,
        module: str,
        settings: Settings,
        first: Forked | None = None,
        on_told: Callable[[], None] = lambda: None,
    ) -> None:
        """`first` is a process that waits for its first byte to do the same as the module.
        `on_told` is called, in another thread, when the child has written to its standard
        output."""
        self._module = module
        self._settings = settings
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._first = first
        self._on_told = on_told
        self._process: subprocess.Popen[bytes] | Forked | None = None
        self._supervisor = threading.Thread(target=self._supervise, name=module, daemon=True)

    @property
    def pid(self) -> int | None:
        """The child's process id while it runs."""
        process = self._process
        return None if process is None else process.pid

    def start(self) -> None:
        """Begin in the background."""
        self._supervisor.start()

    def wake(self) -> None:
        """Write a byte to the child: there may be work. Never blocks."""
        process = self._process
        if process is not None and process.stdin is not None:
            # A full pipe wakes it anyway; a child that has ended looks for work when it starts.
            with suppress(BlockingIOError, BrokenPipeError, ValueError):
                os.write(process.stdin.fileno(), b"w")

    def stop(self) -> None:
        """Let the child save what it does, and wait for all processes to end."""
        self._stopping.set()
        with self._lock:
            process = self._process
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()
        if self._supervisor.ident is None:
            return
        self._supervisor.join(STOP_S)
        if process is not None and self._supervisor.is_alive():
            logger.warning("%s did not stop in %s s and is killed", self._module, STOP_S)
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
                    process = self._process = self._first or self._launch()
                    assert process.stdin is not None
                    os.set_blocking(process.stdin.fileno(), False)
                except OSError:  # out of memory or processes at the moment
                    logger.exception("%s could not be started", self._module)
                    pause = MAX_PAUSE_S
                    continue
            self._first = None
            listener = threading.Thread(target=self._listen, args=(process.stdout,), daemon=True)
            listener.start()
            self.wake()
            code = process.wait()
            self._process = None
            assert process.stdin is not None
            process.stdin.close()
            if not self._stopping.is_set():
                logger.error("%s ended with code %s and is started again", self._module, code)
            failed_early = time.monotonic() - started < HEALTHY_S
            pause = min(MAX_PAUSE_S, max(0.5, 2 * pause)) if failed_early else 0.0

    def _listen(self, output: IO[bytes]) -> None:
        """Until the child and all its processes have ended."""
        with output:
            while os.read(output.fileno(), 4096):
                self._on_told()

    def _launch(self) -> subprocess.Popen[bytes]:
        keep_machine_code(self._settings.data_dir)
        inherited = {name: value for name, value in os.environ.items() if name[:4] != "SVM_"}
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", self._module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C reaches this process alone, which then stops the child
            env={
                **inherited,
                **self._settings.environment(),
                # The child imports the same modules as this process, from any directory.
                "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path),
                **ONE_THREAD,
            },
        )
        return process
