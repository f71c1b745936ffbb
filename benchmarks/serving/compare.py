"""Predictions over HTTP: requests/s and processor time, beside the least that a server can do and
beside peers.

Needs `wrk`. Each server runs on one core and wrk on another; the servers take turns, round by
round, and the median counts: of requests/s, and of the server's processor time a request, which
other work on the machine disturbs less.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import httpx2

from benchmarks.serving.loads import LOADS, Load, request_of, wrk_script
from benchmarks.serving.models import keep_models
from benchmarks.serving.page import Figures, write_page
from benchmarks.serving.proxy import PROGRAM, proxied
from benchmarks.serving.servers import Server, free_port, rivals, service, started, wrk

OURS = "service"
PROXIED = (OURS, "uvicorn")
"""Measured through nginx, too, if it is installed; its own processor time does not count."""


def main(
    loads: Sequence[Load] = LOADS,
    rounds: int = 5,
    seconds: float = 3.0,
    peers: Path | None = None,
    page: Path | None = None,
) -> dict[Load, dict[str, Figures]]:
    """Print, and return by load, the figures of each server. Each load is a line of `page`."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        features = keep_models(folder, peer=True)
        others = {rival.name: rival for rival in rivals(peers)}
        servers = {OURS: stack.enter_context(service(folder))}
        for rival in others.values():
            port = free_port()
            command = rival.command(folder, port)
            servers[rival.name] = stack.enter_context(started(command, folder, port))
        behind: dict[str, dict[str, str]] = {}
        if PROGRAM is not None:
            direct = {name: servers[name] for name in PROXIED}
            behind = stack.enter_context(proxied(folder / "nginx", direct))
        measured = {}
        for load in loads:
            if load.proxy and not behind:
                continue
            body, headers = request_of(load, features[load.model])
            ours = httpx2.post(
                servers[OURS].url + load.path, content=body, headers=headers, timeout=60
            )
            ours.raise_for_status()
            urls = {OURS: servers[OURS].url + load.path}
            for rival in others.values():
                path = rival.path(load, len(ours.content))
                if path is not None:
                    urls[rival.name] = servers[rival.name].url + path
            if load.proxy:
                urls = {
                    name: urls[name].replace(servers[name].url, url)
                    for name, url in behind[load.proxy].items()
                }
            for url in urls.values():
                httpx2.post(url, content=body, headers=headers, timeout=60).raise_for_status()
            script = wrk_script(folder, body, headers, load)
            measured[load] = _measure(load, servers, urls, script, rounds, seconds)
            print(f"{load!s:>60}: {_shown(measured[load])}", flush=True)
    if page is not None:
        write_page(page, measured)
    return measured


def _measure(
    load: Load,
    servers: Mapping[str, Server],
    urls: Mapping[str, str],
    script: Path,
    rounds: int,
    seconds: float,
) -> dict[str, Figures]:
    rates: dict[str, list[float]] = {name: [] for name in urls}
    costs: dict[str, list[float]] = {name: [] for name in urls}
    for round_number in range(rounds + 1):  # the first one warms up
        for name, url in urls.items():
            before = servers[name].cpu_s()
            rate, count = wrk(url, script, load.connections, seconds if round_number else 1)
            if round_number:
                rates[name].append(rate)
                costs[name].append((servers[name].cpu_s() - before) / count * 1e6)
    return {
        name: Figures(
            statistics.median(rates[name]),
            statistics.median(costs[name]),
            statistics.median(a / b for a, b in zip(costs[name], costs[OURS], strict=True)),
        )
        for name in urls
    }


def _shown(figures: Mapping[str, Figures]) -> str:
    return "  ".join(
        f"{name} {each.rate:,.0f}/s {each.cpu_us:,.1f} µs"
        + ("" if name == OURS else f" ({each.ratio:.2f})")
        for name, each in figures.items()
    )
