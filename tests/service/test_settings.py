"""Settings as environment variables."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.settings import Limits, Settings


def test_environment_builds_equal_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Child processes get theirs in this way: nested ones, numbers and absent ones too."""
    settings = Settings(
        data_dir=Path("/tmp/a b"),
        workers=0,
        lease_s=2.5,
        database_url="postgresql://user:p%20w@db/svm",
        dask_address="tcp://10.0.0.2:8786",
        limits=Limits(worker_memory_bytes=123, job_s=0.5),
    )
    for each in (settings, Settings()):
        with monkeypatch.context() as patch:
            for name, value in each.environment().items():
                patch.setenv(name, value)
            assert Settings() == each
