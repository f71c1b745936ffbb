"""A service as processes that are killed and restarted: on one machine, or on several: two replicas
and two machines of workers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import psutil

COMMAND = str(Path(sys.executable).parent / "svm-service")
START_S = 60.0
QUICK = {"SVM_LEASE_S": "3", "SVM_CHECKPOINT_S": "0.1", "SVM_LOG_LEVEL": "warning"}
"""Short leases and checkpoint intervals, so that lost jobs are resumed soon."""
SUPERVISORS = ("supervisor", "worker machine")
KINDS = {"api": ("api",), "worker": ("worker",), "supervisor": SUPERVISORS, "parser": ("parser",)}
"""Roles of processes by kind."""
LOWEST = 19
"""The priority of the process that compiles loops."""


@dataclass
class Command:
    """A command of the service, and all its descendants."""

    arguments: list[str]
    environment: dict[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [COMMAND, *self.arguments],
                env={**os.environ, **self.environment},
                stdout=log,
                stderr=log,
            )

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def tree(self) -> list[psutil.Process]:
        assert self.process is not None
        try:
            top = psutil.Process(self.process.pid)
            return [top, *top.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []


@dataclass
class Stack:
    """All commands of a service."""

    commands: list[Command]
    urls: list[str]
    """Addresses of the replicas."""
    postgres: psutil.Process | None = None
    kinds: dict[str, tuple[str, ...]] = field(default_factory=lambda: dict(KINDS))
    """Kinds of processes that are killed in turn."""
    orphans: list[psutil.Process] = field(default_factory=list)
    """Descendants of a killed command; they must end by themselves."""

    def unexpected(self) -> list[str]:
        """What the logs say of jobs that failed for no known reason."""
        logs = [command.log.read_text(errors="replace") for command in self.commands]
        return [line for log in logs for line in log.splitlines() if '"job failed"' in line]

    def victims(self) -> dict[str, list[psutil.Process]]:
        """All processes by their role."""
        roles: dict[str, list[psutil.Process]] = {}
        for command in self.commands:
            for process in command.tree():
                roles.setdefault(_role(process, command), []).append(process)
        if self.postgres is not None:
            backends = [p for p in self.postgres.children() if "[local]" in " ".join(_words(p))]
            roles["database"] = backends
        return {role: processes for role, processes in roles.items() if role and processes}

    def kill(self, victim: psutil.Process) -> None:
        for command in self.commands:
            if command.process is not None and command.process.pid == victim.pid:
                self.orphans += command.tree()[1:]
        victim.kill()
        for command in self.commands:
            if command.process is not None and command.process.pid == victim.pid:
                command.process.wait()

    def restart(self) -> None:
        for command in self.commands:
            if not command.alive:
                command.start()

    def ready(self) -> bool:
        """Whether every replica is ready."""
        try:
            return all(httpx2.get(f"{url}/readyz", timeout=5).is_success for url in self.urls)
        except httpx2.HTTPError:
            return False

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_S
        while not self.ready():
            assert time.monotonic() < deadline, "the service is not ready"
            time.sleep(0.05)

    def stop(self) -> None:
        """Send SIGTERM to all: they exit with 0 and leave no process."""
        running = [process for command in self.commands for process in command.tree()]
        for command in self.commands:
            if command.process is not None and command.alive:
                command.process.send_signal(signal.SIGTERM)
        codes = [command.process.wait(40) for command in self.commands if command.process]
        assert codes == [0] * len(codes), codes
        alive = psutil.wait_procs([*running, *self.orphans], timeout=20)[1]
        assert not alive, f"processes outlived the service: {alive}"


@contextmanager
def one_machine(folder: Path) -> Iterator[Stack]:
    """API, supervisor and two workers, SQLite and files."""
    port = free_port()
    environment = {**QUICK, "SVM_DATA_DIR": str(folder / "var")}
    serve = Command(["serve", "--port", str(port)], environment, folder / "serve.log")
    yield from _running(Stack([serve], [f"http://127.0.0.1:{port}"]))


@contextmanager
def cluster(folder: Path, database_url: str, blob_url: str, workers: int = 2) -> Iterator[Stack]:
    """Two replicas without workers, and `workers` machines with a worker each, PostgreSQL and
    S3."""
    ports = [free_port(), free_port()]
    common = {**QUICK, "SVM_DATABASE_URL": database_url, "SVM_BLOB_URL": blob_url}
    commands = []
    for k in range(workers):
        own = {**common, "SVM_DATA_DIR": str(folder / f"worker-{k}"), "SVM_WORKERS": "1"}
        commands.append(Command(["worker"], own, folder / f"worker-{k}.log"))
    for k, port in enumerate(ports):
        own = {**common, "SVM_DATA_DIR": str(folder / f"replica-{k}"), "SVM_WORKERS": "0"}
        commands.append(Command(["serve", "--port", str(port)], own, folder / f"replica-{k}.log"))
    yield from _running(Stack(commands, [f"http://127.0.0.1:{port}" for port in ports]))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _running(stack: Stack) -> Iterator[Stack]:
    stack.restart()
    try:
        stack.wait_ready()
        yield stack
        stack.stop()
    finally:
        for command in stack.commands:
            for process in command.tree():
                process.kill()
            if command.process is not None:
                command.process.wait()


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has just ended
        return []


def _role(process: psutil.Process, command: Command) -> str:
    """The role of a process; empty for other processes."""
    if command.process is not None and process.pid == command.process.pid:
        return {"serve": "api", "worker": "worker machine"}.get(command.arguments[0], "")
    words = " ".join(_words(process))
    if "service.rows.parsing_process" in words:
        return "parser"
    if not _is_engine(words):
        return ""
    try:
        above = " ".join(_words(process.parent() or process))
        is_compiler = process.nice() == LOWEST
    except psutil.Error:  # it has just ended
        return ""
    if not _is_engine(above) or (command.process and process.ppid() == command.process.pid):
        return "supervisor"
    return "" if is_compiler else "worker"


def _is_engine(words: str) -> bool:
    """The supervisor of `serve` is a fork of it."""
    return "service.jobs.engine.supervisor" in words or " serve " in words
