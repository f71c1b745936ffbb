"""A comparison whose worker is killed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.server import Server, ok, running
from tests.torture.specs import rows

SEARCH: dict[str, Any] = {
    "specs": [
        {"solver": {"name": "smo", "C": 1.0}},
        {"solver": {"name": "smo", "C": 10.0}},
        {"solver": {"name": "dual-coordinate-descent", "C": 1.0}},
        {
            "solver": {"name": "pegasos", "lambda": 1e-3},
            "stopping": {"max_epochs": 800, "duality_gap": 1e-12},  # some seconds, to the end
        },
    ],
    "scaling": "standardize",
    "seed": 1,
    "model_name": "best",
}
CLOCK = {"elapsed_s", "cpu_s", "trace"}


@pytest.mark.torture
def test_comparison_is_the_same_after_a_killed_worker(tmp_path: Path) -> None:
    """SIGKILL while the last entry is trained: another worker resumes from the checkpoint, and
    entries, ranks and model are those of an undisturbed comparison."""
    with running(tmp_path / "var", SVM_CHECKPOINT_S="0.2", SVM_LEASE_S="2") as server:
        body = {"dataset_id": server.upload(rows())["id"], **SEARCH}
        job = ok(server.http.post("/v1/comparisons", json=body), 202)
        while ok(server.http.get(f"/v1/jobs/{job['id']}"), 200)["progress"]["fraction"] < 0.8:
            time.sleep(0.05)
        _kill_workers(server)
        disturbed = _compared(server, job)
        undisturbed = _compared(server, ok(server.http.post("/v1/comparisons", json=body), 202))
        assert (disturbed["attempt"], undisturbed["attempt"]) == (2, 1)
        assert _without_times(disturbed) == _without_times(undisturbed)
        versions = ok(server.http.get("/v1/models/best/versions"), 200)["versions"]
        assert len(versions) == 2
        assert len({version["digest"] for version in versions}) == 1


def _kill_workers(server: Server) -> None:
    for process in server.processes():
        if any("spawn_main" in word for word in process.cmdline()):
            process.kill()


def _compared(server: Server, job: dict[str, Any]) -> dict[str, Any]:
    """The comparison after its success."""
    ended = server.finished(job)
    assert ended["state"] == "succeeded", ended
    return ok(server.http.get(f"/v1/comparisons/{job['id']}"), 200)


def _without_times(comparison: dict[str, Any]) -> list[dict[str, Any]]:
    """Its entries without durations."""
    return [
        {name: value for name, value in entry.items() if name not in CLOCK}
        for entry in comparison["entries"]
    ]
