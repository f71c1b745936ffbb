"""How long predictions take at 3,000 requests a second, idle and beside other work of the service.

    python -m benchmarks.under_load [--seconds 10] [--rate 3000] [--rounds 5] [--first]
        [--beside pages …]

Requests leave by the clock, whether or not those before them are answered, and a request's time
counts from the moment when it was due. The other work: pages for browsers and operators, an upload,
a comparison of 24 settings on 5 folds, trainings that use every core, a backup, streams of a
training's events. Rounds alternate, and the median of each figure counts. With
`--first` the service and the client precede all other processes: on a machine that others use, too,
their work would be measured otherwise. Needs a C compiler.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import httpx2
import numpy as np
import psutil

from benchmarks.service_process import Service, running

N_FEATURES = 64
RATE = 3000
CONNECTIONS = 16
UPLOAD_MB = 200
STREAMS = 300
PAGES_PER_S = 10
SETTINGS = {"SVM_LIMITS__EVENT_STREAMS": str(STREAMS)}
ENDLESS = {"solver": {"name": "pegasos"}, "stopping": {"max_epochs": 1_000_000}}
COMPARISON = {
    "grid": {
        "solver": [{"name": "dual-coordinate-descent"}, {"name": "newton"}],
        "C": [10.0**k for k in range(-8, 4)],
    },
    "validation": {"folds": 5},
    "model_name": "compared",
}
"""24 settings."""
CLIENT = Path(__file__).with_name("constant_rate.c")
PERCENTILES = {"p50": 50.0, "p99": 99.0, "p99.9": 99.9, "max": 100.0}

Neighbor: TypeAlias = Callable[[Service, dict[str, Any]], AbstractContextManager[None]]
"""Other work of a service, which has this dataset."""


def main(
    seconds: float = 10.0,
    rate: float = RATE,
    rounds: int = 5,
    beside: Sequence[str] = (),
    first: bool = False,
) -> dict[str, dict[str, float]]:
    """Print and return the figures, in milliseconds."""
    with running(**SETTINGS) as service:
        for thread in psutil.Process(service.pid).threads() if first else ():
            go_first(thread.id)
        figures = measure(service, seconds, rate, rounds, beside, first=first)
    print(f"{'ms':>12}" + "".join(f"{name:>8}" for name in PERCENTILES))
    for name, row in figures.items():
        print(f"{name:>12}" + "".join(f"{figure:8.2f}" for figure in row.values()))
    return figures


def measure(
    service: Service,
    seconds: float,
    rate: float = RATE,
    rounds: int = 1,
    beside: Sequence[str] = (),
    upload_mb: float = UPLOAD_MB,
    first: bool = False,
) -> dict[str, dict[str, float]]:
    """Percentiles idle and beside each neighbor, or only those that are named: the median of the
    rounds."""
    dataset = service.upload(csv_of(20_000), header="absent")
    spec = {"solver": {"name": "pegasos"}, "stopping": {"max_epochs": 2}}
    service.finished(service.train(dataset, [spec]))
    neighbors: Mapping[str, Neighbor] = {
        "idle": lambda *_: nullcontext(),
        "pages": pages,
        "upload": uploads(upload_mb),
        "comparison": comparisons,
        "trainings": trainings,
        "backup": backups,
        "streams": streams,
    }
    names = [name for name in neighbors if not beside or name in ("idle", *beside)]
    _percentiles(service, 1.0, rate, first)  # the model is loaded
    measured: dict[str, list[list[float]]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            with neighbors[name](service, dataset):
                time.sleep(1.0)
                measured[name].append(_percentiles(service, seconds, rate, first))
    return {
        name: dict(zip(PERCENTILES, np.median(rows, axis=0).tolist(), strict=True))
        for name, rows in measured.items()
    }


def csv_of(n: int) -> bytes:
    """Rows of `N_FEATURES` numbers, and a label."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n, N_FEATURES))
    y = np.where(X[:, 0] + random.normal(size=n) > 0, "yes", "no")
    rows = (",".join([*map(repr, x), label]) for x, label in zip(X.tolist(), y, strict=True))
    return "\n".join(rows).encode()


def csv_of_size(megabytes: float) -> bytes:
    """Of about this size: the same rows, repeated."""
    rows = csv_of(200)
    return b"\n".join([rows] * max(1, round(megabytes * 1e6 / len(rows))))


@contextmanager
def pages(service: Service, dataset: dict[str, Any]) -> Iterator[None]:
    """All pages one after the other, `PAGES_PER_S` a second."""
    [job, *_] = service.http.get("/v1/jobs?state=succeeded").json()["jobs"]
    paths = (
        *("/", "/datasets", f"/datasets/{dataset['id']}", "/train", "/jobs", f"/jobs/{job['id']}"),
        *("/compare", "/models", "/models/benchmark", "/models/benchmark/versions/1"),
        *("/models/benchmark/versions/1/plots", "/models/benchmark/versions/1/card"),
        *("/docs", "/openapi.json", "/metrics", "/problems", "/v1/jobs", "/v1/solvers"),
    )
    turns, due = cycle(paths), time.monotonic()

    def show() -> None:
        nonlocal due
        due = max(due + 1 / PAGES_PER_S, time.monotonic())
        accept = {"Accept": "text/html, */*"}
        service.http.get(next(turns), headers=accept).raise_for_status()
        time.sleep(max(0.0, due - time.monotonic()))

    with _repeated(show):
        yield


@contextmanager
def comparisons(service: Service, dataset: dict[str, Any]) -> Iterator[None]:
    """Of 24 settings on 5 folds, one after the other."""
    body = {"dataset_id": dataset["id"], **COMPARISON}

    def compare() -> None:
        job = service.http.post("/v1/comparisons", json=body).raise_for_status().json()
        try:
            while not ended.is_set() and not job["finished_at"]:
                reply = service.http.get(f"/v1/comparisons/{job['id']}?wait_s=1")
                job = reply.raise_for_status().json()
        finally:
            if not job["finished_at"]:
                service.http.post(f"/v1/comparisons/{job['id']}/cancel").raise_for_status()

    with _repeated(compare) as ended:
        yield


@contextmanager
def trainings(
    service: Service, dataset: dict[str, Any], count: int = len(os.sched_getaffinity(0))
) -> Iterator[None]:
    """Some that do not end, by default one on each core."""
    jobs = service.train(dataset, [ENDLESS] * count)
    try:
        while service.http.get(f"/v1/jobs/{jobs[0]}").json()["state"] == "queued":
            time.sleep(0.1)
        yield
    finally:
        for job in jobs:
            service.http.post(f"/v1/jobs/{job}/cancel")


def uploads(megabytes: float) -> Neighbor:
    """Of a file of this size, one after the other."""

    @contextmanager
    def uploading(service: Service, _: dict[str, Any]) -> Iterator[None]:
        content = csv_of_size(megabytes)

        def upload() -> None:
            service.delete(service.upload(content, header="absent"))

        with _repeated(upload):
            yield

    return uploading


@contextmanager
def backups(service: Service, _: dict[str, Any]) -> Iterator[None]:
    """Of all data, one after the other."""
    data_dir = psutil.Process(service.pid).environ()["SVM_DATA_DIR"]
    program = Path(sys.executable).parent / "svm-service"

    def backup() -> None:
        with tempfile.TemporaryDirectory() as folder:
            command: list[str | Path] = [program, "backup", f"{folder}/backup.tar"]
            environment = {**os.environ, "SVM_DATA_DIR": data_dir}
            subprocess.run(command, env=environment, check=True, capture_output=True)

    with _repeated(backup):
        yield


@contextmanager
def streams(service: Service, dataset: dict[str, Any]) -> Iterator[None]:
    """Clients that watch one training."""
    with trainings(service, dataset, 1), ExitStack() as stack:
        [job, *_] = service.http.get("/v1/jobs?state=running").json()["jobs"]
        limits = httpx2.Limits(max_connections=STREAMS)
        client = stack.enter_context(
            httpx2.Client(base_url=service.http.base_url, timeout=60, limits=limits)
        )
        accept = {"Accept": "text/event-stream"}
        for _ in range(STREAMS):
            stream = client.stream("GET", f"/v1/jobs/{job['id']}/events", headers=accept)
            stack.enter_context(stream).raise_for_status()
        yield


@contextmanager
def _repeated(work: Callable[[], None]) -> Iterator[threading.Event]:
    """In a thread, until the end of the block, which sets the event. Raises what `work` raises."""
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            work()

    with ThreadPoolExecutor(1) as thread:
        repeated = thread.submit(run)
        try:
            yield ended
        finally:
            ended.set()
        repeated.result()


class Sending:
    """Requests that are being sent, `rate` a second in all, whether or not those before them are
    answered. The client is compiled: one in Python takes longer than the server that it measures.
    """

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
    command = ["cc", "-O2", "-D_GNU_SOURCE", "-o", f"{folder.name}/client", str(CLIENT)]
    subprocess.run(command, check=True)
    return folder


def predictions(service: Service, rate: float, seconds: float) -> Sending:
    """Requests of one row for the model `benchmark`."""
    random = np.random.default_rng(1)
    body = json.dumps({"instances": random.normal(size=(1, N_FEATURES)).tolist()}).encode()
    predict = (
        b"POST /v1/models/benchmark/predict HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    url = str(service.http.base_url)
    return Sending(url, predict, connections=CONNECTIONS, rate=rate, seconds=seconds)


def _percentiles(service: Service, seconds: float, rate: float, first: bool) -> list[float]:
    """Of the times that predictions take, in milliseconds."""
    sending = predictions(service, rate, seconds)
    if first:
        go_first(sending.pid)
    percentiles: list[float] = np.percentile(sending.times(), list(PERCENTILES.values())).tolist()
    return [1e3 * time for time in percentiles]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=RATE, help="predictions a second")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--beside", nargs="*", default=(), help="only these kinds of other work")
    parser.add_argument("--first", action="store_true", help="precede all other processes")
    chosen = parser.parse_args()
    main(chosen.seconds, chosen.rate, chosen.rounds, chosen.beside, chosen.first)
