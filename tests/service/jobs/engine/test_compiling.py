"""Loops are compiled at installation, or by the first job, which reports it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from service.storage.machine_code import machine_code_folder
from tests.journeys.server import ok, running
from tests.service.jobs.data import csv_of


def first_job(data_dir: Path) -> list[dict[str, Any]]:
    """The progress events of the first training of a service with this data directory."""
    own_loops = {"NUMBA_CACHE_DIR": str(machine_code_folder(data_dir))}
    with running(data_dir, SVM_WORKERS="1", **own_loops) as server:
        dataset_id = server.upload(csv_of(n_classes=3).encode())["id"]
        job = server.trained(dataset_id, "first", solver={"name": "auto"})
        assert job["progress"]["compiling"] is False
        path = f"/v1/jobs/{job['id']}/events"
        page = ok(server.http.get(path, headers={"Accept": "application/json"}), 200)
    return [event["data"] for event in page["events"] if event["event"] == "progress"]


@pytest.mark.long
def test_first_job_says_that_it_compiles(tmp_path: Path) -> None:
    """Without the step of the installation."""
    shown = first_job(tmp_path / "var")
    assert any(progress.get("compiling") for progress in shown)


@pytest.mark.long
def test_after_the_installation_the_first_job_does_not_compile(tmp_path: Path) -> None:
    """What `make run` does: into the folder that the service uses."""
    environment = {name: os.environ[name] for name in os.environ if name != "NUMBA_CACHE_DIR"}
    subprocess.run(
        [sys.executable, "-m", "service.jobs.engine.compiling"],
        env={**environment, "SVM_DATA_DIR": str(tmp_path / "var")},
        check=True,
    )
    shown = first_job(tmp_path / "var")
    assert not any(progress.get("compiling") for progress in shown)
