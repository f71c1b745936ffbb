"""SIGTERM while a job runs: the service ends by itself, in time, and the job goes on afterwards."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from tests.journeys.server import running
from tests.torture.specs import rows

LONG = {
    "solver": {"name": "pegasos", "lambda": 1e-3},
    "stopping": {"max_epochs": 1500, "duality_gap": 1e-12},
    "seed": 1,
}


@pytest.mark.timeout(300)
def test_sigterm_saves_the_running_job(tmp_path: Path, compiled: None) -> None:
    """Exit code 0 within 30 s, no process left; the next start goes on where the job was, without
    a lost worker, to the bits of an undisturbed training."""
    data_dir = tmp_path / "var"
    with running(data_dir, SVM_CHECKPOINT_S="3600") as server:
        dataset_id = server.upload(rows())["id"]
        job = server.train(dataset_id, "disturbed", **LONG)
        while (now := server.http.get(f"/v1/jobs/{job['id']}").json())["progress"]["epoch"] < 100:
            assert now["state"] in ("queued", "running"), now
            time.sleep(0.02)
        processes = server.processes()
        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < 30
        assert psutil.wait_procs(processes[1:], timeout=5)[1] == []
    with running(data_dir, SVM_CHECKPOINT_S="3600") as server:
        job = server.finished(job)
        undisturbed = server.trained(dataset_id, "undisturbed", **LONG)
        assert (job["state"], job["attempt"], job["warnings"]) == ("succeeded", 2, [])
        assert server.version(job)["digest"] == server.version(undisturbed)["digest"]
        events = server.http.get(
            f"/v1/jobs/{job['id']}/events?page_size=1000", headers={"Accept": "application/json"}
        ).json()["events"]
        assert "warning" not in {event["event"] for event in events}
        attempts = [e["data"]["attempt"] for e in events if e["event"] == "checkpoint"]
        assert attempts == [1]
