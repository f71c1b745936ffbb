"""The processes that read uploads."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import psutil
import pytest

from service.errors import InvalidContent, ServiceError, StorageFull, Unavailable
from service.rows.parser import Parser
from service.rows.parsing_process import answer
from service.rows.spec import CSV, Parsed, ParseSpec
from tests.service.rows import reading

pytestmark = pytest.mark.usefixtures("no_other_readers")


@pytest.fixture
def parser() -> Iterator[Parser]:
    parser = Parser()
    yield parser
    parser.close()


@pytest.fixture
def make_spec(tmp_path: Path) -> Callable[[str], ParseSpec]:
    """Writes a file, and gives what is to be done with it."""

    def make(text: str, media_type: str = CSV) -> ParseSpec:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        return reading.make_spec(folder, text, media_type, limits={"stored_values": 10**8})

    return make


def readers() -> list[psutil.Process]:
    """The parsing processes below this one."""
    found = []
    for process in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # it has just ended
            if "service.rows.parsing_process" in " ".join(process.cmdline()):
                found.append(process)
    return found


async def outcome(parser: Parser, spec: ParseSpec) -> Parsed | ServiceError:
    try:
        return await parser.parse(spec)
    except ServiceError as error:
        return error


GOOD = "a,b,k\n1,2,x\n3,4,y\n"
LARGE = "a,b,c,d,k\n" + "1.25,2.5,3.75,4.125,x\n" * 500_000


def test_process_is_kept_for_the_next_upload(
    parser: Parser, make_spec: Callable[[str], ParseSpec]
) -> None:
    """It starts at the first upload, and an error of the data does not end it."""
    before = readers()
    assert before == []

    async def main() -> None:
        assert isinstance(await outcome(parser, make_spec(GOOD)), Parsed)
        first = readers()
        error = await outcome(parser, make_spec("a,b,k\n1,2,x\n1,oops,x\n"))
        assert isinstance(error, InvalidContent)
        assert error.faults[0].value == "oops"
        assert readers() == first
        assert len(first) == 1

    anyio.run(main)
    parser.close()
    assert readers() == []


def test_idle_process_ends(make_spec: Callable[[str], ParseSpec]) -> None:
    """It does not hold memory for uploads that do not come; a later one gets a new process."""
    parser = Parser(idle_s=0.1)

    async def main() -> None:
        assert isinstance(await outcome(parser, make_spec(GOOD)), Parsed)
        deadline = time.monotonic() + 10
        while readers() and time.monotonic() < deadline:
            await anyio.sleep(0.02)
        assert readers() == []
        assert isinstance(await outcome(parser, make_spec(GOOD)), Parsed)

    anyio.run(main)
    parser.close()


def test_killed_process_is_replaced(parser: Parser, make_spec: Callable[[str], ParseSpec]) -> None:
    """A crash costs no upload, neither the one that is being read nor the next one."""

    def kill_at_work() -> None:
        while not (found := readers()):
            time.sleep(0.01)
        time.sleep(0.2)
        found[0].kill()

    async def main() -> None:
        killer = threading.Thread(target=kill_at_work)
        killer.start()
        result = await outcome(parser, make_spec(LARGE))
        killer.join()
        assert isinstance(result, Parsed)
        assert result.n_samples == LARGE.count("\n") - 1
        idle = readers()[0]
        idle.kill()
        idle.wait()
        assert isinstance(await outcome(parser, make_spec(GOOD)), Parsed)

    anyio.run(main)


def test_endless_upload_is_ended(make_spec: Callable[[str], ParseSpec]) -> None:
    """Reading has a time limit."""
    parser = Parser(time_limit_s=0.3)
    error = anyio.run(outcome, parser, make_spec(LARGE))
    assert isinstance(error, InvalidContent)
    assert error.code == "parsing-failed"
    parser.close()


def test_closing_does_not_wait_for_the_data(
    parser: Parser, make_spec: Callable[[str], ParseSpec]
) -> None:
    """A service that stops ends the process at its work, too."""

    async def close_at_work() -> None:
        while not readers():
            await anyio.sleep(0.01)
        await anyio.sleep(0.2)
        parser.close()

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(close_at_work)
            error = await outcome(parser, make_spec(LARGE))
        assert isinstance(error, Unavailable)
        assert error.code == "shutting-down"

    anyio.run(main)
    assert readers() == []


def test_two_at_once_and_the_rest_in_turn(
    parser: Parser, make_spec: Callable[[str], ParseSpec]
) -> None:
    """Many uploads at the same time do not start many processes, and all are read."""
    found: list[Parsed | ServiceError] = []
    most = 0

    async def one() -> None:
        nonlocal most
        found.append(await outcome(parser, make_spec(GOOD)))
        most = max(most, len(readers()))

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(6):
                group.start_soon(one)

    anyio.run(main)
    assert [type(result) for result in found] == [Parsed] * 6
    assert most <= 2


def test_memory_does_not_grow_with_the_file(
    parser: Parser, make_spec: Callable[[str], ParseSpec]
) -> None:
    """48 MB of ones, 192 MB as numbers, are never in memory as a whole."""
    spec = make_spec(("1," * 120 + "x\n") * 200_000)
    assert isinstance(anyio.run(outcome, parser, spec), Parsed)
    (process,) = readers()
    status = Path(f"/proc/{process.pid}/status").read_text()
    peak_kib = int(status.split("VmHWM:")[1].split()[0])
    assert peak_kib < 240 * 1024


def test_full_disk_is_reported(make_spec: Callable[[str], ParseSpec]) -> None:
    """It is not a fault of the data."""
    spec = make_spec(GOOD)
    (Path(spec.out) / "X.npy").symlink_to("/dev/full")
    assert isinstance(answer(spec), StorageFull)


def test_prints_of_libraries_are_no_replies() -> None:
    """Whatever goes to standard output in the process does not reach the service as a reply."""
    code = (
        "from service.subprocesses.working import private_stdout\n"
        "replies = private_stdout(); print('noise', flush=True); replies.write('reply')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr.strip()) == ("reply", "noise")


def test_service_process_stays_small() -> None:
    """What only the parsing process needs is not imported by the service's."""
    code = (
        "import sys, service.datasets.routes\n"
        "print(sorted({'duckdb', 'scipy', 'numba'} & set(sys.modules)))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == "[]"
