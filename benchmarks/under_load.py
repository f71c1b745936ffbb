"""How long predictions take at 300 requests a second, idle and while trainings use every core.

Requests leave by the clock, whether or not those before them are answered, and a request's time
counts from the moment when it was due. `/livez` is asked beside them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from benchmarks.service_process import Service, running

N_FEATURES = 64
RATE = 300
CONNECTIONS = 8


def main(seconds: float = 20.0) -> dict[str, float]:
    """Print and return the figures, in milliseconds."""
    with running() as service:
        figures = measure(service, seconds)
    for name, figure in figures.items():
        print(f"{name:>40} {figure:8.2f}")
    return figures


def measure(service: Service, seconds: float, rate: float = RATE) -> dict[str, float]:
    """The 50th and 99th percentile of each, idle and busy, and the ratio of the latter."""
    random = np.random.default_rng(0)
    X = random.normal(size=(20_000, N_FEATURES))
    y = np.where(X[:, 0] + random.normal(size=len(X)) > 0, "yes", "no")
    rows = "\n".join(
        ",".join([*map(repr, x), label]) for x, label in zip(X.tolist(), y, strict=True)
    )
    dataset = service.upload(rows.encode(), header="absent")
    spec = {"solver": {"name": "pegasos"}, "stopping": {"max_epochs": 2}}
    service.finished(service.train(dataset, [spec]))
    _times(service, 1.0, rate)  # the model is loaded, heads are known
    figures = _percentiles("idle", *_times(service, seconds, rate))
    endless = {"solver": {"name": "pegasos"}, "stopping": {"max_epochs": 1_000_000}}
    jobs = service.train(dataset, [endless] * len(os.sched_getaffinity(0)))
    try:
        while service.http.get(f"/v1/jobs/{jobs[0]}").json()["state"] == "queued":
            time.sleep(0.1)
        time.sleep(1.0)
        figures |= _percentiles("busy", *_times(service, seconds, rate))
    finally:
        for job in jobs:
            service.http.post(f"/v1/jobs/{job}/cancel")
    figures["busy p99 / idle p99"] = figures["busy predict p99"] / figures["idle predict p99"]
    return figures


def _percentiles(when: str, predictions: list[float], probes: list[float]) -> dict[str, float]:
    return {
        f"{when} {what} p{q}": float(np.percentile(times, q)) * 1e3
        for what, times in (("predict", predictions), ("livez", probes))
        for q in (50, 99)
    }


def _times(service: Service, seconds: float, rate: float) -> tuple[list[float], list[float]]:
    """Seconds of the predictions, and of a probe of `/livez` ten times as rare."""
    return asyncio.run(_ask(str(service.http.base_url), seconds, rate))


async def _ask(url: str, seconds: float, rate: float) -> tuple[list[float], list[float]]:
    random = np.random.default_rng(1)
    body = json.dumps({"instances": random.normal(size=(1, N_FEATURES)).tolist()}).encode()
    predict = (
        b"POST /v1/models/benchmark/predict HTTP/1.1\r\nHost: localhost\r\n"
        b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    livez = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    started = time.perf_counter() + 0.05
    predictions: list[float] = []
    probes: list[float] = []
    share = rate / CONNECTIONS
    clients = [
        client(
            url,
            predict,
            [started + (k + i / CONNECTIONS) / share for k in range(int(seconds * share))],
            predictions,
        )
        for i in range(CONNECTIONS)
    ]
    due = [started + 10 * k / rate for k in range(int(seconds * rate / 10))]
    await asyncio.gather(*clients, client(url, livez, due, probes))
    return predictions, probes


async def client(url: str, request: bytes, due: list[float], times: list[float]) -> None:
    """Send the request at these times over one connection; RuntimeError for a bad reply."""
    address: Any = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    for moment in due:
        await asyncio.sleep(max(0.0, moment - time.perf_counter()))
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length))
        times.append(time.perf_counter() - moment)
    writer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    main(parser.parse_args().seconds)
