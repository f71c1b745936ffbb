"""Requests at a constant rate, whether or not those before them are answered.

The client is compiled: one in Python takes longer than the server that it measures.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

SOURCE = Path(__file__).with_suffix(".c")


class Sending:
    """Requests that are being sent, `rate` a second in all."""

    def __init__(
        self, url: str, request: bytes, *, connections: int, rate: float, seconds: float
    ) -> None:
        """To the port of this URL, on this machine."""
        words = map(str, (urlsplit(url).port, connections, rate, seconds))
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [f"{_folder().name}/client", *words], stdin=pipe, stdout=pipe, stderr=pipe
        )
        self.pid = self._process.pid
        assert self._process.stdin is not None
        self._process.stdin.write(request)
        self._process.stdin.close()
        self._process.stdin = None

    def times(self) -> list[float]:
        """Seconds from when each request was due to its reply, when all have come. Raises
        RuntimeError for a reply that is not 200."""
        output, errors = self._process.communicate()
        if self._process.returncode:
            raise RuntimeError(errors.decode())
        return [float(line) for line in output.split()]


def go_first(thread: int) -> None:
    """Let the thread, and those that it starts, precede other processes. Needs CAP_SYS_NICE."""
    os.sched_setscheduler(thread, os.SCHED_FIFO, os.sched_param(1))


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """Holds the compiled client until the process ends."""
    folder = tempfile.TemporaryDirectory()
    command = ["cc", "-O2", "-D_GNU_SOURCE", "-o", f"{folder.name}/client", str(SOURCE)]
    subprocess.run(command, check=True)
    return folder
