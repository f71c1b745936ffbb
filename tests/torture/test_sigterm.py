"""SIGTERM while a job runs: the service shuts down in time, and the next start resumes the job."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.journeys.server import ok, running
from tests.torture.specs import N_FEATURES, rows

LONG: dict[str, Any] = {
    "solver": {"name": "pegasos", "lambda": 1e-3},
    "stopping": {"max_epochs": 6_000, "duality_gap": 1e-12},
    "seed": 1,
}
ENVIRONMENT = {"SVM_WORKERS": "1", "SVM_CHECKPOINT_S": "3600"}


@pytest.mark.torture
@pytest.mark.timeout(300)
def test_sigterm_checkpoints_the_running_job(tmp_path: Path) -> None:
    """Exit code 0 within 30 s, and no process is left. The next start has the same dataset, ended
    job and model, and resumes the running job, without a lost worker; its model has the same bits
    as that of an undisturbed training."""
    data_dir = tmp_path / "var"
    ask = {"instances": [[0.5] * N_FEATURES], "outputs": ["label", "decision"]}
    with running(data_dir, **ENVIRONMENT) as server:
        dataset = server.upload(rows())
        undisturbed = server.trained(dataset["id"], "undisturbed", **LONG)
        answer = ok(server.http.post("/v1/models/undisturbed/predict", json=ask), 200)
        job = server.train(dataset["id"], "disturbed", **LONG)
        while (now := server.http.get(f"/v1/jobs/{job['id']}").json())["progress"]["epoch"] < 100:
            assert now["state"] in ("queued", "running"), now
            time.sleep(0.02)
        processes = server.processes()
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 30
        assert psutil.wait_procs(processes[1:], timeout=20)[1] == []
        assert all(line.startswith("{") for line in server.log.read_text().splitlines())
    with running(data_dir, **ENVIRONMENT) as server:
        assert ok(server.http.post("/v1/models/undisturbed/predict", json=ask), 200) == answer
        assert ok(server.http.get(f"/v1/jobs/{undisturbed['id']}"), 200) == undisturbed
        assert ok(server.http.get(f"/v1/datasets/{dataset['id']}"), 200) == dataset
        job = server.finished(job)
        assert (job["state"], job["attempt"]) == ("succeeded", 2)
        assert job["warnings"] == undisturbed["warnings"]
        assert server.version(job)["digest"] == server.version(undisturbed)["digest"]
        events = server.http.get(
            f"/v1/jobs/{job['id']}/events?page_size=1000", headers={"Accept": "application/json"}
        ).json()["events"]
        warned = [event for event in events if event["event"] == "warning"]
        assert len(warned) == len(undisturbed["warnings"])
        attempts = [e["data"]["attempt"] for e in events if e["event"] == "checkpoint"]
        assert attempts == [1]


@pytest.mark.parametrize(
    "wait_s",
    [
        pytest.param(0.5, marks=pytest.mark.long),
        *(pytest.param(n / 2, marks=pytest.mark.torture) for n in [0, *range(2, 21)]),
    ],
)
def test_sigterm_shortly_after_the_start(tmp_path: Path, wait_s: float) -> None:
    """While the workers start: no process is left, and there is no output except log lines (no
    warnings about semaphores, in particular)."""
    with running(tmp_path / "var", SVM_WORKERS="2") as server:
        time.sleep(wait_s)
        processes = server.processes()
        assert server.stop() == 0
        assert psutil.wait_procs(processes[1:], timeout=20)[1] == []
        assert all(line.startswith("{") for line in server.log.read_text().splitlines())
