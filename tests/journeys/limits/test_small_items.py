"""Bodies of the smallest items, up to a limit in bytes, cost little memory and time.

Here each reader alone is measured, and by `make fuzz` the service: limits count bytes, but an empty
list takes as an object twenty times its length.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import psutil
import pytest
from pydantic import BaseModel

from service.errors import ServiceError
from service.jobs.comparisons.schemas import ComparisonCreate
from service.jobs.training.routes import MOST_VALUES
from service.jobs.training.schemas import JobBatchCreate, JobCreate
from service.predictions.inference.schemas import IndexRequest
from service.predictions.inference.wire_format import InferenceExchange
from service.predictions.predictor import Exchange
from service.predictions.schemas import NO_QUERY
from service.predictions.wire_format import PlainExchange
from service.rows.parsing_process import read
from service.rows.spec import JSON
from service.settings import Limits
from service.web.bodies.control_bodies import validated
from tests.journeys.limits.bombs import PREDICT
from tests.journeys.limits.memory import MIB, watched
from tests.journeys.limits.small_items import (
    CONTROL,
    FORM,
    INFER,
    MODELS,
    PREDICTIONS,
    UPLOADS,
    Kind,
)
from tests.journeys.server import Server
from tests.service.predictions.test_bodies import model
from tests.service.rows.reading import make_spec
from tests.waiting import until

PEAK_BYTES, KEPT_BYTES, STALL_S = 64 * MIB, 10 * MIB, 0.1
TRIES = 3
"""A busy machine stalls anyone."""
BODIES = int(os.environ.get("FUZZ_SHARE", "100"))
"""Of each kind."""
SMALLEST = 1 / 256
"""Size of the smallest body; the first is the largest, and the others are between."""
_CONTROL: dict[str, type[BaseModel]] = {
    "/v1/comparisons": ComparisonCreate,
    "/v2/repository/index": IndexRequest,
}


def _measured(work: Callable[[], object]) -> tuple[int, float]:
    """The peak of what it allocates, and its processor time; it may raise ServiceError."""
    tracemalloc.start(1)
    began = time.thread_time()
    try:
        with contextlib.suppress(ServiceError):
            work()
        return tracemalloc.get_traced_memory()[1], time.thread_time() - began
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", CONTROL)
def test_control_bodies(name: str) -> None:
    """All of 1 MiB: 10,000 values are looked at, and a hundred faults."""
    kind = CONTROL[name]
    body = kind.body(Random(name), MIB)
    schema = _CONTROL.get(kind.path, JobCreate)
    work: Callable[[], object] = lambda: validated(schema, body)  # noqa: E731
    if kind.path.endswith(":batch"):
        work = lambda: validated(JobBatchCreate, body, MOST_VALUES)  # noqa: E731
    peak, seconds = _measured(work)
    assert peak < 48 * MIB
    assert seconds < 2


@pytest.mark.parametrize("name", PREDICTIONS)
def test_rows_to_predict(name: str) -> None:
    """4 MiB, of which no more than a part becomes objects at a time."""
    kind = PREDICTIONS[name]
    headers = [(b"content-type", kind.media_type.encode())]
    body = kind.body(Random(name), 4 * MIB)
    reader = model(n_features=2)
    exchange: Exchange = PlainExchange(headers, NO_QUERY, Limits())
    if kind.path == INFER:
        exchange = InferenceExchange([], Limits(), {})
    peak, seconds = _measured(lambda: exchange.read(body, reader))
    assert peak < 24 * MIB
    assert seconds < 2


@pytest.mark.spread(2)
@pytest.mark.parametrize("name", [name for name in UPLOADS if UPLOADS[name].media_type != FORM])
def test_uploads(name: str, tmp_path: Path) -> None:
    """The same in the reading process."""
    kind = UPLOADS[name]
    with contextlib.suppress(ServiceError):  # what the first body imports is not of its items
        read(make_spec(tmp_path, kind.body(Random(name), MIB // 1024), kind.media_type))
    spec = make_spec(tmp_path, kind.body(Random(name), MIB // 8), kind.media_type)
    peak, seconds = _measured(lambda: read(spec))
    assert peak < 40 * MIB
    assert seconds < 10


@pytest.mark.parametrize("frame", ['{"instances":[[1,2],@]}', '{"records":[@]}', '{"rows":[@]}'])
def test_rows_after_a_hundred_faults_are_not_read(frame: str) -> None:
    """The next one of another width ends it, in a body of any length."""
    for item in ("{}", "[]", "0", "[0,0,0,0]"):
        body = Kind(PREDICT, (frame,), (item, item)).body(Random(0), MIB)
        with pytest.raises(ServiceError) as caught:
            PlainExchange([(b"content-type", b"application/json")], NO_QUERY, Limits()).read(
                body, model(n_features=2)
            )
        assert caught.value.faults_total <= 101


class Asking:
    """Asks for `/livez` all the time, on one connection."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self._connection = socket.create_connection((host, int(port)), timeout=60)
        self.longest_s = 0.0
        """Longest time until an answer."""
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.002):
            began = time.monotonic()
            self._connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self._connection.recv(4096)
            self.longest_s = max(self.longest_s, time.monotonic() - began)
        self._connection.close()


@contextmanager
def asking(url: str) -> Iterator[Asking]:
    asks = Asking(url)
    thread = threading.Thread(target=asks.run)
    thread.start()
    try:
        yield asks
    finally:
        asks.ended.set()
        thread.join()


@pytest.fixture(scope="module")
def warm(server: Server) -> Server:
    """A service with a model, whose processes have loaded what they need."""
    dataset = server.upload(b"".join(b"%d,%d,%d\n" % (i, i % 3, i % 2) for i in range(40)))
    server.trained(dataset["id"], "bombed", solver={"name": "pegasos"})
    server.upload(b'{"rows": [[1, 2]]}', JSON)
    server.http.post(PREDICT, json={"instances": [[1, 2]]})
    return server


@pytest.mark.fuzz
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("kind", "n_bytes"),
    [
        pytest.param(kind, n_bytes, id=name)
        for kinds, n_bytes in (
            (CONTROL, MIB),
            (PREDICTIONS, 30 * MIB),
            (UPLOADS, 64 * MIB),
            (MODELS, 30 * MIB),
        )
        for name, kind in kinds.items()
    ],
)
def test_the_service_is_not_stopped(
    warm: Server, kind: Kind, n_bytes: int, request: pytest.FixtureRequest
) -> None:
    """At most 64 MiB in all processes, whatever a hundred bodies have left, and 10 MiB at the end;
    other requests wait less than 0.1 s."""
    random, longest_s, replies = Random(request.node.name), 0.0, Counter[str]()
    _sent(warm, kind, kind.body(random, MIB // 1024))  # an idle reader may have ended meanwhile
    with watched(warm.process.pid, KEPT_BYTES) as growth:
        for number in range(BODIES):
            body = kind.body(
                random, round(n_bytes * SMALLEST ** (random.random() if number else 0))
            )
            for _ in range(TRIES):
                stall_s, code = _sent(warm, kind, body)
                if stall_s <= STALL_S:
                    break
            replies[code] += 1
            longest_s = max(longest_s, stall_s)
    print(
        f"peak {growth.peak // MIB} MiB, kept {growth.kept // MIB} MiB, "
        f"stall {longest_s:.3f} s, {dict(replies)}"
    )
    assert growth.peak <= PEAK_BYTES
    assert growth.kept <= KEPT_BYTES
    assert longest_s <= STALL_S


def _sent(server: Server, kind: Kind, body: bytes) -> tuple[float, str]:
    """How long others waited, and what was answered."""
    headers = {"Content-Type": kind.media_type}
    with asking(server.url) as asks:
        reply = server.http.post(kind.path, content=body, headers=headers)
    assert reply.status_code < 500, reply.text
    return asks.longest_s, f"{reply.status_code} {reply.json().get('code', '')}"


@pytest.mark.parametrize("name", ["outputs of tensors", "lines of CSV"])
def test_a_refused_body_is_in_memory_once(warm: Server, name: str) -> None:
    """While it is received and read, and not at all afterwards."""
    kind = PREDICTIONS[name]
    body = kind.body(Random(0), 30 * MIB)
    with watched(warm.process.pid, KEPT_BYTES) as growth:
        reply = warm.http.post(kind.path, content=body, headers={"Content-Type": kind.media_type})
    assert reply.status_code in (413, 422), reply.text
    assert growth.peak <= 1.5 * len(body)
    assert growth.kept <= KEPT_BYTES


def test_a_reader_whose_client_is_gone_ends(warm: Server) -> None:
    """It does not work on, in place of others; nothing is kept."""
    row = "{0},{1},x{2},{3}\n".format
    lines = "".join(row(i, i * 7 % 1000, i % 5000, i % 2) for i in range(300_000)).encode()
    head = (
        "POST /v1/datasets HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/csv\r\n"
        f"Content-Length: {len(lines)}\r\n\r\n"
    )
    kept = len(warm.http.get("/v1/datasets").json()["datasets"])
    host, _, port = warm.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as caller:
        caller.sendall(head.encode() + lines)
        until(lambda: any(map(_is_working, _readers(warm))))
        reader, *_ = _readers(warm)
    until(lambda: not reader.is_running() or reader.status() == psutil.STATUS_ZOMBIE)
    assert len(warm.http.get("/v1/datasets").json()["datasets"]) == kept


def _readers(server: Server) -> list[psutil.Process]:
    return [one for one in server.processes() if "service.rows.parsing_process" in one.cmdline()]


def _is_working(process: psutil.Process) -> bool:
    return process.cpu_percent(0.05) > 5
