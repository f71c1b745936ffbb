"""How long a caller waits for a training, from the request to the reply with the model, by HTTP.

The first job of a service; small jobs one after the other; the first job after the workers have
ended; and a table as large as UCI's Adult (32,561 x 14, eight columns of categories), from its
upload to its model. In milliseconds, with the load of the machine.
"""

from __future__ import annotations

import io
import os
import time
from statistics import median

import numpy as np

from benchmarks.service_process import Service, running
from benchmarks.uploads import numbers

SILENCE_S = 64.0
"""Workers without a job end after a minute."""
LEVELS = (8, 16, 7, 14, 6, 5, 2, 41)


def main(rounds: int = 20, silences: int = 1, rows: int = 32_561) -> dict[str, float]:
    """Print and return the least and the median of each."""
    times: dict[str, list[float]] = {"first job": []}
    file = io.StringIO()
    numbers(file, 500, 10)
    content, table = file.getvalue().encode(), adult(rows)
    for _ in range(2):
        with running() as service:
            times["first job"].append(job(service, service.upload(content)))
    with running() as service:
        small = service.upload(content)
        times["first job"].append(job(service, small))
        times["small job"] = [job(service, small) for _ in range(rounds)]
        uploads, jobs = times.setdefault("upload", []), times.setdefault("its job", [])
        for number in range(max(3, rounds // 4)):
            another = table + f"{number},{'level 1,' * len(LEVELS)}0,0,1,1,1,yes\n".encode()
            begun = time.perf_counter()
            dataset = service.upload(another)
            uploads.append(1e3 * (time.perf_counter() - begun))
            jobs.append(job(service, dataset))
        for _ in range(silences):
            time.sleep(SILENCE_S)
            times.setdefault("after a silence", []).append(job(service, small))
    times["upload to model"] = [a + b for a, b in zip(uploads, jobs, strict=True)]
    print(f"load {os.getloadavg()[0]:.1f}")
    for name, taken in times.items():
        print(f"{name:>16}: least {min(taken):6.1f} ms, median {median(taken):6.1f} ms")
    return {name: min(taken) for name, taken in times.items()}


def job(service: Service, dataset: dict[str, object]) -> float:
    """Milliseconds from the request to the reply, which waits for the end."""
    body = {"dataset_id": dataset["id"], "model_name": "benchmark"}
    begun = time.perf_counter()
    reply = service.http.post("/v1/jobs", params={"wait_s": 60}, json=body)
    taken = 1e3 * (time.perf_counter() - begun)
    if reply.json()["state"] != "succeeded":
        raise RuntimeError(reply.text)
    return taken


def adult(rows: int) -> bytes:
    """Six columns of whole numbers, eight of categories, and a label that depends on both."""
    random = np.random.default_rng(0)
    ages = random.integers(17, 91, rows)
    levels = [random.integers(0, n, rows) for n in LEVELS]
    gains = [np.where(random.random(rows) < 0.07, random.integers(0, 10_000, rows), 0)] * 2
    others = [random.integers(1, high, rows) for high in (1_484_706, 17, 99)]
    is_rich = ages / 20 + levels[1] / 4 + others[2] / 40 + random.normal(size=rows) > 6.5
    columns = [
        ages.tolist(),
        *([f"level {k}" for k in codes.tolist()] for codes in levels),
        *(column.tolist() for column in (*gains, *others)),
        np.where(is_rich, "yes", "no").tolist(),
    ]
    header = ",".join([*(f"x{k}" for k in range(len(columns) - 1)), "rich"])
    lines = (",".join(map(str, row)) for row in zip(*columns, strict=True))
    return "\n".join([header, *lines, ""]).encode()


if __name__ == "__main__":
    main()
