"""Data are private with any umask; existing folders keep their mode."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.settings import Settings
from service.storage.backups import back_up
from service.storage.blobs import LocalBlobs, open_blobs
from service.storage.database import Database
from service.storage.database.tables import models
from service.storage.disk import exclusive
from service.storage.machine_code import machine_code_folder
from tests.journeys.server import running

WIDE, NONE_AT_ALL = 0o000, 0o777


@pytest.fixture(params=[WIDE, NONE_AT_ALL], ids=["wide", "narrow"])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _modes(folder: Path, *names: str) -> dict[str, int]:
    return {name: _mode(folder / name) for name in names}


@pytest.mark.usefixtures("umask")
def test_folders_and_database_are_private(tmp_path: Path) -> None:
    """Also SQLite's log and index, and backups."""
    settings = Settings(data_dir=tmp_path / "var")
    with exclusive(settings.data_dir):
        blobs, database = open_blobs(settings), Database(settings.database_url)
        machine_code_folder(settings.data_dir / "numba")
        database.migrate()
        with database.write() as connection:
            connection.execute(models.insert().values(name="m", created_at=0, last_version=0))
        back_up(database, blobs, tmp_path / "backup.tar")
        folders = (".", "blobs", "blobs/incoming", "numba")
        assert _modes(settings.data_dir, *folders) == dict.fromkeys(folders, 0o700)
        files = ("var/service.db", "var/service.db-wal", "var/service.db-shm", "backup.tar")
        assert _modes(tmp_path, *files) == dict.fromkeys(files, 0o600)
        database.close()


def test_existing_folder_keeps_its_mode_and_files_become_private(tmp_path: Path) -> None:
    """The mode of a volume can be intended; existing database files become private."""
    folder, database = tmp_path / "var", Database(f"sqlite:///{tmp_path / 'var' / 'service.db'}")
    LocalBlobs(folder / "blobs")
    folder.chmod(0o777)
    (folder / "service.db").touch(0o666)
    database.migrate()
    for name in ("service.db", "service.db-wal", "service.db-shm"):
        (folder / name).chmod(0o664)
    other = Database(database.url)
    with other.read():
        assert _modes(folder, "service.db", "service.db-wal") == {
            "service.db": 0o600,
            "service.db-wal": 0o600,
        }
    assert _mode(folder) == 0o777
    for each in (database, other):
        each.close()


def test_running_service_is_private(tmp_path: Path) -> None:
    """With the key of its first start."""
    before = os.umask(WIDE)
    try:
        with running(tmp_path / "var", SVM_AUTH="on", SVM_WORKERS="0"):
            names = ("service.db", "service.db-wal", "service.db-shm", "first-key")
            assert _modes(tmp_path / "var", *names) == dict.fromkeys(names, 0o600)
            assert _mode(tmp_path / "var") == 0o700
    finally:
        os.umask(before)
