"""`svm-service doctor`: what is wrong is found, and what is sound is not complained of."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from service.cli.examining import Finding, examine
from service.settings import Settings
from service.storage.blobs import LocalBlobs
from service.storage.database import Database
from service.storage.database.tables import model_versions, models
from service.storage.ownership import claim
from tests.journeys.server import COMMAND

Look = Callable[..., dict[str, list[Finding]]]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """Of a service that keeps one model."""
    folder = tmp_path / "var"
    folder.mkdir()
    database, blobs = Database(f"sqlite:///{folder / 'service.db'}"), LocalBlobs(folder / "blobs")
    database.migrate()
    claim(database, blobs)
    blob = blobs.write("models/m1", b"a model")
    fill: dict[type, Any] = {str: "", int: 0, float: 0.0, bool: False}
    row = {c.name: fill.get(c.type.python_type, {}) for c in model_versions.c if not c.nullable}
    row |= {"model_name": "iris", "artifact_key": blob.key, "artifact_sha256": blob.sha256}
    with database.write() as connection:
        connection.execute(sa.insert(models).values(name="iris", created_at=0, last_version=1))
        connection.execute(sa.insert(model_versions).values(row))
    database.close()
    return folder


@pytest.fixture
def look(data_dir: Path) -> Look:
    """The findings by what they are of."""

    def look(deep: bool = True, **settings: Any) -> dict[str, list[Finding]]:
        found: dict[str, list[Finding]] = {}
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        for finding in examine(Settings(data_dir=data_dir, **settings), deep, port):
            found.setdefault(finding.what, []).append(finding)
        return found

    return look


def _wrong(found: dict[str, list[Finding]]) -> list[str]:
    return [
        f"{what}: {f.detail}" for what, some in found.items() for f in some if f.state == "wrong"
    ]


def test_sound_service_has_nothing_wrong(look: Look) -> None:
    """Every part is looked at."""
    found = look()
    assert _wrong(found) == []
    assert found["files"][0].detail == "1 files are what was stored"
    assert {"data directory", "disk", "lock", "database", "compiled loops", "memory", "port"} < {
        *found
    }


def test_missing_and_damaged_files_are_named(look: Look, data_dir: Path) -> None:
    """A missing one always, other bytes with --deep alone."""
    file = data_dir / "blobs" / "models" / "m1"
    file.write_bytes(b"other")
    assert _wrong(look(deep=False)) == []
    assert "files: models/m1 is damaged" in _wrong(look())[0]
    file.unlink()
    assert "files: models/m1 is missing" in _wrong(look(deep=False))[0]


def test_files_of_another_database_are_told(look: Look, data_dir: Path) -> None:
    """Before the service refuses to start for that."""
    (mark,) = (data_dir / "blobs" / "owner").iterdir()
    mark.rename(mark.with_name("db_other"))
    assert "the files belong to another database" in _wrong(look())[0]


@pytest.mark.parametrize("first_page", [0, 1, -3], ids=["all", "all but the first", "the last"])
def test_damaged_database_is_told(look: Look, data_dir: Path, first_page: int) -> None:
    """SQLite's own examination speaks; the rest is looked at all the same."""
    file = data_dir / "service.db"
    content = bytearray(file.read_bytes())
    begin = first_page * 4096 % len(content)
    content[begin:] = os.urandom(len(content) - begin)
    file.write_bytes(content)
    found = look()
    assert any(line.startswith("database: the database is damaged") for line in _wrong(found))
    assert "memory" in found


@pytest.mark.parametrize("revision", ["0001", "0004", "0015"])
def test_older_database_is_sound(look: Look, data_dir: Path, revision: str) -> None:
    """`serve` brings it up to date: there is nothing to restore."""
    (data_dir / "service.db").unlink()
    database = Database(f"sqlite:///{data_dir / 'service.db'}")
    database.migrate(revision)
    database.close()
    found = look()
    assert _wrong(found) == []
    assert (found["database"][0].state, revision in found["database"][0].detail) == ("note", True)
    assert "migrate" in found["files"][0].detail


def test_newer_database_is_told(look: Look, data_dir: Path) -> None:
    """The version that made it has to be installed."""
    database = Database(f"sqlite:///{data_dir / 'service.db'}")
    with database.write() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    assert "revision 9999 is of a newer version" in _wrong(look())[0]
    database.close()


def test_folder_open_to_others_is_told(look: Look, data_dir: Path) -> None:
    """If they may write it is wrong; if they may read it may be intended."""
    data_dir.chmod(0o755)
    assert look()["permissions"][0].state == "note"
    assert _wrong(look()) == []
    data_dir.chmod(0o777)
    assert "chmod o-w" in _wrong(look())[0]


NOT_ALMIGHTY = (
    ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
)
"""Even root then needs the rights that others need."""


@pytest.mark.skipif(
    bool(NOT_ALMIGHTY) and shutil.which("setpriv") is None, reason="root may write everywhere"
)
@pytest.mark.parametrize(
    ("locked", "folder", "command"),
    [
        *((".", ".", command) for command in ("doctor", "serve", "backup x.tar", "keys list")),
        ("blobs", ".", "serve"),
        ("service.db", ".", "serve"),
        (".", "not-yet/made", "serve"),
    ],
)
def test_folder_that_may_not_be_written_is_named(
    data_dir: Path, tmp_path: Path, locked: str, folder: str, command: str
) -> None:
    """With the user's id and what to do: the usual fault of a new Docker volume."""
    path = data_dir / locked
    path.chmod(0o500)
    done = subprocess.run(
        [*NOT_ALMIGHTY, COMMAND, *command.split()],
        env={**os.environ, "SVM_DATA_DIR": str(data_dir / folder)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    path.chmod(0o700)
    said = done.stdout + done.stderr
    assert done.returncode == 1
    user, group = os.geteuid(), os.getegid()
    assert f"user id {user} may not read and write {path}: run `chown -R {user}:{group}" in said
    assert "Traceback" not in said


def test_what_does_not_answer_is_told(look: Look) -> None:
    """Database and scheduler that are not there; the rest is looked at all the same."""
    found = look(
        database_url="postgresql://nobody@127.0.0.1:1/nothing?connect_timeout=1",
        dask_address="tcp://127.0.0.1:1",
    )
    assert {finding.split(":")[0] for finding in _wrong(found)} == {
        "database",
        "files",
        "scheduler",
    }
    assert "memory" in found


def test_command_ends_with_the_verdict(data_dir: Path, tmp_path: Path) -> None:
    """Status 0 where all is well and before the first start, 1 where not; --json for programs."""

    def run(folder: Path) -> tuple[int, Any]:
        done = subprocess.run(
            [COMMAND, "doctor", "--json", "--port", "0"],
            env={**os.environ, "SVM_DATA_DIR": str(folder)},
            capture_output=True,
            text=True,
            timeout=60,
        )
        return done.returncode, json.loads(done.stdout)

    assert run(tmp_path / "nowhere")[0] == 0
    assert run(data_dir)[1]["healthy"] is True
    (data_dir / "blobs" / "models" / "m1").unlink()
    code, said = run(data_dir)
    assert (code, said["healthy"]) == (1, False)
