"""Events of jobs of a real service: broken connections, too many of them, and shutdown."""

from __future__ import annotations

import json
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.journeys.server import Server, ok, running
from tests.journeys.uploads.test_upload_to_predictions import iris_csv
from tests.seeds import seed_from
from tests.waiting import until

ENDLESS: dict[str, Any] = {
    "solver": {"name": "pegasos", "lambda": 1e-3},
    "stopping": {"max_epochs": 100_000_000},
}
FINAL = ("succeeded", "failed", "canceled")


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service without workers that allows three streams."""
    data_dir = tmp_path_factory.mktemp("quiet") / "var"
    with running(data_dir, SVM_WORKERS="0", SVM_LIMITS__EVENT_STREAMS="3") as server:
        server.upload(iris_csv())
        yield server


class Stream:
    """A connection to a job's events, on its own socket."""

    def __init__(self, server: Server, job_id: str, after: int = 0) -> None:
        self._connection = HTTPConnection(urlsplit(server.url).netloc, timeout=30)
        headers = {"Accept": "text/event-stream", "Last-Event-ID": str(after)}
        self._connection.request("GET", f"/v1/jobs/{job_id}/events", headers=headers)
        self._socket = self._connection.sock
        self._reply = self._connection.getresponse()
        self.status = self._reply.status

    def events(self, seconds: float = 60, n_bytes: int = 10**9) -> Iterator[dict[str, Any]]:
        """Complete events within the limits of time and bytes, or until the end."""
        deadline = time.monotonic() + seconds
        text = b""
        while n_bytes > 0:
            *blocks, text = text.split(b"\n\n")
            for block in blocks:
                if block.startswith(b"id: "):
                    fields = dict(line.split(b": ", 1) for line in block.split(b"\n"))
                    yield {
                        "id": int(fields[b"id"]),
                        "event": fields[b"event"].decode(),
                        "data": json.loads(fields[b"data"]),
                    }
            self._socket.settimeout(max(1e-3, deadline - time.monotonic()))
            try:
                received = self._reply.read1(min(65536, n_bytes))
            except TimeoutError:
                return
            n_bytes -= len(received)
            text += received
            if not received:
                return

    def cut(self) -> None:
        """Reset the connection: data in transit are lost."""
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._reply.close()
        self._connection.close()


def all_events(server: Server, job_id: str) -> list[dict[str, Any]]:
    """From pages of JSON."""
    events: list[dict[str, Any]] = []
    query: dict[str, Any] = {"page_size": 1000}
    while True:
        reply = server.http.get(
            f"/v1/jobs/{job_id}/events", params=query, headers={"Accept": "application/json"}
        )
        page = ok(reply, 200)
        events += page["events"]
        if page["next_page_token"] is None:
            return events
        query["page_token"] = page["next_page_token"]


def all_jobs(server: Server, ids: list[str]) -> list[dict[str, Any]]:
    return [ok(server.http.get(f"/v1/jobs/{job_id}"), 200) for job_id in ids]


def control(server: Server, job_id: str, action: str) -> None:
    reply = server.http.post(f"/v1/jobs/{job_id}/{action}")
    assert reply.status_code in (200, 202), reply.text


def follow_with_cuts(server: Server, job_id: str, cuts: int, seed: int) -> list[dict[str, Any]]:
    """Events of a caller who loses the connection `cuts` times at random, and reconnects."""
    draw = random.Random(seed)
    events: list[dict[str, Any]] = []
    while True:
        stream = Stream(server, job_id, events[-1]["id"] if events else 0)
        if cuts > 0:
            cuts -= 1
            events.extend(stream.events(draw.uniform(0, 0.4), draw.randrange(1, 2000)))
        else:
            events.extend(stream.events())
        stream.cut()
        if stream.status == 204:
            return events


@pytest.mark.parametrize(
    ("jobs", "cuts"), [(2, 10), pytest.param(10, 50, marks=pytest.mark.torture)]
)
def test_no_event_is_lost_with_broken_connections(server: Server, jobs: int, cuts: int) -> None:
    """Every event once and in order, while jobs run, pause, resume and are canceled."""
    first_seed = seed_from("TORTURE_SEED")
    dataset = server.upload(iris_csv())
    ids = [server.train(dataset["id"], "followed", seed=k, **ENDLESS)["id"] for k in range(jobs)]
    with ThreadPoolExecutor(jobs) as pool:
        followers = [
            pool.submit(follow_with_cuts, server, job_id, cuts, seed)
            for seed, job_id in enumerate(ids, first_seed + 1)
        ]
        until(lambda: any(job["progress"]["epoch"] > 0 for job in all_jobs(server, ids)))
        draw, steps = random.Random(first_seed), 4 * cuts
        for _ in range(steps):
            time.sleep(0.15 * cuts / steps)
            control(server, draw.choice(ids), draw.choice(["pause", "resume", "resume"]))
        for job_id in ids:
            control(server, job_id, "cancel")
        received = [follower.result(timeout=60) for follower in followers]
    for job_id, events in zip(ids, received, strict=True):
        assert events == all_events(server, job_id)
        numbers = [event["id"] for event in events]
        assert numbers == list(range(1, len(numbers) + 1))
        assert events[-1]["event"] == "end"
        assert events[-1]["data"]["state"] == "canceled"


def test_events_of_a_training_arrive_at_once(server: Server) -> None:
    """Queued, running, at most four progress events per second, and the end with the model."""
    dataset = server.upload(iris_csv())
    job = server.train(dataset["id"], "watched", **ENDLESS)
    stream = Stream(server, job["id"])
    arrived, reports = [], 0
    for event in stream.events():
        arrived.append(event)
        reports += event["event"] == "progress"
        if reports == 5 and event["event"] == "progress":
            reply = server.http.post(f"/v1/jobs/{job['id']}/cancel", json={"keep_model": True})
            assert reply.status_code == 202
    stream.cut()
    events = all_events(server, job["id"])
    assert arrived == events
    kinds = [event["event"] for event in events]
    assert kinds[:2] == ["state", "state"]
    assert kinds[-2:] == ["state", "end"]
    assert [e["data"]["state"] for e in events if e["event"] == "state"] == [
        *("queued", "running", "running", "canceled")
    ]
    assert events[-1]["data"]["model"] == {"name": "watched", "version": 1}
    shown = [event["data"]["elapsed_s"] for event in events if event["event"] == "progress"]
    assert len(shown) >= 5
    # One more may tell that the data are read, and one that the training began.
    assert len(shown) - 3 <= 4.2 * (shown[-1] - shown[0])
    stream = Stream(server, job["id"], events[-1]["id"])
    stream.cut()
    assert stream.status == 204


def test_log_lines_of_workers_name_the_request(server: Server) -> None:
    """By the request id of the caller, in all processes."""
    server.upload(iris_csv())
    body = {"dataset_id": "latest", "model_name": "logged", "solver": {"name": "newton"}}
    reply = server.http.post("/v1/jobs", json=body, headers={"X-Request-Id": "from-the-caller"})
    job = server.finished(ok(reply, 202))
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    ours = {line["event"]: line for line in lines if line.get("request_id") == "from-the-caller"}
    assert {"job queued", "request", "job taken"} <= set(ours)
    for event in ("job queued", "job taken"):
        assert ours[event]["job_id"] == job["id"]
    assert ours["job taken"]["attempt"] == 1


def test_number_of_streams_is_limited(quiet: Server) -> None:
    """The fourth receives Retry-After, until another one ends; pages are always available."""
    job_id = quiet.train("latest", "waiting", solver={"name": "newton"})["id"]
    streams = [Stream(quiet, job_id) for _ in range(3)]
    assert [stream.status for stream in streams] == [200] * 3
    refused = quiet.http.get(f"/v1/jobs/{job_id}/events")
    assert (refused.status_code, refused.json()["code"]) == (503, "too-many-streams")
    assert int(refused.headers["Retry-After"]) > 0
    assert len(all_events(quiet, job_id)) == 1
    streams.pop().cut()
    until(lambda: accepted(quiet, job_id, streams))
    for stream in streams:
        stream.cut()


def accepted(server: Server, job_id: str, streams: list[Stream]) -> bool:
    """Whether one more stream could be opened; if so, it is added."""
    streams.append(Stream(server, job_id))
    if streams[-1].status == 200:
        return True
    streams.pop().cut()
    return False


def test_long_poll_answers_when_the_job_ends(quiet: Server) -> None:
    """Not when its time is over."""
    job_id = quiet.train("latest", "waiting", solver={"name": "newton"})["id"]
    with ThreadPoolExecutor(1) as pool:
        polled = pool.submit(quiet.http.get, f"/v1/jobs/{job_id}", params={"wait_s": 30})
        time.sleep(0.5)
        assert not polled.done()
        started = time.monotonic()
        control(quiet, job_id, "cancel")
        assert ok(polled.result(), 200)["state"] == "canceled"
    assert time.monotonic() - started < 15, "it waited for its 30 s"


@pytest.mark.long
def test_open_streams_do_not_delay_shutdown(tmp_path: Path) -> None:
    """SIGTERM ends a hundred streams of a queued job, and the service."""
    with running(tmp_path / "var", SVM_WORKERS="0") as server:
        server.upload(iris_csv())
        job_id = server.train("latest", "waiting", solver={"name": "newton"})["id"]
        streams = [Stream(server, job_id) for _ in range(100)]
        poll = threading.Thread(target=suppressed_poll, args=(server, job_id))
        poll.start()
        time.sleep(0.2)
        assert server.stop() == 0
        for stream in streams:
            assert [event["data"]["state"] for event in stream.events()] == ["queued"]
            stream.cut()
        poll.join()
        assert b"timeout graceful shutdown exceeded" not in server.log.read_bytes()


def suppressed_poll(server: Server, job_id: str) -> None:
    reply = httpx2.get(f"{server.url}/v1/jobs/{job_id}", params={"wait_s": 60}, timeout=70)
    assert reply.json()["state"] == "queued"
