"""The real service in its own process, used over HTTP."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil

from tests.started import COMMAND, Started
from tests.waiting import until


class Server:
    """A running service and a client for it."""

    def __init__(self, process: subprocess.Popen[str], url: str, data_dir: Path, log: Path) -> None:
        self.process = process
        self.data_dir = data_dir
        self.log = log
        """JSON lines of all its processes."""
        self.url = url
        self.http = httpx2.Client(base_url=url, timeout=120)

    def upload(
        self,
        data: bytes | Path,
        media_type: str = "text/csv",
        labels: bytes | Path | None = None,
        **query: Any,
    ) -> dict[str, Any]:
        """Upload a dataset; returns it."""
        content = data.read_bytes() if isinstance(data, Path) else data
        if labels is None:
            reply = self.http.post(
                "/v1/datasets", params=query, content=content, headers={"Content-Type": media_type}
            )
        else:
            part = labels.read_bytes() if isinstance(labels, Path) else labels
            files = {
                "file": ("data", content, media_type),
                "labels": ("labels", part, media_type),
            }
            reply = self.http.post("/v1/datasets", data=query, files=files)
        return ok(reply, 201, 200)

    def train(self, dataset_id: str, model_name: str, **spec: Any) -> dict[str, Any]:
        """Queue a training; returns the job."""
        body = {"dataset_id": dataset_id, "model_name": model_name, "seed": 1, **spec}
        return ok(self.http.post("/v1/jobs", json=body), 202)

    def finished(self, job: dict[str, Any], timeout_s: float = 110) -> dict[str, Any]:
        """Wait until the job has ended."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            job = ok(self.http.get(f"/v1/jobs/{job['id']}", params={"wait_s": 10}), 200)
            if job["state"] in ("succeeded", "failed", "canceled"):
                return job
        raise AssertionError(f"the job did not end: {job}")

    def trained(self, dataset_id: str, model_name: str, **spec: Any) -> dict[str, Any]:
        """Train until the job has succeeded."""
        job = self.finished(self.train(dataset_id, model_name, **spec))
        assert job["state"] == "succeeded", job
        return job

    def version(self, job: dict[str, Any]) -> dict[str, Any]:
        """The model version of a job."""
        model = job["model"]
        return ok(self.http.get(f"/v1/models/{model['name']}/versions/{model['version']}"), 200)

    def processes(self) -> list[psutil.Process]:
        """The service's process and all its descendants."""
        parent = psutil.Process(self.process.pid)
        return [parent, *parent.children(recursive=True)]

    def stop(self) -> int:
        """Send SIGTERM; returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(40)


def ok(reply: httpx2.Response, *expected: int) -> dict[str, Any]:
    """The JSON of a reply with an expected status."""
    assert reply.status_code in expected, f"{reply.status_code}: {reply.text[:2000]}"
    body: dict[str, Any] = reply.json()
    return body


@contextmanager
def running(data_dir: Path, start_by: Sequence[str] = (), **environment: str) -> Iterator[Server]:
    """The service on a free port with its data in `data_dir`, until the end of the block.
    `start_by`: a command that becomes the service, such as `prlimit`."""
    log_path = data_dir.parent / f"{data_dir.name}.log"
    log = log_path.open("ab")
    variables = {
        **os.environ,
        "PYTHONFAULTHANDLER": "1",  # a crash says where
        "SVM_DATA_DIR": str(data_dir),
        **environment,
    }
    command = ["serve", "--port", "0"]
    process = (
        subprocess.Popen(
            [*start_by, COMMAND, *command],
            env=variables,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        if start_by
        else Started(command, env=variables, stdout=subprocess.PIPE, stderr=log)
    )
    log.close()
    children: list[psutil.Process] = []
    server: Server | None = None
    try:
        server = Server(process, _address(process), data_dir, log_path)
        until(lambda: server.http.get("/readyz").status_code == 200)
        yield server
        children = server.processes()[1:] if process.poll() is None else []
    finally:
        if process.poll() is not None:
            print(f"the service had ended with {process.returncode}")
        if server is not None:
            server.http.close()
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        assert process.stdout is not None
        process.stdout.close()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive, f"processes outlived the service: {alive}"


def _address(process: subprocess.Popen[str], timeout_s: float = 60) -> str:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], timeout_s)
    line = process.stdout.readline() if readable else ""
    match = re.search(r"http://\S+:\d+", line)
    assert match, f"the service did not print its address: {line!r}"
    return match.group()
