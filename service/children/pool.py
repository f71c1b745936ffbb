"""The service's side of child processes: started when needed, replaced when they die."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress

import anyio
import structlog
from anyio.to_thread import run_sync

PROCESSES = 2
IDLE_S = 60.0
"""A process without work for so long ends."""

log = structlog.stdlib.get_logger("service.children")


class ChildDied(Exception):
    """It crashed, ran out of memory, or was ended at its time limit or with the service."""


class ChildPool:
    """Processes `python -m <module>` that answer a line with a line, at most two at once; more
    lines wait for their turn."""

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
        self._turns = anyio.CapacityLimiter(PROCESSES)
        self._lock = threading.Lock()
        self._idle: dict[subprocess.Popen[str], threading.Timer] = {}
        self._working: set[subprocess.Popen[str]] = set()

    async def ask(self, line: str) -> str:
        """The answer to a line. Raises ChildDied."""
        return await run_sync(self._ask, line, limiter=self._turns)

    def close(self) -> None:
        """End all processes; who waits for an answer gets ChildDied."""
        for process in list(self._idle):
            self._retire(process)
        for process in list(self._working):
            process.kill()

    def _ask(self, line: str) -> str:
        process = self._take()
        watchdog = threading.Timer(self._time_limit_s, process.kill)
        watchdog.start()
        self._working.add(process)
        try:
            reply = _ask(process, line)
        finally:
            self._working.remove(process)
            watchdog.cancel()
        if not reply:
            _end(process)
            log.warning("a child process died", module=self._module, status=process.returncode)
            raise ChildDied
        self._keep(process)
        return reply

    def _take(self) -> subprocess.Popen[str]:
        with self._lock:
            while self._idle:
                process, timer = self._idle.popitem()
                timer.cancel()
                if process.poll() is None:
                    return process
                _end(process)
        return subprocess.Popen(
            [sys.executable, "-m", self._module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **self._environment},
            text=True,
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


def _ask(process: subprocess.Popen[str], line: str) -> str:
    """The reply, or nothing from a process that died."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    except BrokenPipeError:
        return ""
    reply = process.stdout.readline()
    return reply if reply.endswith("\n") else ""


def _end(process: subprocess.Popen[str]) -> None:
    """Let a process without work end, and collect it."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(BrokenPipeError):
        process.stdin.close()
    process.stdout.close()
    process.wait()
