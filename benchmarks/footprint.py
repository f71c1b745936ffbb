"""What the running service costs: time to the first ready answer, resident memory, big uploads.

An upload is measured by the sum of the resident memory of all processes of the service, sampled
while a CSV of the given size is parsed. `--predictions 10000000` instead measures what that many
predictions, one after the other, add to the memory of the API process.
"""

from __future__ import annotations

import argparse
import threading
import time

import psutil

from benchmarks.service_process import Service, running
from benchmarks.under_load import csv_of, csv_of_size, predictions

MB = 1e6
AT_ONCE, RATE = 250_000, 20_000
"""Predictions between two looks at the memory, and those asked for in a second."""


def main(upload_mb: float = 200.0) -> dict[str, float]:
    """Print and return the figures."""
    with running() as service:
        _settle(psutil.Process(service.pid))
        figures = measure(service, upload_mb)
    for name, figure in figures.items():
        print(f"{name:>32} {figure:8.2f}")
    return figures


def measure(service: Service, upload_mb: float) -> dict[str, float]:
    """The figures of an idle service, and of the same during and after an upload."""
    api = psutil.Process(service.pid)
    idle, resident = _resident(api), api.memory_info().rss / MB
    peak, done = [idle], threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            peak[0] = max(peak[0], _resident(api))

    watcher = threading.Thread(target=watch)
    watcher.start()
    begun = time.perf_counter()
    content, headers = csv_of_size(upload_mb), {"Content-Type": "text/csv"}
    reply = service.http.post("/v1/datasets", content=content, headers=headers)
    took = time.perf_counter() - begun
    done.set()
    watcher.join()
    reply.raise_for_status()
    return {
        "ready after, s": service.ready_s,
        "API process resident, MB": resident,
        "all processes resident, MB": idle,
        f"upload of {upload_mb:.0f} MB CSV, s": took,
        "more resident meanwhile, MB": peak[0] - idle,
        "API process afterwards, MB": api.memory_info().rss / MB,
    }


def after_predictions(count: int) -> dict[str, float]:
    """What `count` predictions add to what the first `AT_ONCE` have taken."""
    with running() as service:
        dataset = service.upload(csv_of(2000), header="absent")
        service.finished(service.train(dataset, [{"solver": {"name": "pegasos"}}]))
        api = psutil.Process(service.pid)
        figures: dict[str, float] = {}
        predictions(service, RATE, AT_ONCE / RATE).times()
        before = api.memory_info().rss
        for done in range(AT_ONCE, count + 1, AT_ONCE):
            predictions(service, RATE, AT_ONCE / RATE).times()
            name = f"more after {done:,} predictions, MB"
            figures[name] = (api.memory_info().rss - before) / MB
            print(f"{name:>40} {figures[name]:8.2f}", flush=True)
    return figures


def _settle(api: psutil.Process) -> None:
    """Wait until the workers have come up and loaded their loops: memory stays the same."""
    history = [_resident(api)]
    while len(history) < 60:
        time.sleep(1)
        history.append(_resident(api))
        recent = history[-6:]
        if len(history) > 10 and max(recent) - min(recent) < 1:
            break


def _resident(api: psutil.Process) -> float:
    total = 0.0
    for process in [api, *api.children(recursive=True)]:
        try:
            total += process.memory_info().rss / MB
        except psutil.NoSuchProcess:
            continue
    return total


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upload-mb", type=float, default=200.0)
    parser.add_argument("--predictions", type=int, help="measure what this many predictions add")
    chosen = parser.parse_args()
    if chosen.predictions:
        after_predictions(chosen.predictions)
    else:
        main(chosen.upload_mb)
