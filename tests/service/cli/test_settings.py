"""Settings as environment variables."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from service.settings import Limits, Settings, misspelled


def test_environment_builds_equal_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Child processes get their settings this way: nested ones, numbers and absent ones too."""
    settings = Settings(
        data_dir=Path("/tmp/a b"),
        workers=0,
        lease_s=2.5,
        database_url="postgresql://user:p%20w@db/svm",
        limits=Limits(worker_memory_bytes=123, job_s=0.5),
    )
    for each in (settings, Settings()):
        with monkeypatch.context() as patch:
            for name, value in each.environment().items():
                patch.setenv(name, value)
            assert Settings() == each


@pytest.mark.parametrize(
    ("name", "value", "advice"),
    [
        ("database_url", "mysql://host/name", "postgresql://"),
        ("database_url", "sqlite://", "sqlite:///path"),
        ("blob_url", "gs://bucket", "s3://bucket"),
        ("blob_url", "s3:///prefix", "s3://bucket"),
        ("hosts", "localhost, svm.example.com:8000", "without a port"),
        ("hosts", "https://svm.example.com", "svm.example.com, "),
        ("proxies", "10.0.0.2, proxy", "10.0.0.0/24"),
    ],
)
def test_setting_that_cannot_work_is_refused(name: str, value: str, advice: str) -> None:
    """The message says what to do."""
    with pytest.raises(ValidationError, match=advice) as caught:
        Settings.model_validate({name: value})
    assert caught.value.errors()[0]["loc"] == (name,)


def test_database_and_files_are_found_below_the_data_directory(tmp_path: Path) -> None:
    """Unless the settings name other places."""
    own = Settings(data_dir=tmp_path)
    assert own.sqlite_file == tmp_path / "service.db"
    assert own.blob_url == str(tmp_path / "blobs")
    shared = Settings(data_dir=tmp_path, database_url="postgres://h/d", blob_url="s3://b/p")
    assert (shared.database_url, shared.sqlite_file) == ("postgresql://h/d", None)


def test_misspelled_variables_are_reported() -> None:
    """With the setting that is probably meant; variables from Kubernetes have none."""
    names = ["SVM_WORKERS", "SVM_LIMITS__ROWS", "SVM_URL", "PATH"]
    assert misspelled(names) == {}
    assert misspelled([*names, "SVM_AUHT", "SVM_LIMITS_ROWS", "SVM_SERVICE_HOST"]) == {
        "SVM_AUHT": "SVM_AUTH",
        "SVM_LIMITS_ROWS": "SVM_LIMITS__ROWS",
        "SVM_SERVICE_HOST": None,
    }
