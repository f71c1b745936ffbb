"""The page of the documentation that shows the figures."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks.serving.loads import Load

LIMITS = ("C", "Granian", "uvicorn")
"""Servers with a constant reply, the cheapest first."""
PEERS = ("hand-written", "LitServe", "BentoML", "MLServer")
TEXT = """# Speed of predictions

What a prediction over HTTP costs, beside the least that a server can do and beside other servers. \
This page is the output of `python -m benchmarks.serving --page docs/speed.md`; measure it on your \
machine before you plan with it.

The server runs on one core, the load (`wrk`) on another, and the servers take turns. CPU is the \
processor time of the server for a request, the kernel's work for its sockets included. The other \
columns are the processor time of another server for the same request, as a multiple of ours: \
above 1 it needs more than we do.

- **C**, **Granian** and **uvicorn** read the same request and send a constant reply of the same \
size: a loop of system calls in C, an RSGI app, and an ASGI app with uvloop and httptools. They \
read no number and score nothing. What C needs is what sockets cost on this machine, and no server \
can need less.
- **hand-written** is FastAPI, Pydantic and scikit-learn, as one would write it; **LitServe**, \
**BentoML** and **MLServer** answer with the same scikit-learn model, each with one worker.
- "Differing heads": every request has a trace id and a request id of its own. "Through nginx": \
it keeps its connections to the servers open; "by its defaults" it opens one for each request, in \
HTTP/1.0. Its own processor time does not count. With "Connection: close" each request has a \
connection of its own, too.

"""
NOTES = """
A request needs the kernel's time for its sockets whatever the server does. One connection at a \
time pays more: each request wakes the server.

These prices are those of ordinary requests, and most are: in HTTP/1.1 or 1.0, on a connection \
that is kept or closed, with or without a query, with a length or in chunks, with headers that are \
repeated or unknown. A connection of its own costs a request more than its prediction: \
keep connections open (`keepalive` in nginx). What takes the long way through the application \
costs some ten times as much as a row: `Expect: 100-continue`, `Content-Digest`, an offer to \
upgrade, an address with `%` in the model's name or with a host in front, a body of more than \
8 MiB, the first request for a model that is not in memory, and whatever is refused.

Measured since with uvicorn beside it only, in medians of three rounds (its CPU in brackets): \
with a query 33 µs (29), in a chunk 31 (28), `Accept` twice 31 (29), `Connection: close` 171 \
(106), through nginx by its defaults 176 (92); 1 × 7 of a table as an object 40, as columns of \
`/v2` 61, 1,000 × 7 2,704 and 1,673; 1,000 × 20 with ten columns of texts as objects 5,359, as \
Arrow 1,283. Bodies of 126 kB of CSV and 132 kB of JSON take uvicorn the same time, 141 and 156 \
µs: the small ratio of CSV above is that of another round.

At 3,000 requests a second beside other work of the service, on two cores that the client uses, \
too (`python -m benchmarks.under_load`), in ms:

| beside | p50 | p99 | p99.9 | longest |
|---|---:|---:|---:|---:|
| nothing | 0.24 | 0.66 | 4.2 | 6.0 |
| pages, 10 a second | 0.21 | 3.5 | 7.0 | 9.0 |
| an upload of 200 MB | 0.22 | 4.7 | 13.7 | 16.7 |
| a comparison of 24 × 5 | 0.16 | 3.7 | 6.5 | 7.9 |
| trainings on every core | 0.15 | 3.0 | 5.4 | 6.2 |
| a backup | 0.19 | 3.9 | 6.7 | 8.8 |
| 300 streams of events | 0.19 | 3.9 | 6.1 | 8.0 |

One process has answered all of this. [Several](scaling.md) take as much time for a request, on as \
many cores.

HTTP/2 is the work of a proxy in front of the service ([operations](operations.md)).
"""


@dataclass(frozen=True)
class Figures:
    """Of one server under one load, medians of the rounds."""

    rate: float
    """Requests a second."""
    cpu_us: float
    """Of the server, for a request."""
    ratio: float
    """Its processor time in those of ours, by rounds: 2 is twice as much."""


def write_page(path: Path, measured: Mapping[Load, Mapping[str, Figures]]) -> None:
    """Write the Markdown."""
    asked = {name for figures in measured.values() for name in figures}
    others = [name for name in (*LIMITS, *PEERS) if name in asked]
    lines = [
        "| request | a second | CPU, µs | " + " | ".join(others) + " |",
        "|---|---:|---:|" + "---:|" * len(others),
    ]
    for load, figures in measured.items():
        ours = figures["service"]
        cells = [f"{figures[name].ratio:.2f}" if name in figures else "" for name in others]
        row = [str(load), f"{ours.rate:,.0f}", f"{ours.cpu_us:,.0f}", *cells]
        lines.append(f"| {' | '.join(row)} |")
    path.write_text(f"{TEXT}{_machine()}\n\n" + "\n".join(lines) + f"\n{NOTES}")


def _machine() -> str:
    names = ("svm-service", "uvicorn", "uvloop", "httptools", "numpy", "pysimdjson", "scikit-learn")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    return (
        f"Measured with {versions}, Python {platform.python_version()}, on {_processor()}, "
        f"{os.cpu_count()} cores, Linux {platform.release().partition('-')[0]}."
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
