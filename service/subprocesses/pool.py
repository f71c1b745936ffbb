"""The pool of child processes: started when needed, replaced when they die."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

import anyio
import structlog
from anyio import CancelScope, get_cancelled_exc_class
from anyio.to_thread import run_sync

from service.errors import Unavailable
from service.subprocesses import ONE_THREAD
from service.subprocesses.working import FAILED

PROCESSES = 2
IDLE_S = 60.0
"""A process without work ends after this time."""
END_S = 5.0
"""Time for a process to end before it is killed."""
RETRY_S = 5.0
"""Time until a retry after two processes died."""

log = structlog.stdlib.get_logger("service.subprocesses")


class TookTooLong(Exception):
    """The process was killed at its time limit."""


class ChildFailed(Exception):
    """The process had an unexpected exception, and logged it."""


class _Work:
    """A line that is being answered, until its caller gives it up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self.given_up = False

    def begin(self, process: subprocess.Popen[str]) -> None:
        with self._lock:
            self._process = process
            if self.given_up:
                process.kill()

    def end(self) -> None:
        with self._lock:
            self._process = None

    def give_up(self) -> None:
        """End its process, and wait for the end."""
        with self._lock:
            self.given_up = True
            if self._process is not None:
                self._process.kill()
                self._process.wait()


class ChildPool:
    """Processes `python -m <module>` that answer a line with a line, at most two at once; further
    lines wait in a queue.

    If a process dies, its line is sent to a second one, so the work must be repeatable. Data that
    crash their process cost two processes, each with its own limits of memory and time; other
    lines get new processes.
    """

    def __init__(
        self,
        module: str,
        *,
        time_limit_s: float,
        idle_s: float = IDLE_S,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`environment` is added to that of this process."""
        self._module = module
        self._time_limit_s = time_limit_s
        self._idle_s = idle_s
        self._environment = dict(environment or {})
        self._limiter = anyio.CapacityLimiter(PROCESSES)
        self._lock = threading.Lock()
        self._closed = 0
        self._idle: dict[subprocess.Popen[str], threading.Timer] = {}
        self._busy: set[subprocess.Popen[str]] = set()

    async def ask(self, line: str) -> str:
        """The answer to a line. If the caller is canceled, its process ends.

        Raises TookTooLong, ChildFailed, and Unavailable: `process-lost` after two processes died,
        `shutting-down` if the pool is closed meanwhile.
        """
        work = _Work()
        try:
            ask = partial(self._ask, line, self._closed, work)
            return await run_sync(ask, limiter=self._limiter, abandon_on_cancel=True)
        except get_cancelled_exc_class():
            with CancelScope(shield=True):
                await run_sync(work.give_up)
            raise

    def close(self) -> None:
        """End all processes, also busy ones; lines without an answer fail."""
        with self._lock:
            self._closed += 1
            busy = list(self._busy)
        for process in list(self._idle):
            self._retire(process)
        for process in busy:
            process.kill()
            process.wait()

    def _ask(self, line: str, closed: int, work: _Work) -> str:
        for _ in range(2):
            reply = self._ask_one(line, closed, work)
            if reply is not None:
                return reply
            if work.given_up:
                return FAILED  # no one reads it
        detail = "the child process for this request died twice, out of memory or by a crash"
        raise Unavailable("process-lost", detail, retry_after_s=RETRY_S)

    def _ask_one(self, line: str, closed: int, work: _Work) -> str | None:
        """The reply, None if the process died."""
        process = self._take(closed)
        work.begin(process)
        late = threading.Event()
        watchdog = threading.Timer(self._time_limit_s, _kill, (process, late))
        watchdog.daemon = True
        watchdog.start()
        try:
            reply = _exchange(process, line)
        finally:
            watchdog.cancel()
            work.end()
            with self._lock:
                self._busy.remove(process)
        if reply is not None and reply != FAILED:
            self._keep(process)
            return reply
        _end(process)
        if reply == FAILED:
            raise ChildFailed(self._module)
        if self._closed != closed:
            raise _closing()
        if work.given_up:
            return None
        log.warning(
            "a child process died",
            module=self._module,
            status=process.returncode,
            time_limit_s=self._time_limit_s if late.is_set() else None,
        )
        if late.is_set():
            raise TookTooLong
        return None

    def _take(self, closed: int) -> subprocess.Popen[str]:
        """A process that is alive, now marked as busy. Raises Unavailable if the pool is closed."""
        with self._lock:
            if self._closed != closed:
                raise _closing()
            process = self._take_idle() or self._start()
            self._busy.add(process)
            return process

    def _take_idle(self) -> subprocess.Popen[str] | None:
        while self._idle:
            process, timer = self._idle.popitem()
            timer.cancel()
            if process.poll() is None:
                return process
            _end(process)
        return None

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", self._module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **ONE_THREAD, **self._environment},
            text=True,
            start_new_session=True,  # Ctrl-C reaches only this process, which then ends the child
        )

    def _keep(self, process: subprocess.Popen[str]) -> None:
        timer = threading.Timer(self._idle_s, self._retire, (process,))
        timer.daemon = True
        with self._lock:
            self._idle[process] = timer
        timer.start()

    def _retire(self, process: subprocess.Popen[str]) -> None:
        with self._lock:
            timer = self._idle.pop(process, None)
        if timer is not None:
            timer.cancel()
            _end(process)


def _closing() -> Unavailable:
    detail = "the service is shutting down; nothing was stored"
    return Unavailable("shutting-down", detail, retry_after_s=RETRY_S)


def _kill(process: subprocess.Popen[str], late: threading.Event) -> None:
    late.set()
    process.kill()


def _exchange(process: subprocess.Popen[str], line: str) -> str | None:
    """The reply, None from a process that died."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    except BrokenPipeError:
        return None
    reply = process.stdout.readline()
    return reply[:-1] if reply.endswith("\n") else None


def _end(process: subprocess.Popen[str]) -> None:
    """End a process without work, and wait for it."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    process.stdout.close()
    try:
        process.wait(END_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
