"""The command line: the real server in its own process."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from service.storage.disk import exclusive
from tests.started import COMMAND, Started
from tests.waiting import until

Start = Callable[..., "subprocess.Popen[str]"]


def starting(process: Callable[..., subprocess.Popen[str]], folder: Path) -> Iterator[Start]:
    """Starts `svm-service` with its own data directory and no workers; ends all processes."""
    processes: list[subprocess.Popen[str]] = []

    def run(*arguments: str, **environment: str) -> subprocess.Popen[str]:
        default = {"SVM_DATA_DIR": str(folder / "var"), "SVM_WORKERS": "0"}
        started = process(
            [*arguments],
            env={**os.environ, **default, **environment},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        processes.append(started)
        return started

    yield run
    for started in processes:
        started.kill()
        started.communicate()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    yield from starting(Started, tmp_path)


@pytest.fixture
def start_script(tmp_path: Path) -> Iterator[Start]:
    """The same with all its imports."""
    yield from starting(
        lambda arguments, **options: subprocess.Popen([COMMAND, *arguments], text=True, **options),
        tmp_path,
    )


def _address(process: subprocess.Popen[Any]) -> str:
    """The address of a server that was started with `--port 0`, from its first line."""
    assert process.stdout is not None
    line = process.stdout.readline()
    match = re.fullmatch(r"svm-service \S+ at (\S+), documentation at \1/docs\n", line)
    assert match is not None, line or process.communicate()[1]
    return match[1]


@pytest.mark.long
def test_server_starts_fast_and_uses_little_memory(start_script: Start) -> None:
    """Ready after 1.6 s of work, or a few times that on a slow or busy machine, in one of three
    starts, and at most 150 MB resident."""
    work_s = float("inf")
    for _ in range(3):
        server = start_script("serve", "--port", "0")
        assert httpx2.get(f"{_address(server)}/readyz").status_code == 200
        process = psutil.Process(server.pid)
        work_s = min(work_s, sum(process.cpu_times()[:2]))
        assert process.memory_info().rss < 150e6
        server.terminate()
        server.wait(30)
        if work_s < 7:
            return
    pytest.fail(f"ready after {work_s:.2f} s of work")


@pytest.mark.long
def test_server_starts_again_after_any_end(start: Start, tmp_path: Path) -> None:
    """Exit code 0 for SIGTERM and SIGINT. The data directory is unlocked, even after SIGKILL. While
    a server runs, a second one on its data ends with exit code 1 and names the first."""
    for signal_number, code in (
        (signal.SIGKILL, -signal.SIGKILL),
        (signal.SIGINT, 0),
        (signal.SIGTERM, 0),
    ):
        server = start("serve", "--port", "0")
        address = _address(server)
        if signal_number == signal.SIGTERM:
            second = start("serve", "--port", "0")
            _, message = second.communicate(timeout=60)
            assert second.returncode == 1
            assert f"in use by the service with process id {server.pid}" in message
        assert httpx2.get(f"{address}/readyz").status_code == 200
        server.send_signal(signal_number)
        _, log = server.communicate(timeout=60)
        assert server.returncode == code, log
        assert "Traceback" not in log
        with exclusive(tmp_path / "var"):
            pass


@pytest.mark.long
def test_supervisor_is_a_fork_that_shares_memory_and_outlives_no_server(
    start_script: Start, tmp_path: Path
) -> None:
    """It has one thread and no lock of the data directory. A killed one is replaced."""
    server = start_script("serve", "--port", "0", SVM_WORKERS="1")
    _address(server)
    (forked,) = psutil.Process(server.pid).children()
    assert forked.cmdline() == psutil.Process(server.pid).cmdline()
    assert forked.num_threads() == 1
    memory = Path(f"/proc/{forked.pid}/smaps_rollup").read_text()
    shared = re.search(r"Shared_Dirty: +(\d+) kB", memory)
    assert shared is not None
    assert int(shared[1]) > 20_000
    forked.kill()
    other: list[psutil.Process] = []

    def is_replaced() -> bool:
        children = psutil.Process(server.pid).children()
        other[:] = [child for child in children if child.pid != forked.pid]  # a zombie at first
        return any("service.jobs.engine.supervisor" in child.cmdline() for child in other)

    until(is_replaced)
    server.send_signal(signal.SIGTERM)
    assert server.wait(60) == 0
    assert psutil.wait_procs(other, timeout=0)[1] == []

    server = start_script("serve", "--port", "0", SVM_WORKERS="1")
    _address(server)
    all_below = psutil.Process(server.pid).children(recursive=True)
    forked = all_below[0]
    forked.suspend()  # it cannot end
    try:
        server.kill()
        server.wait()
        with exclusive(tmp_path / "var"):
            pass
    finally:
        forked.resume()
    assert psutil.wait_procs(all_below, timeout=60)[1] == []


@pytest.mark.long
def test_long_poll_does_not_delay_shutdown(start: Start) -> None:
    """A long poll for a job is answered at once when the server shuts down."""
    server = start("serve", "--port", "0")
    with httpx2.Client(base_url=_address(server), timeout=60) as client:
        rows = "x,y\n1,a\n2,a\n3,b\n4,b\n"
        client.post("/v1/datasets", content=rows, headers={"Content-Type": "text/csv"})
        spec = {"dataset_id": "latest", "model_name": "m", "solver": {"name": "pegasos"}}
        job = client.post("/v1/jobs", json=spec).json()
        with ThreadPoolExecutor(1) as caller:
            poll = caller.submit(client.get, f"/v1/jobs/{job['id']}?wait_s=50")
            time.sleep(1)
            assert not poll.done()
            server.send_signal(signal.SIGTERM)
            reply = poll.result(timeout=30)
    assert (reply.status_code, reply.json()["state"]) == (200, "queued")
    server.communicate(timeout=60)
    assert server.returncode == 0


def test_taken_port_is_reported(start: Start) -> None:
    """Exit code 1 and one sentence, no traceback."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = start("serve", SVM_PORT=str(taken.getsockname()[1]))
        _, message = server.communicate(timeout=60)
    assert server.returncode == 1
    assert message.startswith("cannot listen on 127.0.0.1 port")
    assert message.endswith("`make run PORT=9000`, --port 9000 or SVM_PORT=9000\n")
    assert "Traceback" not in message


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SVM_WORKERS", "-1"),
        ("SVM_LIMITS__CLASSES", "many"),
        ("SVM_LOG_LEVEL", "loud"),
    ],
)
def test_wrong_setting_is_named(start: Start, name: str, value: str) -> None:
    """Exit code 2 with the variable's name, before anything is started."""
    server = start("serve", "--port", "0", **{name: value})
    _, message = server.communicate(timeout=60)
    assert server.returncode == 2
    assert message.startswith(f"{name}: ")
    assert "Traceback" not in message


def test_missing_library_is_named() -> None:
    """Exit code 1 and one sentence: only the solvers, or only the client, may be installed."""
    for library in ("typer", "uvicorn"):
        hidden = f"import sys; sys.modules[{library!r}] = None; "
        program = hidden + "from service.__main__ import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", program, "serve"], capture_output=True, text=True, timeout=30
        )
        assert done.returncode == 1
        assert done.stderr == (f"{library} is not installed: pip install '.[service]' adds it\n")


def test_worker_without_a_shared_database_names_the_setting(start: Start) -> None:
    """Exit code 2 with the variable's name."""
    worker = start("worker", SVM_WORKERS="1")
    _, message = worker.communicate(timeout=60)
    assert worker.returncode == 2
    assert message.startswith("SVM_DATABASE_URL: ")


@pytest.mark.long
def test_workers_of_a_machine_end_cleanly(start: Start) -> None:
    """Exit code 0 at SIGTERM, no process is left, even if the database is not reachable."""
    process = start(
        "worker", SVM_WORKERS="1", SVM_DATABASE_URL="postgresql://user@127.0.0.1:1/nothing"
    )
    children = until(psutil.Process(process.pid).children)
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=60)
    assert process.returncode == 0, log
    assert "Traceback" not in log
    assert psutil.wait_procs(children, timeout=20)[1] == []


def test_lock_is_of_the_database_not_the_data_directory(
    start: Start, tmp_path: Path, postgres_database_url: str
) -> None:
    """An SQLite file is locked by one process with any settings; PostgreSQL is shared."""
    data_dir = tmp_path / "var"
    with exclusive(data_dir):
        second = start(
            "migrate",
            SVM_DATA_DIR=str(tmp_path / "other"),
            SVM_DATABASE_URL=f"sqlite:///{data_dir / 'service.db'}",
        )
        shared = start("migrate", SVM_DATABASE_URL=postgres_database_url)
        _, message = second.communicate(timeout=60)
        shared.communicate(timeout=60)
    assert (second.returncode, shared.returncode) == (1, 0)
    assert "is in use by the service with process id" in message


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_migrate_prepares_the_database(
    start: Start, request: pytest.FixtureRequest, kind: str
) -> None:
    """It creates the schema and reports it; a second run changes nothing."""
    url = {}
    if kind == "postgresql":
        url["SVM_DATABASE_URL"] = request.getfixturevalue("postgres_database_url")
    for _ in range(2):
        migration = start("migrate", **url)
        output, log = migration.communicate(timeout=60)
        assert migration.returncode == 0, log
        assert "is up to date" in output


@pytest.mark.long
def test_keys_are_created_and_revoked_while_the_service_runs(start: Start, tmp_path: Path) -> None:
    """A server that other machines can reach has a first key; new ones are valid at once."""
    process = start("serve", "--host", "0.0.0.0", "--port", "0")
    address = _address(process).replace("0.0.0.0", "127.0.0.1")
    assert process.stdout is not None
    path = Path(process.stdout.readline().rstrip().rpartition(" ")[2])
    assert tmp_path / path == tmp_path / "var" / "first-key"
    assert stat.S_IMODE((tmp_path / path).stat().st_mode) == 0o600
    first = {"Authorization": f"Bearer {(tmp_path / path).read_text().strip()}"}
    assert httpx2.get(f"{address}/v1/jobs").status_code == 401
    assert httpx2.get(f"{address}/v1/jobs", headers=first).status_code == 200

    created = start("keys", "create", "ci", "--scope", "read", "--scope", "predict")
    text, problems = created.communicate(timeout=60)
    assert created.returncode == 0, problems
    ci = {"Authorization": f"Bearer {text.strip()}"}
    until(lambda: httpx2.get(f"{address}/v1/jobs", headers=ci).status_code == 200)
    assert httpx2.post(f"{address}/v1/jobs", json={}, headers=ci).status_code == 403
    command = start("models", "--url", address)
    assert "set SVM_API_KEY" in command.communicate(timeout=60)[1]
    assert command.returncode == 3
    command = start("models", "--url", address, SVM_API_KEY=text.strip())
    assert command.wait(60) == 0

    start("keys", "revoke", "ci").communicate(timeout=60)
    until(lambda: httpx2.get(f"{address}/v1/jobs", headers=ci).status_code == 401)
    listed, _ = start("keys", "list").communicate(timeout=60)
    assert [line.split()[1:3] for line in listed.splitlines()] == [
        ["NAME", "SCOPES"],
        ["first", "read"],
        ["ci", "read"],
    ]
    assert text.strip().split("_", 2)[2] not in listed  # the secret can hold underscores


def test_misspelled_setting_ends_the_start(start: Start) -> None:
    """With the name of the setting that is probably meant."""
    process = start("serve", "--port", "0", SVM_AUHT="on")
    assert "SVM_AUHT is not a setting; do you mean SVM_AUTH?" in process.communicate(timeout=60)[1]
    assert process.returncode == 2
