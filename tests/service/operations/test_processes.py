"""Several processes of one service: `svm-service serve --processes`."""

from __future__ import annotations

import http.client
import json
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.journeys.server import Server, ok, running
from tests.started import run
from tests.waiting import until

ROWS = b"x,y,label\n" + b"".join(b"%d,%d,%d\n" % (i % 7, i % 5, i % 2) for i in range(40))
PREDICT = "/v1/models/points/predict"
BODY = json.dumps({"instances": [[1.0, 2.0]]})
JSON = {"Content-Type": "application/json"}
ENDLESS: dict[str, Any] = {
    "solver": {"name": "pegasos"},
    "stopping": {"duality_gap": 1e-12, "max_epochs": 10_000_000},
}
STREAMS, CONNECTIONS, PER_S = 4, 60, 300
LIMITS = {
    "SVM_PROCESSES": "2",
    "SVM_WORKERS": "1",
    "SVM_PROXIES": "127.0.0.1",
    "SVM_CONNECTIONS": str(CONNECTIONS),
    "SVM_LIMITS__EVENT_STREAMS": str(STREAMS),
    "SVM_LIMITS__REQUESTS_PER_S": str(PER_S),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(tmp_path_factory.mktemp("processes") / "var", **LIMITS) as server:
        dataset = server.upload(ROWS)
        server.trained(dataset["id"], "points")
        yield server


def connect(server: Server) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=30)


def ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: str | None = None,
    headers: dict[str, str] = JSON,
) -> tuple[int, str, str]:
    """Status, text, and what all request ids of the process that answered begin with."""
    connection.request(method, path, body, headers)
    reply = connection.getresponse()
    return reply.status, reply.read().decode(), (reply.headers["X-Request-Id"] or "")[:20]


@contextmanager
def one_to_each(server: Server) -> Iterator[dict[str, http.client.HTTPConnection]]:
    """A connection to each process, by what its request ids begin with."""
    each: dict[str, http.client.HTTPConnection] = {}
    deadline = time.monotonic() + 20
    while len(each) < 2:
        assert time.monotonic() < deadline, "only one process answers"
        connection = connect(server)
        _, _, process = ask(connection, "GET", "/livez")
        each.setdefault(process, connection)
        if each[process] is not connection:
            connection.close()
    yield each
    for connection in each.values():
        connection.close()


def figure(text: str, name: str) -> float:
    """The value of a metric, given with its labels."""
    match = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return float(match[1]) if match else 0.0


def pid_of(server: Server, connection: http.client.HTTPConnection) -> int:
    """The process at the other end."""
    port = connection.sock.getsockname()[1]
    for process in psutil.Process(server.process.pid).children():
        if any(each.raddr and each.raddr.port == port for each in process.net_connections()):
            return process.pid
    raise AssertionError("no process has the connection")


def test_metrics_of_each_are_those_of_all(server: Server) -> None:
    """Of requests, of predictions, and of processes."""
    route = 'svm_http_requests_total{method="POST",route="/v1/models/{name}/predict",status="200"}'
    rows = 'svm_prediction_rows_total{model="points",version="1"}'
    with one_to_each(server) as each:
        before = ask(next(iter(each.values())), "GET", "/metrics")[1]
        for connection in each.values():
            for _ in range(10):
                assert ask(connection, "POST", PREDICT, BODY)[0] == 200
        time.sleep(0.1)  # a request is counted after its reply
        texts = [ask(connection, "GET", "/metrics")[1] for connection in each.values()]
    for text in texts:
        assert figure(text, route) - figure(before, route) == 20
        assert figure(text, rows) - figure(before, rows) == 20
        assert figure(text, "process_open_fds") > 20
        assert figure(text, "process_cpu_seconds_total") >= figure(
            before, "process_cpu_seconds_total"
        )
    started = {figure(text, "process_start_time_seconds") for text in texts}
    assert len(started) == 1


def test_rate_of_a_caller_holds_over_all(server: Server) -> None:
    """Neither twice as many requests with connections to both, nor half of them with one."""
    for n_connections in (2, 1):
        caller = {"X-Forwarded-For": f"203.0.113.{n_connections}"}
        with one_to_each(server) as each:
            used = list(each.values())[:n_connections]
            began = time.monotonic()
            statuses: Counter[int] = Counter()
            while statuses[429] < 50 and time.monotonic() - began < 3:
                for connection in used:
                    statuses[ask(connection, "GET", "/v1/info", None, caller)[0]] += 1
            most = PER_S * (1 + time.monotonic() - began)
        assert set(statuses) <= {200, 429}
        assert statuses[200] <= 1.02 * most + 2, statuses
        assert statuses[200] >= min(PER_S, sum(statuses.values())), statuses


def test_connections_have_one_limit(server: Server) -> None:
    opened = [connect(server) for _ in range(CONNECTIONS + 10)]
    statuses = Counter(ask(connection, "GET", "/livez")[0] for connection in opened)
    for connection in opened:
        connection.close()
    assert statuses[503] >= 10
    assert CONNECTIONS - 10 <= statuses[200] <= CONNECTIONS
    with closing(connect(server)) as connection:
        until(lambda: ask(connection, "GET", "/livez")[0] == 200)


def test_job_sent_through_any_process_starts_at_once(server: Server) -> None:
    _check_that_jobs_start_at_once(server)


@pytest.mark.long
def test_the_same_on_postgresql(postgres_database_url: str, tmp_path: Path) -> None:
    url = postgres_database_url
    with running(tmp_path / "var", **LIMITS, SVM_DATABASE_URL=url) as server:
        _check_that_jobs_start_at_once(server)


def _check_that_jobs_start_at_once(server: Server) -> None:
    """And a caller that waits in the other process gets the end at once."""
    late: dict[str, list[float]] = {}
    dataset_id = _dataset_id(server)
    with one_to_each(server) as each:
        (one, first), (other, second) = each.items()
        for n in range(3):
            for process, sends, waits in ((one, first, second), (other, second, first)):
                spec = {"dataset_id": dataset_id, "model_name": f"job-{n}"}
                job = json.loads(ask(sends, "POST", "/v1/jobs", json.dumps(spec))[1])
                _, text, _ = ask(waits, "GET", f"/v1/jobs/{job['id']}?wait_s=20")
                returned = time.time()
                job = json.loads(text)
                assert job["state"] == "succeeded"
                started, created, ended = (
                    _seconds(job[name]) for name in ("started_at", "created_at", "finished_at")
                )
                late.setdefault(process, []).append(started - created)
                late.setdefault("waiting", []).append(returned - ended)
    assert all(min(times) < 0.3 for times in late.values()), late


def _dataset_id(server: Server) -> str:
    """Of the uploaded rows."""
    return str(server.upload(ROWS)["id"])


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def test_streams_of_all_processes_have_one_limit_and_all_events(server: Server) -> None:
    spec: dict[str, Any] = {"dataset_id": _dataset_id(server), "model_name": "streamed"}
    spec |= ENDLESS
    job = ok(server.http.post("/v1/jobs", json=spec), 202)
    path = f"/v1/jobs/{job['id']}/events"
    headers = {"Accept": "text/event-stream"}
    streams: list[tuple[http.client.HTTPConnection, http.client.HTTPResponse]] = []
    with one_to_each(server) as each:
        for connection in each.values():
            connection.request("GET", path, headers=headers)
            streams.append((connection, connection.getresponse()))
        while len(streams) < STREAMS:
            connection = connect(server)
            connection.request("GET", path, headers=headers)
            streams.append((connection, connection.getresponse()))
        assert {stream.status for _, stream in streams} == {200}
        with one_to_each(server) as more:
            for connection in more.values():
                status, text, _ = ask(connection, "GET", path, None, headers)
                assert (status, json.loads(text)["code"]) == (503, "too-many-streams")
        ok(server.http.post(f"/v1/jobs/{job['id']}/cancel"), 200, 202)
        for connection, stream in streams:
            with closing(connection):
                assert b"event: end" in stream.read()


def test_killed_process_is_replaced(server: Server) -> None:
    """What it has counted stays counted."""
    answered = 'svm_http_requests_total{method="GET",route="/livez",status="200"}'
    with one_to_each(server) as each:
        (killed, connection), (other, kept) = each.items()
        before = figure(ask(kept, "GET", "/metrics")[1], answered)
        psutil.Process(pid_of(server, connection)).kill()
        for _ in range(20):  # new connections are answered, by the other or by the next one
            with closing(connect(server)) as fresh:
                assert ask(fresh, "GET", "/livez")[0] == 200
        with one_to_each(server) as now:
            assert other in now
            assert killed not in now
            for caller in now.values():
                assert figure(ask(caller, "GET", "/metrics")[1], answered) >= before + 20


def test_graceful_restart_loses_no_request(server: Server) -> None:
    """With callers that keep their connection and callers that do not."""
    with one_to_each(server) as each:
        old = set(each)
    outcomes: Counter[str] = Counter()
    ended = time.monotonic() + 10

    def call(number: int) -> None:
        connection, headers = connect(server), {**JSON, "X-Forwarded-For": f"198.51.100.{number}"}
        for count in range(100_000):
            if time.monotonic() > ended or not renewing:
                break
            if number % 2:
                connection.close()
            try:
                status, _, process = ask(connection, "POST", PREDICT, BODY, headers)
                outcomes[str(status)] += status != 429
                seen.add(process)
            except (OSError, http.client.HTTPException) as error:
                outcomes[f"{type(error).__name__} {count}"] += 1
                connection.close()
            time.sleep(1 / PER_S)
        connection.close()

    renewing, seen = [True], set[str]()
    with ThreadPoolExecutor(6) as pool:
        calls = [pool.submit(call, number) for number in range(6)]
        time.sleep(0.2)
        server.process.send_signal(signal.SIGHUP)
        while len(seen - old) < 2 and time.monotonic() < ended:
            time.sleep(0.02)
        time.sleep(0.2)
        renewing.clear()
        for done in calls:
            done.result()
    assert len(seen - old) == 2
    assert {outcome for outcome, n in outcomes.items() if n} == {"200"}, outcomes
    with one_to_each(server) as each:
        assert not old & set(each)


def test_renewal_waits_for_what_replaces_a_killed_process(server: Server) -> None:
    """Two that replace the same one would end each other."""
    old = _children(server)
    renewed = _renewed(server, old)
    psutil.Process(min(renewed - old)).kill()  # of the slot that is renewed first
    while not _children(server) - renewed:
        time.sleep(0.001)
    _renewed(server, renewed)
    with one_to_each(server):
        pass


def test_process_that_dies_while_its_predecessor_ends_is_replaced(server: Server) -> None:
    """The predecessor finishes a request, then its slot would be empty."""
    old = _children(server)
    with one_to_each(server) as each:
        for connection in each.values():  # each process waits for the rest of a body
            connection.putrequest("POST", PREDICT)
            connection.putheader("Content-Type", "application/json")
            connection.putheader("Content-Length", str(len(BODY)))
            connection.endheaders(BODY[:1].encode())
        time.sleep(0.1)
        server.process.send_signal(signal.SIGHUP)
        while not (new := _children(server) - old):
            time.sleep(0.001)
        time.sleep(0.5)
        psutil.Process(*new).kill()
        time.sleep(0.1)
        for connection in each.values():
            connection.send(BODY[1:].encode())
            assert connection.getresponse().status == 200
    with one_to_each(server):
        pass


@pytest.mark.long
def test_process_that_does_not_respond_is_replaced(server: Server) -> None:
    """Its caller gets an error, and connections that it has not accepted an answer."""
    with one_to_each(server) as each:
        stopped, connection = next(iter(each.items()))
        connection.sock.settimeout(60)
        psutil.Process(pid_of(server, connection)).suspend()
        with pytest.raises((OSError, http.client.HTTPException)):
            ask(connection, "GET", "/livez")
        connection.close()
        with one_to_each(server) as now:
            assert stopped not in now
    assert "has not responded for 30 s" in server.log.read_text()


def _children(server: Server) -> set[int]:
    """The engine and the two processes of the API."""
    return {child.pid for child in psutil.Process(server.process.pid).children()}


def _renewed(server: Server, old: set[int]) -> set[int]:
    """The children after both processes of the API were replaced."""
    server.process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 5
    while len((now := _children(server)) - old) != 2 or len(now) != 3:
        assert time.monotonic() < deadline, (old, now)
        time.sleep(0.01)
    return now


@pytest.mark.parametrize("processes", ["1", "2"])
def test_second_service_at_the_port_is_refused(
    server: Server, tmp_path: Path, processes: str
) -> None:
    """Although a listener beside those of the first one would be possible."""
    port = server.url.rpartition(":")[2]
    variables = {"SVM_DATA_DIR": str(tmp_path / "other"), "SVM_WORKERS": "0", "PATH": "/usr/bin"}
    second = run(["serve", "--port", port, "--processes", processes], env=variables)
    assert second.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in second.stderr


@pytest.mark.long
def test_jobs_are_resumed_after_sigterm(tmp_path: Path) -> None:
    variables = {**LIMITS, "SVM_CHECKPOINT_S": "0.1"}
    with running(tmp_path / "var", **variables) as server:
        dataset = server.upload(ROWS)
        job = server.train(dataset["id"], "endless", **ENDLESS)
        while ok(server.http.get(f"/v1/jobs/{job['id']}"), 200)["state"] != "running":
            time.sleep(0.02)
        time.sleep(0.5)
        assert server.stop() == 0
    with running(tmp_path / "var", **variables) as server:
        deadline = time.monotonic() + 10
        while (job := ok(server.http.get(f"/v1/jobs/{job['id']}"), 200))["state"] != "running":
            assert time.monotonic() < deadline, job
            time.sleep(0.02)
        assert job["attempt"] == 2
        assert job["progress"]["epoch"] > 0
        ok(server.http.post(f"/v1/jobs/{job['id']}/cancel"), 200, 202)


def test_nothing_outlives_a_killed_parent(server: Server) -> None:
    """The last test: it ends the server of all others."""
    processes = server.processes()
    assert len(processes) >= 4
    server.process.kill()
    server.process.wait(10)
    _, alive = psutil.wait_procs(processes[1:], timeout=20)
    assert not alive
