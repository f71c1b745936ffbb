"""Predictions while a training commits in another process: what its progress costs them.

Needs `wrk`. The service runs on one core, the load on another. Rounds without commits and rounds
with `RATE` commits a second take turns, on SQLite and on PostgreSQL, and the medians count: of
requests/s and of processor time a request at saturation, and of percentiles at a tenth of that
load. The commits are reports of a job's progress, by the code of the workers.
"""

from __future__ import annotations

import argparse
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import numpy as np

from benchmarks.constant_rate import Sending
from benchmarks.serving.loads import Load, request_of, wrk_script
from benchmarks.serving.models import keep_models
from benchmarks.serving.servers import service, wrk
from service.jobs.core.leases import Leases, Report
from service.settings import Settings
from service.storage.blobs import open_blobs
from service.storage.database import Database
from tests.servers import postgres

RATE = 50.0
"""Commits a second; a training makes five to nine."""
SHARE = 0.1
"""Of the load at saturation, where latencies are measured."""
LOAD = Load("linear64", 1, 64)
CONNECTIONS = 8
DATABASES = ("sqlite", "postgresql")
ROWS = b"a,b,c\n1,2,x\n2,1,y\n3,2,x\n1,3,y\n"
LEASE_S = 3600.0


def main(
    databases: Sequence[str] = DATABASES, rounds: int = 5, seconds: float = 4.0
) -> dict[str, dict[str, float]]:
    """Print and return the figures by database."""
    found = {}
    for database in databases:
        with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
            url = stack.enter_context(postgres()) if database == "postgresql" else None
            found[database] = measure(Path(name), url, rounds, seconds)
        shown = "  ".join(f"{name} {figure:,.2f}" for name, figure in found[database].items())
        print(f"{database:>12}: {shown}", flush=True)
    return found


def measure(folder: Path, url: str | None, rounds: int, seconds: float) -> dict[str, float]:
    """At saturation and at `SHARE` of it, without commits (`idle`) and with them (`busy`)."""
    url = url or f"sqlite:///{folder / 'var' / 'service.db'}"
    n_features = keep_models(folder, False, url)[LOAD.model]
    body, headers = request_of(LOAD, n_features)
    script = wrk_script(folder, body, headers, LOAD)
    rates: dict[str, list[float]] = {"idle": [], "busy": []}
    costs: dict[str, list[float]] = {"idle": [], "busy": []}
    times: dict[str, list[list[float]]] = {"idle": [], "busy": []}
    with service(folder, SVM_DATABASE_URL=url) as server:
        _queue_job(server.url)
        predict = f"{server.url}/v1/models/{LOAD.model}/predict"
        content_type = {"Content-Type": LOAD.media_type}
        httpx2.post(predict, content=body, headers=content_type, timeout=60).raise_for_status()
        limit, _ = wrk(predict, script, LOAD.connections, seconds)
        for _ in range(rounds):
            for when in rates:
                with ExitStack() as stack:
                    if when == "busy":
                        stack.enter_context(_committing(folder, url))
                    before = server.cpu_s()
                    rate, count = wrk(predict, script, LOAD.connections, seconds)
                    rates[when].append(rate)
                    costs[when].append((server.cpu_s() - before) / count * 1e6)
                    times[when].append(_times(predict, body, limit * SHARE, seconds))
    figures = {f"{when}/s": statistics.median(found) for when, found in rates.items()}
    figures |= {f"{when} µs": statistics.median(found) for when, found in costs.items()}
    for q in (50, 99):
        for when, rounds_of in times.items():
            percentiles = [float(np.percentile(found, q)) * 1e3 for found in rounds_of]
            figures[f"{when} p{q}, ms"] = statistics.median(percentiles)
    figures["busy p99 / idle p99"] = figures["busy p99, ms"] / figures["idle p99, ms"]
    return figures


def _queue_job(url: str) -> None:
    with httpx2.Client(base_url=url, timeout=60) as http:
        http.post(
            "/v1/datasets", content=ROWS, headers={"Content-Type": "text/csv"}
        ).raise_for_status()
        body = {"dataset_id": "latest", "model_name": "other", "solver": {"name": "pegasos"}}
        http.post("/v1/jobs", json=body).raise_for_status()


@contextmanager
def _committing(folder: Path, url: str) -> Iterator[None]:
    """A process that commits, as a worker does."""
    command = [sys.executable, "-m", "benchmarks.beside_commits", "--report", url]
    process = subprocess.Popen(
        ["taskset", "-c", "1", *command],
        env={**os.environ, "SVM_DATA_DIR": str(folder / "var")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdout.readline()
        yield
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


def report(url: str) -> None:
    """Take the job and report its progress until standard input closes."""
    settings = Settings()
    database = Database(url)
    leases = Leases(database, open_blobs(settings))
    lease = leases.take("benchmark", LEASE_S)
    assert lease is not None
    print("leased", flush=True)
    due, epoch = time.monotonic(), 0
    while not select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
        due, epoch = due + 1 / RATE, epoch + 1
        leases.report(lease, Report(progress={"epoch": epoch}, elapsed_s=epoch / RATE))
    leases.release(lease, Report(progress={}, elapsed_s=0.0))
    database.close()


def _times(url: str, body: bytes, rate: float, seconds: float) -> list[float]:
    """Seconds from when each request was due to its reply."""
    address = urlsplit(url)
    request = (
        f"POST {address.path} HTTP/1.1\r\nHost: localhost\r\n"
        f"Content-Type: {LOAD.media_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    sending = Sending(url, request, connections=CONNECTIONS, rate=rate, seconds=seconds)
    return sending.times()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--only", choices=DATABASES, default=None)
    parser.add_argument("--report", metavar="URL", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.report is not None:
        report(chosen.report)
    else:
        only = DATABASES if chosen.only is None else (chosen.only,)
        main(only, chosen.rounds, chosen.seconds)
