"""The service's side of the parsing processes: started when needed, replaced when they die."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

import anyio
import structlog
from anyio.to_thread import run_sync

from service.datasets.parsing.spec import (
    Divided,
    Parsed,
    ParseSpec,
    Rendered,
    RenderSpec,
    SplitSpec,
    decode,
    encode,
)
from service.errors import InvalidContent

PROCESSES = 2
IDLE_S = 60.0
"""A process without work for so long ends."""
TIME_LIMIT_S = 300.0
"""No upload within the limits takes a fifth of it."""

log = structlog.stdlib.get_logger("service.datasets")


class Parser:
    """Works on data in other processes, at most two at once; more wait for their turn."""

    def __init__(self, idle_s: float = IDLE_S, time_limit_s: float = TIME_LIMIT_S) -> None:
        self._idle_s = idle_s
        self._time_limit_s = time_limit_s
        self._turns = anyio.CapacityLimiter(PROCESSES)
        self._lock = threading.Lock()
        self._idle: dict[subprocess.Popen[str], threading.Timer] = {}
        self._working: set[subprocess.Popen[str]] = set()

    async def parse(self, spec: ParseSpec) -> Parsed:
        """Raises ServiceError for whatever is wrong with the upload."""
        parsed: Parsed = await self._answer(spec)
        return parsed

    async def split(self, spec: SplitSpec) -> Divided:
        """Raises InvalidContent where the rows cannot be parted so."""
        divided: Divided = await self._answer(spec)
        return divided

    async def render(self, spec: RenderSpec) -> Rendered:
        """Write a dataset to a file."""
        rendered: Rendered = await self._answer(spec)
        return rendered

    async def _answer(self, spec: ParseSpec | SplitSpec | RenderSpec) -> Any:
        return decode(await run_sync(self._ask, encode(spec), limiter=self._turns))

    def close(self) -> None:
        """End all processes; uploads that are being read fail."""
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
            log.warning("a parsing process died", status=process.returncode)
            raise InvalidContent(
                "parsing-failed", "the data could not be read: the reader ended before it was done"
            )
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
            [sys.executable, "-m", "service.datasets.parsing.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
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
