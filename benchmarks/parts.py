"""Jobs whose parts other workers do: the time with two workers against that with one.

Both services run in turns; only one of them has work at a time. A ratio of 2 is the most that two
processors give.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from benchmarks.service_process import Service, running

GAUSSIAN = {"name": "gaussian", "gamma": 0.01}
SMO = {"solver": {"name": "smo", "C": 10.0, "kernel": GAUSSIAN}}
GRID = {
    "solver": [{"name": "smo"}],
    "C": [0.1, 0.3, 1.0, 3.0, 10.0, 30.0],
    "gamma": [0.003, 0.01, 0.03, 0.1],
}
ROWS, COLUMNS, CLASSES = 3000, 196, 10
PREDICTED = 2_000_000


@dataclass(frozen=True)
class Result:
    name: str
    one_s: float
    """Median wall time with one worker."""
    two_s: float

    @property
    def ratio(self) -> float:
        return self.one_s / self.two_s


def main(rounds: int = 3, rows: int = ROWS, predicted: int = PREDICTED) -> list[Result]:
    """Print and return the medians of the rounds."""
    times: dict[tuple[str, int], list[float]] = defaultdict(list)
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})  # so that one worker has one thread
    with running(SVM_WORKERS="1") as one, _with_all(processors), running(SVM_WORKERS="2") as two:
        services = {1: one, 2: two}
        data = {workers: _data(service, rows, predicted) for workers, service in services.items()}
        for _ in range(rounds + 1):
            for workers, service in services.items():
                for name, path, body in _jobs(*data[workers]):
                    times[name, workers].append(_seconds(service, path, body))
    results = [
        Result(name, *(median(times[name, workers][1:]) for workers in (1, 2)))
        for name in dict.fromkeys(name for name, _ in times)
    ]
    for each in results:
        print(f"{each.name:>28}: {each.one_s:6.2f} s, {each.two_s:6.2f} s, {each.ratio:.2f} ×")
    return results


@contextmanager
def _with_all(processors: set[int]) -> Iterator[None]:
    os.sched_setaffinity(0, processors)
    yield


def _jobs(many: str, wide: str) -> list[tuple[str, str, dict[str, Any]]]:
    train = {"dataset_id": many, "model_name": "parts", "seed": 1}
    precise = {"duality_gap": 1e-4}
    return [
        ("45 pairs, smo", "jobs", {**train, **SMO, "stopping": precise}),
        ("5 folds, smo", "jobs", {**train, **SMO, "validation": {"folds": 5}}),
        (
            "comparison of 24, smo",
            "comparisons",
            {**train, "grid": GRID, "validation": {"fraction": 0.3}},
        ),
        (
            "batch prediction",
            "batch-predictions",
            {"dataset_id": wide, "model": "linear", "outputs": ["label"]},
        ),
    ]


def _data(service: Service, rows: int, predicted: int) -> tuple[str, str]:
    """Ten overlapping clouds; and rows to predict, with a model for them."""
    random = np.random.default_rng(0)
    codes = np.arange(rows) % CLASSES
    X = random.normal(size=(rows, COLUMNS))
    X[np.arange(rows), codes] += 1.2
    X[np.arange(rows), codes + CLASSES] += 1.2
    many = service.upload(_npy(X), "application/x-npy", labels=_npy(codes))
    narrow = service.upload(_npy(X[:, :CLASSES]), "application/x-npy", labels=_npy(codes))
    spec = {"solver": {"name": "newton"}, "model_name": "linear"}
    service.finished(service.train(narrow, [spec]))
    unlabeled = _npy(random.normal(size=(predicted, CLASSES)))
    wide = service.upload(unlabeled, "application/x-npy", target="none")
    return many["id"], wide["id"]


def _npy(array: np.ndarray) -> bytes:
    from io import BytesIO

    file = BytesIO()
    np.save(file, array)
    return file.getvalue()


def _seconds(service: Service, path: str, body: dict[str, Any]) -> float:
    begun = time.perf_counter()
    reply = service.http.post(f"/v1/{path}", json=body)
    service.finished([reply.raise_for_status().json()["id"]])
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
