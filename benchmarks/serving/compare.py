"""Predictions over HTTP as a share of the least a server can do, and against a hand-written one.

Needs `wrk`. Each server runs on one core and wrk on another; the loads take turns, round by round,
and the median counts: of requests/s, and of the server's processor time a request, which other
work on the machine disturbs less. The raw limit is an ASGI app on uvicorn (uvloop, httptools) that
reads the body and sends a constant reply of the same size.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import joblib
import numpy as np
import psutil
from sklearn.svm import SVC, LinearSVC

from service.models.registry import ModelRegistry
from service.settings import Settings
from service.storage.blobs import open_blobs
from service.storage.database import Database
from svm.kernel import GaussianKernel
from svm.model.pipeline import FittedPipeline
from svm.transforms.features import FeatureMap, Identity
from svm.transforms.scaling import Scaling

BIN = Path(sys.executable).parent
VECTORS = 5000


@dataclass(frozen=True)
class Load:
    """Requests of one kind, over several connections."""

    model: str
    rows: int
    connections: int
    media_type: str = "application/json"
    differing: bool = False
    """Every request has a trace and an id of its own, as callers send them."""

    @property
    def inference(self) -> bool:
        return self.media_type == "application/octet-stream"

    def __str__(self) -> str:
        form = self.media_type.rpartition("/")[2]
        heads = ", differing heads" if self.differing else ""
        return f"{self.model} {form} {self.rows} rows, {self.connections} connections{heads}"


LOADS = (
    *(
        Load("linear64", 1, connections, differing=differing)
        for connections in (1, 16, 64)
        for differing in (False, True)
    ),
    Load("linear64", 100, 16),
    Load("linear256", 1000, 1),
    *(Load("linear64", 100, 16, media) for media in ("application/x-npy", "text/csv")),
    Load("linear256", 1000, 1, "application/x-npy"),
    Load("linear64", 100, 16, "application/octet-stream"),
    Load("linear256", 1000, 1, "application/octet-stream"),
    Load("gaussian64", 1, 64),
    Load("gaussian64", 1, 1),
)


def main(
    loads: Sequence[Load] = LOADS, rounds: int = 5, seconds: float = 3.0, peer: bool = True
) -> dict[str, dict[str, float]]:
    """Print and return requests/s of each server by load, and the ratios."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        features = keep_models(folder, peer)
        servers: dict[str, Server] = {
            "service": stack.enter_context(
                started([BIN / "svm-service", "serve", "--port", "0"], folder, ADDRESS)
            ),
            "raw": stack.enter_context(
                started(_uvicorn("raw_limit:raw"), folder, _UVICORN_ADDRESS)
            ),
        }
        if peer:
            command = _uvicorn("hand_written:app")
            servers["peer"] = stack.enter_context(started(command, folder, _UVICORN_ADDRESS))
        found = {}
        for load in loads:
            found[str(load)] = _measure(
                load, features[load.model], servers, folder, rounds, seconds
            )
    return found


def _measure(
    load: Load,
    n_features: int,
    servers: dict[str, Server],
    folder: Path,
    rounds: int,
    seconds: float,
) -> dict[str, float]:
    body, headers = request_of(load, n_features)
    path = (
        f"/v2/models/{load.model}/infer" if load.inference else f"/v1/models/{load.model}/predict"
    )
    reply = httpx2.post(servers["service"].url + path, content=body, headers=headers, timeout=60)
    reply.raise_for_status()
    urls = {
        "service": servers["service"].url + path,
        "raw": f"{servers['raw'].url}/{len(reply.content)}",
    }
    if "peer" in servers and load.media_type == "application/json":
        urls["peer"] = f"{servers['peer'].url}/predict/{load.model}"
        httpx2.post(urls["peer"], content=body, headers=headers, timeout=60).raise_for_status()
    script = wrk_script(folder, body, headers, load.differing)
    rates: dict[str, list[float]] = {name: [] for name in urls}
    costs: dict[str, list[float]] = {name: [] for name in urls}
    for round_number in range(rounds + 1):
        for name, url in urls.items():
            before = servers[name].cpu_s()
            rate, count = wrk(url, script, load.connections, seconds if round_number else 1)
            if round_number:
                rates[name].append(rate)
                costs[name].append((servers[name].cpu_s() - before) / count * 1e6)
    figures = {f"{name}/s": statistics.median(values) for name, values in rates.items()}
    figures |= {f"{name} µs": statistics.median(values) for name, values in costs.items()}
    for other in ("raw", "peer"):
        if other in urls:
            ratios = [a / b for a, b in zip(rates["service"], rates[other], strict=True)]
            figures[f"of {other}"] = statistics.median(ratios)
            ratios = [b / a for a, b in zip(costs["service"], costs[other], strict=True)]
            figures[f"of {other} by µs"] = statistics.median(ratios)
    shown = "  ".join(f"{name} {figure:,.2f}" for name, figure in figures.items())
    print(f"{load!s:>46}: {shown}", flush=True)
    return figures


def request_of(load: Load, n_features: int) -> tuple[bytes, dict[str, str]]:
    X = np.random.default_rng(1).normal(size=(load.rows, n_features))
    headers = {"Content-Type": load.media_type}
    if load.media_type == "application/json":
        return json.dumps({"instances": X.tolist()}).encode(), headers
    if load.media_type == "text/csv":
        return "".join(",".join(map(repr, row)) + "\n" for row in X.tolist()).encode(), headers
    if load.inference:
        tensor = {
            "name": "x",
            "shape": list(X.shape),
            "datatype": "FP64",
            "parameters": {"binary_data_size": X.nbytes},
        }
        outputs = [{"name": "label", "parameters": {"binary_data": True}}]
        head = json.dumps({"inputs": [tensor], "outputs": outputs}).encode()
        headers["Inference-Header-Content-Length"] = str(len(head))
        return head + X.tobytes(), headers
    file = io.BytesIO()
    np.save(file, X)
    return file.getvalue(), headers


def wrk_script(folder: Path, body: bytes, headers: dict[str, str], differing: bool = False) -> Path:
    (folder / "body").write_bytes(body)
    script = folder / "load.lua"
    lines = [
        'wrk.method = "POST"',
        f'wrk.body = io.open("{folder / "body"}", "rb"):read("*a")',
        *(f'wrk.headers["{name}"] = "{value}"' for name, value in headers.items()),
    ]
    script.write_text("\n".join(lines) + (_DIFFERING if differing else ""))
    return script


_DIFFERING = """
local requests, n = {}, 0
function init(_)
  for i = 1, 1000 do
    local headers = {}
    for name, value in pairs(wrk.headers) do headers[name] = value end
    headers["traceparent"] = string.format("00-%032x-%016x-01", i * 7919, i * 104729)
    headers["X-Request-Id"] = string.format("request-%d", i)
    requests[i] = wrk.format("POST", nil, headers)
  end
end
function request()
  n = n % #requests + 1
  return requests[n]
end
"""
"""Made before the first one is sent, so that the load costs wrk no more."""


def wrk(url: str, script: Path, connections: int, seconds: float) -> tuple[float, int]:
    """Answered requests per second, and their number."""
    command = [
        "taskset",
        "-c",
        "1",
        "wrk",
        "-t1",
        f"-c{connections}",
        f"-d{max(1, round(seconds))}",
    ]
    done = subprocess.run(
        [*command, "-s", script, url], capture_output=True, text=True, check=True, timeout=120
    )
    if "Non-2xx" in done.stdout:
        raise RuntimeError(done.stdout)
    found = re.search(r"Requests/sec:\s+([0-9.]+)", done.stdout)
    count = re.search(r"(\d+) requests in", done.stdout)
    assert found is not None, done.stdout
    assert count is not None, done.stdout
    return float(found[1]), int(count[1])


ADDRESS = re.compile(r"at (http://\S+:\d+),")
_UVICORN_ADDRESS = re.compile(r"running on (http://\S+:\d+)")


def _uvicorn(app: str) -> list[str | Path]:
    options = ["--port", "0", "--no-access-log", "--loop", "uvloop", "--http", "httptools"]
    return [BIN / "uvicorn", f"benchmarks.{app}", *options]


@dataclass(frozen=True)
class Server:
    url: str
    process: psutil.Process

    def cpu_s(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)


@contextmanager
def started(
    command: list[str | Path], folder: Path, address: re.Pattern[str], **variables: str
) -> Iterator[Server]:
    """A server on core 0."""
    environment = {
        **os.environ,
        **variables,
        "SVM_DATA_DIR": str(folder / "var"),
        "SVM_WORKERS": "0",
        "PEER_MODELS": str(folder),
        "OPENBLAS_NUM_THREADS": "1",
    }
    with tempfile.NamedTemporaryFile(dir=folder) as said:
        process = subprocess.Popen(
            ["taskset", "-c", "0", *command], env=environment, stdout=said, stderr=said
        )
        try:
            url = _address(process, Path(said.name), address)
            yield Server(url, psutil.Process(process.pid))
        finally:
            process.terminate()
            process.wait(40)


def _address(process: subprocess.Popen[bytes], said: Path, pattern: re.Pattern[str]) -> str:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        if found := pattern.search(said.read_text()):
            return found[1]
        time.sleep(0.05)
    raise RuntimeError(f"no server: {said.read_text()}")


def keep_models(folder: Path, peer: bool, database_url: str | None = None) -> dict[str, int]:
    """Put models where the service finds them, and like ones for the peer; their features."""
    settings = Settings(data_dir=folder / "var")
    if database_url is not None:
        settings = settings.model_copy(update={"database_url": database_url})
    settings.data_dir.mkdir()
    database, blobs = Database(settings.database_url), open_blobs(settings)
    database.migrate()
    registry = ModelRegistry(database, blobs)
    random = np.random.default_rng(0)
    features = {"linear64": 64, "linear256": 256, "gaussian64": 64}
    for name, d in features.items():
        fitted = fitted_linear(d) if name.startswith("linear") else fitted_gaussian(d)
        prepared = registry.files.prepare(fitted, None)
        with database.write() as connection:
            registry.register(
                connection,
                prepared,
                model_name=name,
                job_id="job_0",
                dataset=_Nowhere(),
                spec={},
                seed=0,
                result={},
            )
        if peer:
            if name.startswith("linear"):
                X = random.normal(size=(500, d))
                model = LinearSVC().fit(X, np.where(X[:, 0] > 0, "yes", "no"))
            else:  # noise, of which every row becomes a support vector
                X = random.normal(size=(VECTORS, d))
                model = SVC(gamma=1 / d).fit(X, random.choice(["no", "yes"], size=VECTORS))
            joblib.dump(model, folder / f"{name}.joblib")
    database.close()
    return features


@dataclass(frozen=True)
class _Nowhere:
    id: str = "ds_0"
    matrix_digest: str = "0"


def fitted_linear(d: int) -> FittedPipeline:
    random = np.random.default_rng(d)
    scaling = Scaling("standardize", random.normal(size=d), random.uniform(0.5, 2, d))
    return FittedPipeline(
        classes=np.array(["no", "yes"]),
        scaling=scaling,
        features=FeatureMap(Identity(), d),
        coefficients=random.normal(size=(1, d)),
        intercepts=np.zeros(1),
    )


def fitted_gaussian(d: int) -> FittedPipeline:
    random = np.random.default_rng(d)
    return FittedPipeline(
        classes=np.array(["no", "yes"]),
        scaling=Scaling(),
        features=FeatureMap(Identity(), d),
        kernel=GaussianKernel(gamma=1 / d),
        support_vectors=random.normal(size=(VECTORS, d)),
        coefficients=random.normal(size=(1, VECTORS)),
        intercepts=np.zeros(1),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--only", default="", help="loads whose description holds this")
    parser.add_argument("--no-peer", action="store_true")
    chosen = parser.parse_args()
    main(
        [load for load in LOADS if chosen.only in str(load)],
        chosen.rounds,
        chosen.seconds,
        not chosen.no_peer,
    )
