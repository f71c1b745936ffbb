"""Jobs whose parts other workers do, while workers are killed."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from service.jobs.engine.worker_process import NICENESS
from tests.journeys.server import Server, ok, running
from tests.seeds import seed_from
from tests.torture.specs import rows
from tests.waiting import until

JOBS = int(os.environ.get("TORTURE_JOBS", "200"))
SETTINGS = {"SVM_WORKERS": "3", "SVM_CHECKPOINT_S": "0.2", "SVM_LEASE_S": "2"}
TO_THE_END: dict[str, Any] = {"duality_gap": 1e-12}
PEGASOS: dict[str, Any] = {"solver": {"name": "pegasos", "lambda": 1e-3}}
SEARCH: dict[str, Any] = {
    "specs": [
        {"solver": {"name": "smo", "C": 1.0}},
        {"solver": {"name": "smo", "C": 10.0}},
        {"solver": {"name": "dual-coordinate-descent", "C": 1.0}},
        {**PEGASOS, "stopping": {"max_epochs": 800, **TO_THE_END}},
        {**PEGASOS, "scaling": "max-abs", "stopping": {"max_epochs": 800, **TO_THE_END}},
    ],
    "scaling": "standardize",
}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "chains": ("comparisons", {**SEARCH, "validation": {"fraction": 0.2}}),
    "chains-of-folds": ("comparisons", {**SEARCH, "validation": {"folds": 2}}),
    "folds": (
        "jobs",
        {**PEGASOS, "stopping": {"max_epochs": 800, **TO_THE_END}, "validation": {"folds": 3}},
    ),
    "pairs": ("jobs", {**PEGASOS, "stopping": {"max_epochs": 3000, **TO_THE_END}}),
}
CLOCK = {"elapsed_s", "cpu_s", "trace"}


@pytest.mark.torture
def test_kills_of_workers_of_a_job_with_parts(tmp_path: Path) -> None:
    """One job of each kind, with a kill in each."""
    print(torture(tmp_path, len(KINDS)))


@pytest.mark.torture
@pytest.mark.timeout(7200)
def test_kills_of_workers_of_many_jobs_with_parts(tmp_path: Path) -> None:
    print(torture(tmp_path, JOBS))


def torture(folder: Path, count: int) -> str:
    """Run this many jobs, of each kind in turn, with a SIGKILL of a random worker in each; every
    job has the results of an undisturbed one, and nothing of its parts is left."""
    chance = random.Random(seed_from("TORTURE_SEED"))
    kills = attempts = lent = 0
    with running(folder / "var", **SETTINGS) as server:
        dataset_id = server.upload(rows())["id"]
        expected = {kind: _results(server, _queued(server, kind, dataset_id)) for kind in KINDS}
        jobs = []
        for kind in (list(KINDS) * count)[:count]:
            job = _queued(server, kind, dataset_id)
            jobs.append((kind, job))
            now = _job(server, job)
            while not now["progress"]["parts"] and now["state"] in ("queued", "running"):
                time.sleep(0.02)
                now = _job(server, job)
            lent += now["progress"]["parts"]
            time.sleep(chance.uniform(0.0, 1.0))
            workers = _workers(server)
            if workers and _job(server, job)["state"] != "succeeded":
                chance.choice(workers).kill()
                kills += 1
            results = _results(server, job)
            assert results == expected[kind], kind
            attempts += _job(server, job)["attempt"]
        versions = sum(
            len(ok(server.http.get(f"/v1/models/{kind}/versions?page_size=1000"), 200)["versions"])
            for kind in KINDS
        )
        assert versions == count + len(KINDS), "a job is lost, or has two versions"
        checkpoints = folder / "var" / "blobs" / "checkpoints"
        # They are deleted after the transaction that ends the job.
        until(lambda: not any(path.is_file() for path in checkpoints.rglob("*")))
    assert kills > 0
    assert lent > 0
    return f"{count} jobs, {kills} kills, {attempts} attempts, {lent} parts seen"


def _queued(server: Server, kind: str, dataset_id: str) -> dict[str, Any]:
    path, body = KINDS[kind]
    asked = {"dataset_id": dataset_id, "seed": 1, "model_name": kind, **body}
    return ok(server.http.post(f"/v1/{path}", json=asked), 202)


def _job(server: Server, job: dict[str, Any]) -> dict[str, Any]:
    return ok(server.http.get(f"/v1/jobs/{job['id']}"), 200)


def _results(server: Server, job: dict[str, Any]) -> dict[str, Any]:
    """All results of the job, after its success, that depend on no clock."""
    ended = server.finished(job)
    assert ended["state"] == "succeeded", ended
    results = {name: ended[name] for name in ("metrics", "certificate", "epochs", "updates")}
    results["digest"] = server.version(ended)["digest"]
    if ended["kind"] == "compare":
        entries = ok(server.http.get(f"/v1/comparisons/{job['id']}"), 200)["entries"]
        results["entries"] = [{k: v for k, v in e.items() if k not in CLOCK} for e in entries]
    return results


def _workers(server: Server) -> list[psutil.Process]:
    """Those that take jobs: the supervisor and the process that compiles have other priorities."""
    return [process for process in server.processes() if process.nice() == NICENESS]
