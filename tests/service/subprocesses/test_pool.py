"""Child processes that die, hang, fail, and end with the service."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import psutil
import pytest

from service.errors import Unavailable
from service.subprocesses.pool import ChildFailed, ChildPool, TookTooLong

MODULE = "tests.service.subprocesses.answering"
ENVIRONMENT = {"PYTHONPATH": str(Path(__file__).parents[3])}


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """Where each process notes its id before it answers."""
    path = tmp_path / "notes"
    path.touch()
    return path


@pytest.fixture
def pool() -> Iterator[ChildPool]:
    pool = ChildPool(MODULE, time_limit_s=30, environment=ENVIRONMENT)
    yield pool
    pool.close()


def wait_for(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_work_of_a_dead_process_is_done_by_another_one(pool: ChildPool, notes: Path) -> None:
    """A process that is killed once costs no answer."""
    assert anyio.run(pool.ask, f"die-once {notes}") == f"die-once {notes}"
    assert len(set(notes.read_text().split())) == 2


def test_work_that_kills_two_processes_is_given_up(pool: ChildPool, notes: Path) -> None:
    """The error is the service's, and says when to try again; other work is done."""
    with pytest.raises(Unavailable) as caught:
        anyio.run(pool.ask, f"die {notes}")
    assert (caught.value.code, caught.value.retry_after_s) == ("process-lost", 5.0)
    assert len(notes.read_text().split()) == 2
    assert anyio.run(pool.ask, f"echo {notes}") == f"echo {notes}"


def test_unexpected_exception_is_logged_as_json(
    pool: ChildPool, notes: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """And reported, without its text; nothing is tried again."""
    with pytest.raises(ChildFailed) as caught:
        anyio.run(pool.ask, f"raise {notes}")
    assert "of all things" not in str(caught.value)
    assert len(notes.read_text().split()) == 1
    (line,) = capfd.readouterr().err.splitlines()
    logged = json.loads(line)
    assert (logged["event"], logged["level"]) == ("unexpected error", "error")
    assert "LookupError: of all things" in logged["exception"]
    assert anyio.run(pool.ask, f"echo {notes}") == f"echo {notes}"


def test_time_limit_ends_the_work(notes: Path) -> None:
    """It would take as long a second time: nothing is tried again."""
    pool = ChildPool(MODULE, time_limit_s=1, environment=ENVIRONMENT)
    with pytest.raises(TookTooLong):
        anyio.run(pool.ask, f"sleep {notes}")
    assert len(notes.read_text().split()) <= 1
    pool.close()


def test_closed_pool_starts_no_process(pool: ChildPool, notes: Path) -> None:
    """Neither for work that was going on nor for work that waited for its turn."""
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
def at_work(notes: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process in the middle of an answer."""
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
    wait_for(notes.read_text)
    yield process
    process.kill()
    process.communicate()


def test_process_ends_with_the_service(at_work: subprocess.Popen[bytes]) -> None:
    """Also when the service is killed while it waits for an answer; without a word."""
    said = at_work.communicate(timeout=5)
    assert (at_work.returncode, said) == (0, (b"", b""))


def test_sigterm_leaves_the_work_to_the_service(at_work: subprocess.Popen[bytes]) -> None:
    """A supervisor may send it to all processes, while the service still finishes requests."""
    at_work.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        at_work.wait(0.3)
