"""How long predictions take at 3,000 requests a second, idle and beside other work of the service.

    python -m benchmarks.under_load [--seconds 20] [--rate 3000]

Requests leave by the clock, whether or not those before them are answered, and a request's time
counts from the moment when it was due. `/livez` is asked beside them. The other work: trainings
that use every core, an upload, a backup, streams of a training's events. Needs a C compiler.
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
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import httpx2
import numpy as np
import psutil

from benchmarks.constant_rate import Sending
from benchmarks.service_process import Service, running

N_FEATURES = 64
RATE = 3000
CONNECTIONS = 8
UPLOAD_MB = 200
STREAMS = 200
ENDLESS = {"solver": {"name": "pegasos"}, "stopping": {"max_epochs": 1_000_000}}

Neighbor: TypeAlias = Callable[[Service, dict[str, Any]], AbstractContextManager[None]]
"""Other work of a service, which has this dataset."""


def main(seconds: float = 20.0, rate: float = RATE) -> dict[str, float]:
    """Print and return the figures, in milliseconds."""
    with running() as service:
        figures = measure(service, seconds, rate)
    for name, figure in figures.items():
        print(f"{name:>40} {figure:8.2f}")
    return figures


def measure(
    service: Service, seconds: float, rate: float = RATE, upload_mb: float = UPLOAD_MB
) -> dict[str, float]:
    """The 50th and 99th percentile of each, idle and beside each neighbor, and the ratio of the
    latter."""
    dataset = service.upload(csv_of(20_000), header="absent")
    spec = {"solver": {"name": "pegasos"}, "stopping": {"max_epochs": 2}}
    service.finished(service.train(dataset, [spec]))
    _times(service, 1.0, rate)  # the model is loaded
    neighbors: Mapping[str, Neighbor] = {
        "trainings": trainings,
        "upload": uploads(upload_mb),
        "backup": backups,
        "streams": streams,
    }
    figures = _percentiles("idle", *_times(service, seconds, rate))
    for name, neighbor in neighbors.items():
        with neighbor(service, dataset):
            time.sleep(1.0)
            figures |= _percentiles(name, *_times(service, seconds, rate))
        figures[f"{name} p99 / idle p99"] = (
            figures[f"{name} predict p99"] / figures["idle predict p99"]
        )
    return figures


def csv_of(n: int) -> bytes:
    """Rows of `N_FEATURES` numbers, and a label."""
    random = np.random.default_rng(0)
    X = random.normal(size=(n, N_FEATURES))
    y = np.where(X[:, 0] + random.normal(size=n) > 0, "yes", "no")
    rows = (",".join([*map(repr, x), label]) for x, label in zip(X.tolist(), y, strict=True))
    return "\n".join(rows).encode()


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
        content = csv_of(200)
        content = b"\n".join([content] * max(1, round(megabytes * 1e6 / len(content))))

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
def _repeated(work: Callable[[], None]) -> Iterator[None]:
    """In a thread, until the end of the block. Raises what `work` raises."""
    ended = threading.Event()

    def run() -> None:
        while not ended.is_set():
            work()

    with ThreadPoolExecutor(1) as thread:
        repeated = thread.submit(run)
        try:
            yield
        finally:
            ended.set()
        repeated.result()


def _percentiles(when: str, predictions: list[float], probes: list[float]) -> dict[str, float]:
    return {
        f"{when} {what} p{q}": float(np.percentile(times, q)) * 1e3
        for what, times in (("predict", predictions), ("livez", probes))
        for q in (50, 99)
    }


def _times(service: Service, seconds: float, rate: float) -> tuple[list[float], list[float]]:
    """Seconds of the predictions, and of a probe of `/livez` ten times as rare."""
    random = np.random.default_rng(1)
    body = json.dumps({"instances": random.normal(size=(1, N_FEATURES)).tolist()}).encode()
    predict = (
        b"POST /v1/models/benchmark/predict HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    livez = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    url = str(service.http.base_url)
    predictions = Sending(url, predict, connections=CONNECTIONS, rate=rate, seconds=seconds)
    probes = Sending(url, livez, connections=1, rate=rate / 10, seconds=seconds)
    return predictions.times(), probes.times()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=RATE, help="predictions a second")
    chosen = parser.parse_args()
    main(chosen.seconds, chosen.rate)
