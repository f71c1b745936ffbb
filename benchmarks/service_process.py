"""The service as a process of its own, for the measurements that go over HTTP."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2


@dataclass(frozen=True)
class Service:
    """A running service."""

    http: httpx2.Client
    pid: int
    ready_s: float
    """From the start of the process to the first ready answer."""

    def upload(self, content: bytes, media_type: str = "text/csv", **query: Any) -> dict[str, Any]:
        """The dataset; `labels=` is the content of a second file."""
        labels = query.pop("labels", None)
        if labels is None:
            headers = {"Content-Type": media_type}
            reply = self.http.post("/v1/datasets", params=query, content=content, headers=headers)
        else:
            files = {"file": ("x", content, media_type), "labels": ("y", labels, media_type)}
            reply = self.http.post("/v1/datasets", data=query, files=files)
        return _content(reply)

    def train(self, dataset: dict[str, Any], specs: list[dict[str, Any]]) -> list[str]:
        """The ids of the jobs of these specs, queued together."""
        jobs = []
        for spec in specs:
            body = {"dataset_id": dataset["id"], "model_name": "benchmark", **spec}
            jobs.append(_content(self.http.post("/v1/jobs", json=body))["id"])
        return jobs

    def finished(self, job_ids: list[str]) -> list[dict[str, Any]]:
        """The jobs once all have succeeded; RuntimeError where one has not."""
        return [self._finished(job_id) for job_id in job_ids]

    def delete(self, dataset: dict[str, Any]) -> None:
        _content(self.http.delete(f"/v1/datasets/{dataset['id']}"))

    def predict(self, job: dict[str, Any], rows: list[list[float]]) -> list[Any]:
        """Labels by the model that a job made."""
        path = f"/v1/models/benchmark/versions/{job['model']['version']}/predict"
        labels: list[Any] = _content(self.http.post(path, json={"instances": rows}))["label"]
        return labels

    def _finished(self, job_id: str) -> dict[str, Any]:
        while True:
            job = _content(self.http.get(f"/v1/jobs/{job_id}", params={"wait_s": 30}))
            if job["state"] == "succeeded":
                return job
            if job["state"] in ("failed", "canceled"):
                raise RuntimeError(f"job {job_id} {job['state']}: {job['error']}")


def _content(reply: httpx2.Response) -> dict[str, Any]:
    """The JSON of a good reply. Raises RuntimeError with the whole problem otherwise."""
    if reply.is_error:
        raise RuntimeError(f"{reply.status_code} from {reply.url}: {reply.text}")
    content: dict[str, Any] = reply.json() if reply.content else {}
    return content


@contextmanager
def running(**environment: str) -> Iterator[Service]:
    """The service on a free port, with an empty data directory unless the settings name one."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        process = subprocess.Popen(
            [Path(sys.executable).parent / "svm-service", "serve", "--port", "0"],
            env={**os.environ, "SVM_DATA_DIR": f"{folder}/var", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert process.stdout is not None
            select.select([process.stdout], [], [], 30)
            url = process.stdout.readline().split(" at ")[1].split(",")[0]
            with httpx2.Client(base_url=url, timeout=300) as client:
                while client.get("/readyz").status_code != 200:
                    time.sleep(0.005)
                yield Service(client, process.pid, time.perf_counter() - started)
        finally:
            process.terminate()
            process.communicate(timeout=40)
