"""A stream of jobs over HTTP, and the checks of every job, while processes are killed."""

from __future__ import annotations

import hashlib
import itertools
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.torture.specs import SPECS, rows

FINAL = ("succeeded", "failed", "canceled")
LEGAL = ("queued", "running", *FINAL)
TIMEOUT_S = 300.0


@dataclass
class Stream:
    """Jobs of all solvers in turn; a job is accepted if its reply is 202."""

    urls: list[str]
    names: Sequence[str] = tuple(SPECS)
    """Names of the models, which are trained in turn."""
    seed: int = 0
    """Of the choice between the replicas."""
    dataset_id: str = ""
    digests: dict[str, str] = field(default_factory=dict)
    """Digest of an undisturbed training, by model."""
    durations: dict[str, float] = field(default_factory=dict)
    """Its duration in seconds, by model."""
    accepted: dict[str, str] = field(default_factory=dict)
    """Model by job."""
    done: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    """Replies other than 202, and calls without a reply."""
    attempts: int = 0

    def __post_init__(self) -> None:
        self._cycle = itertools.cycle(self.names)
        self._random = random.Random(self.seed)

    def measure_digests(self) -> None:
        """Upload the data and train each model once, undisturbed."""
        reply = self._call("POST", "/v1/datasets", content=rows(), media_type="text/csv")
        self.dataset_id = reply.json()["id"]
        jobs = {name: self._post(name).json()["id"] for name in self.names}
        for name, job_id in jobs.items():
            job = self.finished(job_id)
            assert (job["state"], job["attempt"]) == ("succeeded", 1), job
            self.digests[name] = self._version(job)["digest"]
            self.durations[name] = job["elapsed_s"]
            print(name, job["elapsed_s"], job["epochs"], job["stop_reason"])

    def offer(self, name: str | None = None) -> str | None:
        """Submit a job, and record it if it is accepted."""
        name = name or next(self._cycle)
        try:
            reply = self._post(name)
        except httpx2.HTTPError as error:
            self.refused.append(type(error).__name__)
            return None
        if reply.status_code != 202:
            self.refused.append(f"{reply.status_code} {reply.text[:200]}")
            return None
        job_id: str = reply.json()["id"]
        self.accepted[job_id] = name
        return job_id

    def outstanding(self) -> list[str]:
        return [job_id for job_id in self.accepted if job_id not in self.done]

    def check(self) -> bool:
        """Check every outstanding job; a finished one must be correct. Returns whether all could be
        read."""
        for job_id in self.outstanding():
            try:
                reply = self._call("GET", f"/v1/jobs/{job_id}")
                if reply.status_code in (500, 502, 503):  # a database that is coming back
                    return False
                assert reply.status_code == 200, f"an accepted job is lost: {reply.text}"
                job = reply.json()
                assert job["state"] in LEGAL, job
                if job["state"] in FINAL:
                    self._check_done(job)
            except httpx2.HTTPError:
                return False
        return True

    def checkpoints(self) -> dict[str, int]:
        """The number of the last checkpoint's event by running job, 0 if its attempt has none.
        Empty if the service does not respond."""
        numbers = {}
        try:
            jobs = self._call("GET", "/v1/jobs?state=running").raise_for_status().json()["jobs"]
            for job in jobs:
                path = f"/v1/jobs/{job['id']}/events?page_size=1000"
                events = self._call("GET", path).raise_for_status().json()["events"]
                saved = [e for e in events if e["event"] == "checkpoint"]
                own = [e["id"] for e in saved if e["data"]["attempt"] == job["attempt"]]
                numbers[job["id"]] = max(own, default=0)
            return numbers
        except httpx2.HTTPError:
            return {}

    def drain(self) -> None:
        """Wait until all jobs are done."""
        deadline = time.monotonic() + TIMEOUT_S
        while self.outstanding():
            assert time.monotonic() < deadline, f"still not done: {self.outstanding()}"
            self.check()
            time.sleep(0.2)

    def check_all_versions(self) -> None:
        """Every model version is of one job, and has the bits of an undisturbed training."""
        jobs: list[str] = []
        for name, digest in self.digests.items():
            path = f"/v1/models/{name}/versions?page_size=1000"
            token: str | None = ""
            while token is not None:
                at = f"&page_token={token}" if token else ""
                page = self._call("GET", path + at).raise_for_status().json()
                for version in page["versions"]:
                    jobs.append(version["job_id"])
                    assert version["digest"] == digest, version
                    self._check_artifact(version)
                token = page["next_page_token"]
        assert len(jobs) == len(set(jobs)), "a job has two versions"
        assert set(self.accepted) <= set(jobs), "an accepted job has no version"

    def job(self, job_id: str, wait_s: float = 0.0) -> dict[str, Any]:
        """The job, now or after its end, at most `wait_s` later."""
        path = f"/v1/jobs/{job_id}" + (f"?wait_s={wait_s}" if wait_s else "")
        job: dict[str, Any] = self._call("GET", path).json()
        return job

    def finished(self, job_id: str) -> dict[str, Any]:
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            job = self.job(job_id, wait_s=10)
            if job["state"] in FINAL:
                return job
        raise AssertionError(f"the job did not end: {job}")

    def _check_done(self, job: dict[str, Any]) -> None:
        name = self.accepted[job["id"]]
        assert job["state"] == "succeeded", job
        version = self._version(job)
        assert version["job_id"] == job["id"]
        assert version["digest"] == self.digests[name], (job, version)
        self._check_artifact(version)
        self.attempts += job["attempt"]
        self.done.add(job["id"])

    def _check_artifact(self, version: dict[str, Any]) -> None:
        path = f"/v1/models/{version['name']}/versions/{version['version']}/artifact"
        content = self._call("GET", path).raise_for_status().content
        assert hashlib.sha256(content).hexdigest() == version["artifact_sha256"]

    def _version(self, job: dict[str, Any]) -> dict[str, Any]:
        model = job["model"]
        reply = self._call("GET", f"/v1/models/{model['name']}/versions/{model['version']}")
        version: dict[str, Any] = reply.raise_for_status().json()
        return version

    def _post(self, name: str) -> httpx2.Response:
        body = {"dataset_id": self.dataset_id, "model_name": name, "seed": 1, **SPECS[name]}
        return self._call("POST", "/v1/jobs", json=body)

    def _call(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        content: bytes | None = None,
        media_type: str = "application/json",
    ) -> httpx2.Response:
        """Call one of the replicas."""
        url = self._random.choice(self.urls) + path
        headers = {"Accept": "application/json"}
        if content is not None:
            headers["Content-Type"] = media_type
        return httpx2.request(method, url, json=json, content=content, headers=headers, timeout=30)
