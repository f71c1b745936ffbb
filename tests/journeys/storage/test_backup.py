"""A backup of a running service, restored elsewhere, equal to the bit."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.client import Client, Job
from tests import started
from tests.journeys.server import running

LONG: dict[str, Any] = {
    "solver": {"name": "pegasos", "lambda": 1e-3},
    "stopping": {"max_epochs": 8_000, "duality_gap": 1e-12},
    "seed": 1,
}
"""Ends within seconds, to the same bits each time."""
ENDLESS: dict[str, Any] = {**LONG, "stopping": {"max_epochs": 10**9, "duality_gap": 1e-12}}
OFTEN = {"SVM_WORKERS": "1", "SVM_CHECKPOINT_S": "0.1"}


def _command(data_dir: Path, *arguments: str) -> str:
    """Run `svm-service`; returns its output."""
    done = started.run([*arguments], env={**os.environ, "SVM_DATA_DIR": str(data_dir)})
    assert done.returncode == 0, done.stderr
    return done.stdout


def _contents(client: Client, X: np.ndarray[Any, Any]) -> dict[str, Any]:
    """All resources of a service, and predictions of its model."""
    return {
        "datasets": [dataset.data for dataset in client.datasets()],
        "ended": [job.refresh().data for job in client.jobs(state="succeeded")],
        "traces": [job.trace() for job in client.jobs(state="succeeded")],
        "models": [model.data for model in client.models()],
        "versions": [v.data for model in client.models() for v in model.versions()],
        "decisions": client.predict("iris", X, "decision").tobytes(),
    }


def _at_checkpoint(job: Job, attempt: int = 1) -> Job:
    """The job, once that attempt has saved a checkpoint."""
    for event in job.events():
        if event.kind == "checkpoint" and job.refresh().attempt >= attempt:
            return job
    raise AssertionError(f"{job.refresh().data} ended without a checkpoint")


@pytest.mark.long
@pytest.mark.timeout(300)
def test_backup_under_load_is_restored_elsewhere(tmp_path: Path) -> None:
    """Datasets, jobs, models, digests and predictions are those at the time of the backup. A
    running training is resumed from its checkpoint; a paused one ends with the same bits as
    here."""
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 20))
    y = np.where(X[:, 0] + random.normal(size=3000) > 0, "yes", "no")
    stop = threading.Event()

    def upload_and_delete(url: str) -> None:
        with Client(url) as client:
            while not stop.is_set():
                client.upload(random.normal(size=(200, 20))).delete()

    with running(tmp_path / "here", **OFTEN) as here, Client(here.url) as client:
        dataset = client.upload(X, y, name="known")
        client.train(dataset, "iris", set_alias="champion").wait()
        before = _contents(client, X)
        paused = _at_checkpoint(client.train(dataset, "long", **LONG)).pause()
        endless = _at_checkpoint(client.train(dataset, "endless", **ENDLESS))
        load = threading.Thread(target=upload_and_delete, args=(here.url,))
        load.start()
        saved = _command(tmp_path / "here", "backup", str(tmp_path / "backup.tar"))
        stop.set()
        load.join()
        assert "files" in saved
        endless.cancel()
        undisturbed = paused.resume().wait(200).model_version().digest

    assert "restored" in _command(tmp_path / "there", "restore", str(tmp_path / "backup.tar"))
    with running(tmp_path / "there", **OFTEN) as there, Client(there.url) as client:
        after = _contents(client, X)
        mine = [d for d in after["datasets"] if d["name"] is not None]
        assert mine == [d for d in before["datasets"] if d["name"] is not None]
        assert {**after, "datasets": None} == {**before, "datasets": None}
        again = client.job(endless.id)
        assert not again.ended
        _at_checkpoint(again, attempt=2).cancel()
        again = client.job(paused.id)
        assert again.state == "paused"
        assert again.resume().wait(200).attempt > 1
        assert again.model_version().digest == undisturbed
        assert [event.kind for event in again.events()].count("end") == 1
    assert "saved" in _command(tmp_path / "there", "backup", str(tmp_path / "again.tar"))
