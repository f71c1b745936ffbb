"""The supervisor: forks the worker processes of one machine, and replaces those that die.

It has loaded what workers need, libraries and compiled loops, so that a fork takes milliseconds and
shares this memory. It has one thread and no connections: nothing that a fork would break. It lives
by its standard input: a byte says that work may wait, its end that all must stop. Each worker has a
pipe in the same sense, so none outlives the supervisor, and the supervisor not the service.

Jobs belong to the database. When a worker died, its successor releases the job of the dead one and
takes it.
"""

from __future__ import annotations

import gc
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from service.common.logs import configure_logging
from service.jobs.engine import compiling, worker_process
from service.jobs.engine.child import Forked, end_after, signal_pipe
from service.settings import Settings
from service.subprocesses.working import session_steps_back

LOOK_S = 0.5
"""How often to look at the memory of workers, while there are any."""
KILL_AT = 0.95
"""A worker is killed at this part of its memory limit."""
HEALTHY_S = 10.0
"""A worker that lived this long is replaced at once."""
MAX_PAUSE_S = 5.0
SAVE_S = 14.0
"""How long workers have to save their jobs at a stop."""

logger = logging.getLogger(__name__)


def main() -> None:
    """Run until standard input closes or SIGTERM comes."""
    settings = Settings()
    prepare()
    run(settings)


def forked(settings: Settings) -> Forked:
    """The supervisor as a fork of this process, which imports less: Numba and SciPy's linear
    algebra, for example, are imported after the fork."""
    return Forked(prepare, partial(run, settings))


def prepare() -> None:
    """Load what workers need, so that a fork takes milliseconds and shares the memory."""
    worker_process.load_all()
    gc.collect()
    gc.freeze()  # a collection in a worker would copy the pages that it shares


def run(settings: Settings) -> None:
    """What the process does once it has loaded all."""
    configure_logging(settings.log_level)
    session_steps_back(worker_process.NICENESS)
    Supervisor(settings).run()


@dataclass
class _Worker:
    name: str
    pipe: int
    started: float
    stays: bool
    is_killed_for: str | None = None


class Supervisor:
    """All workers of this process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._keep = 0 if settings.sqlite_file else 1
        """Workers that stay when there is no work: another machine may queue a job."""
        self._workers: dict[int, _Worker] = {}
        self._compiler: int | None = None
        self._dead: list[str] = []
        """Names of workers that died; the next worker releases their jobs."""
        self._wanted = settings.workers
        """Workers that there must be now."""
        self._woken_at = time.monotonic()
        self._pause = 0.0
        self._not_before = 0.0
        self._stopping = False
        self._signals, self._bell = signal_pipe(self._stop, signal.SIGTERM)

    def run(self) -> None:
        """Until standard input closes or SIGTERM comes."""
        self._fork_compiler()
        while not self._stopping:
            self._reap()
            self._fork_missing()
            self._limit_memory()
            self._wait()
        for worker in self._workers.values():
            os.close(worker.pipe)
        if self._compiler is not None:
            os.kill(self._compiler, signal.SIGKILL)
        deadline = time.monotonic() + SAVE_S
        while self._workers and time.monotonic() < deadline:
            time.sleep(0.01)
            self._reap()
        for pid in self._workers:
            os.kill(pid, signal.SIGKILL)

    def _stop(self, *_: object) -> None:
        self._stopping = True

    def _wait(self) -> None:
        """For a byte, a signal, or the next look at the memory."""
        waits = len(self._workers) < self._wanted
        timeout = LOOK_S if self._workers or waits else None
        ready, _, _ = select.select([0, self._signals], [], [], timeout)
        woken = 0 in ready
        if self._signals in ready:
            woken |= worker_process.WAKE in os.read(self._signals, 4096)
        if 0 in ready and not os.read(0, 4096):
            self._stopping = True
        if woken:
            self._woken_at = time.monotonic()
            self._wanted = self._settings.workers
            for worker in self._workers.values():
                worker_process.ring(worker.pipe)

    def _reap(self) -> None:
        if self._compiler is not None and os.waitpid(self._compiler, os.WNOHANG)[0]:
            self._compiler = None
            prepare()
        for pid in list(self._workers):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended == 0:
                continue
            worker = self._workers.pop(pid)
            if self._stopping:
                continue
            os.close(worker.pipe)
            code = os.waitstatus_to_exitcode(status)
            now = time.monotonic()
            if code == 0:  # there was no work; but a byte may have come just before its end
                missed = now - self._woken_at < worker_process.IDLE_S
                self._wanted = self._settings.workers if missed else len(self._workers)
                continue
            reason = worker.is_killed_for or _reason(code)
            logger.error("worker %s ended (%s) and is replaced", worker.name, reason)
            self._dead.append(worker.name)
            self._wanted = max(self._wanted, len(self._workers) + 1)
            if now - worker.started > HEALTHY_S:
                self._pause = 0.0
            self._not_before = now + self._pause
            self._pause = min(MAX_PAUSE_S, 2 * self._pause + 0.1)

    def _fork_missing(self) -> None:
        while len(self._workers) < self._wanted and time.monotonic() >= self._not_before:
            self._fork_worker()

    def _fork_worker(self) -> None:
        stays = sum(worker.stays for worker in self._workers.values()) < self._keep
        began = time.time_ns() // 1_000_000  # process ids recur
        prefix = f"{socket.gethostname()}:{began:x}"
        reader, writer = os.pipe()

        def work() -> None:
            for pipe in (writer, self._signals, *(w.pipe for w in self._workers.values())):
                os.close(pipe)
            name = f"{prefix}:{os.getpid()}"
            worker_process.run(self._settings, name, reader, self._bell, self._dead, stays)

        pid = _fork(work)
        os.close(reader)
        os.set_blocking(writer, False)
        self._workers[pid] = _Worker(f"{prefix}:{pid}", writer, time.monotonic(), stays)
        self._dead.clear()

    def _fork_compiler(self) -> None:
        """Compile in a process of lowest priority what no job has used yet."""
        if compiling.is_complete():
            return
        self._compiler = _fork(compiling.run)

    def _limit_memory(self) -> None:
        limit = self._settings.limits.worker_memory_bytes
        for pid, worker in self._workers.items():
            used = _resident_bytes(pid)
            if used > KILL_AT * limit:
                worker.is_killed_for = f"it used {used:,} of {limit:,} bytes of memory"
                os.kill(pid, signal.SIGKILL)


def _fork(work: Callable[[], None]) -> int:
    """The id of a new process that does this work and ends."""
    sys.stderr.flush()
    pid = os.fork()
    if pid > 0:
        return pid

    def begin() -> None:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        work()

    end_after(begin)


def _reason(code: int) -> str:
    return f"exit code {code}" if code > 0 else signal.Signals(-code).name


def _resident_bytes(pid: int) -> int:
    """0 for a process that has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_bytes().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main()
