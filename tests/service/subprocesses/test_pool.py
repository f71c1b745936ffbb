"""Child processes that die, hang, fail, and end with the service."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import psutil
import pytest

from service.errors import Unavailable
from service.subprocesses.pool import ChildFailed, ChildPool, TookTooLong
from tests.waiting import until

MODULE = "tests.service.subprocesses.answering"
ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).parents[3])}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """The file to which each process writes its id before it answers."""
    path = tmp_path / "notes"
    path.touch()
    return path


@pytest.fixture
def pool() -> Iterator[ChildPool]:
    pool = ChildPool(MODULE, time_limit_s=30, environment=ENVIRONMENT)
    yield pool
    pool.close()


def test_work_of_a_dead_process_is_done_by_another_one(pool: ChildPool, notes: Path) -> None:
    """If a process is killed once, there is still an answer."""
    assert anyio.run(pool.ask, f"die-once {notes}") == f"die-once {notes}"
    assert len(set(notes.read_text().split())) == 2


def test_work_that_kills_two_processes_fails(pool: ChildPool, notes: Path) -> None:
    """With Unavailable and the time until a retry; other work continues."""
    with pytest.raises(Unavailable) as caught:
        anyio.run(pool.ask, f"die {notes}")
    assert (caught.value.code, caught.value.retry_after_s) == ("process-lost", 5.0)
    assert len(notes.read_text().split()) == 2
    assert anyio.run(pool.ask, f"echo {notes}") == f"echo {notes}"


def test_unexpected_exception_is_logged_as_json(
    pool: ChildPool, notes: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """And reported, without its text and without a retry."""
    with pytest.raises(ChildFailed) as caught:
        anyio.run(pool.ask, f"raise {notes}")
    assert "of all things" not in str(caught.value)
    assert len(notes.read_text().split()) == 1
    (line,) = capfd.readouterr().err.splitlines()
    logged = json.loads(line)
    assert (logged["event"], logged["level"]) == ("unexpected error", "error")
    assert "LookupError: of all things" in logged["exception"]
    assert anyio.run(pool.ask, f"echo {notes}") == f"echo {notes}"


def test_work_ends_at_the_time_limit(notes: Path) -> None:
    """Without a retry, which would take as long."""
    pool = ChildPool(MODULE, time_limit_s=1, environment=ENVIRONMENT)
    with pytest.raises(TookTooLong):
        anyio.run(pool.ask, f"sleep {notes}")
    assert len(notes.read_text().split()) <= 1
    pool.close()


def test_closed_pool_starts_no_process(pool: ChildPool, notes: Path) -> None:
    """Not for running work, and not for work in the queue."""
    codes: list[str] = []

    async def ask() -> None:
        with pytest.raises(Unavailable) as caught:
            await pool.ask(f"sleep {notes}")
        codes.append(caught.value.code)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(ask)
            while len(notes.read_text().split()) < 2:
                await anyio.sleep(0.01)
            await anyio.to_thread.run_sync(pool.close)

    anyio.run(main)
    assert codes == ["shutting-down"] * 4
    started = [int(process) for process in notes.read_text().split()]
    assert len(started) == 2
    assert not any(psutil.pid_exists(process) for process in started)


@pytest.fixture
def busy(notes: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is busy with an answer."""
    process = subprocess.Popen(
        [sys.executable, "-m", MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **ENVIRONMENT},
    )
    assert process.stdin is not None
    process.stdin.write(f"sleep {notes}\n".encode())
    process.stdin.flush()
    until(notes.read_text)
    yield process
    process.kill()
    process.communicate()


def test_process_ends_with_the_service(busy: subprocess.Popen[bytes]) -> None:
    """Also if the service is killed while it waits for an answer; without output."""
    output = busy.communicate(timeout=5)
    assert (busy.returncode, output) == (0, (b"", b""))


def test_sigterm_does_not_end_the_work(busy: subprocess.Popen[bytes]) -> None:
    """A supervisor can send it to all processes, while the service still finishes requests."""
    busy.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        busy.wait(0.3)


def test_the_process_of_a_caller_who_leaves_ends(pool: ChildPool, notes: Path) -> None:
    """At once, and no other one begins its work; the next caller gets a new one."""

    async def leave() -> None:
        with anyio.move_on_after(20) as waiting:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(pool.ask, f"sleep {notes}")
                while not notes.read_text():
                    await anyio.sleep(0.01)
                waiting.cancel()

    anyio.run(leave)
    (process,) = notes.read_text().split()
    assert not psutil.pid_exists(int(process))
    assert anyio.run(pool.ask, f"echo {notes}") == f"echo {notes}"
    assert len(notes.read_text().split()) == 2
