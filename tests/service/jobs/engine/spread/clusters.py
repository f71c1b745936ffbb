"""A real cluster of Dask on this machine: a scheduler and workers, each a process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from service.jobs.spread.connection import Connection
from svm.data.matrices import Indices, Matrix
from tests.waiting import until

ROOT = Path(__file__).parents[5]
START_S = 90.0


@dataclass(frozen=True)
class FileRecipe:
    """Rows in a file that all workers can read."""

    path: str

    def open(self) -> FileRecipe:
        return self

    def read(self, rows: Indices) -> Matrix:
        part: Matrix = np.load(self.path, mmap_mode="r")[rows]
        return part


def _process(*arguments: str, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-W", "ignore", "-m", "distributed.cli.dask_" + arguments[0]]
    return subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--no-dashboard", *arguments[1:]],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", **variables},
        stderr=subprocess.DEVNULL,
    )


def _scheduler(port: int, scheme: str, variables: Mapping[str, str]) -> subprocess.Popen[bytes]:
    arguments = ("--port", str(port), "--protocol", scheme)
    return _process("scheduler", *arguments, variables=variables)


@dataclass
class Cluster:
    """Its processes."""

    port: int
    variables: Mapping[str, str]
    scheduler: subprocess.Popen[bytes]
    scheme: str
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def add_worker(self) -> None:
        """Does not wait for it."""
        self.workers.append(
            _process(
                *("worker", self.address, "--no-nanny", "--nthreads", "1"),
                variables=self.variables,
            )
        )

    def lose_worker(self) -> None:
        worker = self.workers.pop(0)
        worker.kill()
        worker.wait()

    def restart_scheduler(self) -> None:
        """Its workers end, or come back."""
        self.scheduler.kill()
        self.scheduler.wait()
        self.scheduler = _scheduler(self.port, self.scheme, self.variables)

    def wait(self, connection: Connection, count: int) -> None:
        """Until the connection has this many workers."""
        until(lambda: len(connection.workers()) == count)


@contextmanager
def cluster(
    count: int, variables: Mapping[str, str] | None = None, scheme: str = "tcp"
) -> Iterator[Cluster]:
    """Ended at the end, with all its processes, which have these environment variables."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    variables = variables or {}
    made = Cluster(port, variables, _scheduler(port, scheme, variables), scheme)
    for _ in range(count):
        made.add_worker()
    try:
        yield made
    finally:
        for process in (made.scheduler, *made.workers):
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
