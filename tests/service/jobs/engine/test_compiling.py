"""Loops are compiled at installation, or by the first job, which reports it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.storage.machine_code import keep_machine_code
from tests.journeys.server import ok, running
from tests.service.jobs.data import csv_of


def first_job(user: Path, data_dir: Path) -> list[dict[str, Any]]:
    """The progress events of the first training of a service of a user with this cache."""
    own_loops = {"NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": str(user)}
    with running(data_dir, SVM_WORKERS="1", **own_loops) as server:
        dataset_id = server.upload(csv_of(n_classes=3).encode())["id"]
        job = server.trained(dataset_id, "first", solver={"name": "auto"})
        assert job["progress"]["phase"] is None
        path = f"/v1/jobs/{job['id']}/events"
        page = ok(server.http.get(path, headers={"Accept": "application/json"}), 200)
    return [event["data"] for event in page["events"] if event["event"] == "progress"]


@pytest.mark.long
def test_first_job_says_that_it_compiles(tmp_path: Path) -> None:
    """Without the step of the installation; the log says it, too."""
    shown = first_job(tmp_path, tmp_path / "var")
    assert any(progress["phase"] == "compiling" for progress in shown)
    assert "compiling loops for this machine, once" in (tmp_path / "var.log").read_text()


@pytest.mark.long
def test_after_the_installation_the_first_job_does_not_compile(tmp_path: Path) -> None:
    """What `make run` does: for every data directory of the user."""
    own_loops = {"NUMBA_CACHE_DIR": "", "XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run(
        [sys.executable, "-m", "service.jobs.engine.compiling"],
        env={**os.environ, **own_loops, "SVM_DATA_DIR": str(tmp_path / "var")},
        check=True,
    )
    assert not (tmp_path / "var").exists()
    shown = first_job(tmp_path, tmp_path / "other")
    assert not any(progress["phase"] == "compiling" for progress in shown)


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "HOME"])
def test_machine_code_is_in_the_data_directory_without_a_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str
) -> None:
    """Such as on a read-only file system; a folder that is there for the user is used first."""
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "")
    cache = tmp_path / "cache"
    cache.mkdir()
    for place in (cache, Path("/proc/nope")):
        monkeypatch.setenv(variable, str(place))
        monkeypatch.setenv("NUMBA_CACHE_DIR", "")
        keep_machine_code(tmp_path / "var")
        inside = cache if place == cache else tmp_path / "var" / "numba"
        assert inside in Path(os.environ["NUMBA_CACHE_DIR"]).parents


def test_plans_and_readiness_say_that_loops_are_being_compiled(client: TestClient) -> None:
    """As long as a process does it."""
    csv = {"Content-Type": "text/csv"}
    client.post("/v1/datasets", content=csv_of(n_classes=2), headers=csv)
    job = {"dataset_id": "latest", "model_name": "m", "solver": {"name": "auto"}}

    def compiling() -> list[bool]:
        plan = client.post("/v1/jobs?validate_only=true", json=job).json()
        return [plan["compiling"], client.get("/readyz").json()["compiling"]]

    with Path(os.environ["NUMBA_CACHE_DIR"], "lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert compiling() == [True, True]
        page = client.post("/train/check", data={"dataset_id": "latest", "model_name": "m"})
        assert "Loops are being compiled for this machine" in page.text
