"""The servers that are compared, each on core 0: ours, the least that others can do, and peers.

The limits answer with a constant reply of the same size. Peers answer with scikit-learn's model.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx2
import psutil

from benchmarks.serving.loads import CHUNKED, CLOSE, Load

BIN = Path(sys.executable).parent
HERE = Path(__file__).parent


@dataclass(frozen=True)
class Server:
    url: str
    process: psutil.Process

    def cpu_s(self) -> float:
        """Of the process and those that it started."""
        times = [each.cpu_times() for each in (self.process, *self.process.children(True))]
        return float(sum(each.user + each.system for each in times))


@dataclass(frozen=True)
class Rival:
    """Another server."""

    name: str
    command: Callable[[Path, int], list[str]]
    """Of the folder of models and a port."""
    path: Callable[[Load, int], str | None]
    """Of a load and the size of its reply in bytes; None if it is not asked."""
    needs: Path
    """A program: without it the server is left out."""


def _constant(load: Load, reply_bytes: int) -> str:
    return f"/{reply_bytes}{load.query}"


def _kept(load: Load, reply_bytes: int) -> str | None:
    """Of a server that reads a length, and never closes."""
    return None if load.sent in (CHUNKED, CLOSE) else _constant(load, reply_bytes)


def _any_lists(load: Load, _: int) -> str | None:
    return f"/predict/{load.model}" if load.is_plain else None


def _lists(load: Load, _: int) -> str | None:
    return "/predict" if load.is_plain and load.model == "linear64" else None


def _v2(load: Load, _: int) -> str | None:
    return load.path if load.form == "V2 JSON" else None


def _uvicorn(app: str) -> Callable[[Path, int], list[str]]:
    options = ["--no-access-log", "--loop", "uvloop", "--http", "httptools"]
    program, module = str(BIN / "uvicorn"), f"benchmarks.serving.{app}"
    return lambda _, port: [program, module, *options, "--port", str(port)]


def rivals(peers: Path | None) -> Sequence[Rival]:
    """Those that can run here. `peers` has virtual environments named `granian`, `litserve`,
    `bentoml` and `mlserver`, as far as these are wanted."""
    known = [
        Rival("uvicorn", _uvicorn("constant_asgi:constant"), _constant, BIN / "uvicorn"),
        Rival("C", _compiled, _kept, Path(shutil.which("cc") or "cc")),
        Rival("hand-written", _uvicorn("hand_written:app"), _any_lists, BIN / "uvicorn"),
    ]
    if peers is not None:
        known += [
            Rival("Granian", _granian(peers), _constant, peers / "granian/bin/granian"),
            Rival("LitServe", _litserve(peers), _lists, peers / "litserve/bin/litserve"),
            Rival("BentoML", _bentoml(peers), _lists, peers / "bentoml/bin/bentoml"),
            Rival("MLServer", _mlserver(peers), _v2, peers / "mlserver/bin/mlserver"),
        ]
    return [rival for rival in known if rival.needs.exists()]


def _compiled(folder: Path, port: int) -> list[str]:
    program = folder / "constant"
    source = HERE / "constant.c"
    subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-o", program, source], check=True)
    return [str(program), str(port)]


def _granian(peers: Path) -> Callable[[Path, int], list[str]]:
    options = ["--interface", "rsgi", "--loop", "uvloop", "--no-access-log", "--host", "127.0.0.1"]
    app = "benchmarks.serving.constant_rsgi:constant"
    program = str(peers / "granian/bin/granian")
    return lambda _, port: [program, *options, "--port", str(port), app]


def _litserve(peers: Path) -> Callable[[Path, int], list[str]]:
    program, script = str(peers / "litserve/bin/python"), str(HERE / "litserve_peer.py")
    return lambda _, port: [program, script, str(port)]


def _bentoml(peers: Path) -> Callable[[Path, int], list[str]]:
    options = ["--host", "127.0.0.1", "--working-dir", str(HERE), "bentoml_peer:Peer"]
    program = str(peers / "bentoml/bin/bentoml")
    return lambda _, port: [program, "serve", "--port", str(port), *options]


def _mlserver(peers: Path) -> Callable[[Path, int], list[str]]:
    def command(folder: Path, port: int) -> list[str]:
        store = folder / "mlserver"
        for name in ("linear64", "linear256", "classes10"):
            (store / name).mkdir(parents=True)
            settings = {
                "name": name,
                "implementation": "mlserver_sklearn.SKLearnModel",
                "parameters": {"uri": str(folder / f"{name}.joblib")},
            }
            (store / name / "model-settings.json").write_text(json.dumps(settings))
        server: dict[str, object] = {"host": "127.0.0.1", "parallel_workers": 0, "debug": False}
        server |= {"http_port": port, "grpc_port": free_port(), "metrics_port": free_port()}
        (store / "settings.json").write_text(json.dumps(server))
        return [str(peers / "mlserver/bin/mlserver"), "start", str(store)]

    return command


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def service(folder: Path, **variables: str) -> AbstractContextManager[Server]:
    """Ours, without workers, on the models that `keep_models` put there."""
    port = free_port()
    command = [str(BIN / "svm-service"), "serve", "--port", str(port)]
    return started(command, folder, port, **variables)


@contextmanager
def started(command: Sequence[str], folder: Path, port: int, **variables: str) -> Iterator[Server]:
    """A server on core 0, once it answers."""
    environment = {
        **os.environ,
        **variables,
        "SVM_DATA_DIR": str(folder / "var"),
        "SVM_WORKERS": "0",
        "PEER_MODELS": str(folder),
        "OPENBLAS_NUM_THREADS": "1",
    }
    with tempfile.TemporaryFile(dir=folder) as said:
        process = subprocess.Popen(
            ["taskset", "-c", "0", *command], env=environment, stdout=said, stderr=said
        )
        try:
            url = f"http://127.0.0.1:{port}"
            if not _answers(process, url):
                said.seek(0)
                raise RuntimeError(f"no server: {said.read().decode()}")
            yield Server(url, psutil.Process(process.pid))
        finally:
            own = psutil.Process(process.pid).children(recursive=True)
            process.terminate()
            process.wait(40)
            for child in own:  # LitServe leaves some
                with suppress(psutil.NoSuchProcess):
                    child.kill()


def _answers(process: subprocess.Popen[bytes], url: str, within_s: float = 60.0) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline and process.poll() is None:
        try:
            httpx2.get(f"{url}/1", timeout=10)
        except httpx2.TransportError:
            time.sleep(0.05)
        else:
            return True
    return False


def wrk(url: str, script: Path, connections: int, seconds: float) -> tuple[float, int]:
    """Answered requests per second, and their number, sent from core 1."""
    options = ["-t1", f"-c{connections}", f"-d{max(1, round(seconds))}", "-s", str(script)]
    done = subprocess.run(
        ["taskset", "-c", "1", "wrk", *options, url],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    if "Non-2xx" in done.stdout:
        raise RuntimeError(done.stdout)
    rate = re.search(r"Requests/sec:\s+([0-9.]+)", done.stdout)
    count = re.search(r"(\d+) requests in", done.stdout)
    assert rate is not None, done.stdout
    assert count is not None, done.stdout
    return float(rate[1]), int(count[1])
