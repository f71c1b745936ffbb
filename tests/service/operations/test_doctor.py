"""`svm-service doctor`: faults are found, and a healthy service has no findings."""

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
from tests import started
from tests.started import COMMAND

Look = Callable[..., dict[str, list[Finding]]]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """The data directory of a service with one model."""
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
    """Runs all checks; gives the findings by subject."""

    def look(deep: bool = True, **settings: Any) -> dict[str, list[Finding]]:
        findings: dict[str, list[Finding]] = {}
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        for finding in examine(Settings(data_dir=data_dir, **settings), deep, port):
            findings.setdefault(finding.what, []).append(finding)
        return findings

    return look


def _wrong(findings: dict[str, list[Finding]]) -> list[str]:
    return [
        f"{what}: {f.detail}" for what, some in findings.items() for f in some if f.state == "wrong"
    ]


def test_healthy_service_has_nothing_wrong(look: Look) -> None:
    """Every part is checked."""
    findings = look()
    assert _wrong(findings) == []
    assert findings["files"][0].detail == "1 files have the right digests"
    assert {"data directory", "disk", "lock", "database", "compiled loops", "memory", "port"} < {
        *findings
    }


def test_missing_and_damaged_files_are_named(look: Look, data_dir: Path) -> None:
    """A missing file always, changed bytes only with --deep."""
    file = data_dir / "blobs" / "models" / "m1"
    file.write_bytes(b"other")
    assert _wrong(look(deep=False)) == []
    assert "files: models/m1 is damaged" in _wrong(look())[0]
    file.unlink()
    assert "files: models/m1 is missing" in _wrong(look(deep=False))[0]


def test_files_of_another_database_are_reported(look: Look, data_dir: Path) -> None:
    """The service would refuse to start."""
    (mark,) = (data_dir / "blobs" / "owner").iterdir()
    mark.rename(mark.with_name("db_other"))
    assert "the files belong to another database" in _wrong(look())[0]


@pytest.mark.parametrize("first_page", [0, 1, -3], ids=["all", "all but the first", "the last"])
def test_damaged_database_is_reported(look: Look, data_dir: Path, first_page: int) -> None:
    """By SQLite's own check; the other checks run anyway."""
    file = data_dir / "service.db"
    content = bytearray(file.read_bytes())
    begin = first_page * 4096 % len(content)
    content[begin:] = os.urandom(len(content) - begin)
    file.write_bytes(content)
    findings = look()
    assert any(line.startswith("database: the database is damaged") for line in _wrong(findings))
    assert "memory" in findings


@pytest.mark.parametrize(
    ("revision", "advice"),
    [("9999", "install that version"), ("0017", "use another database and data directory")],
)
def test_database_of_another_version_is_reported(
    look: Look, data_dir: Path, revision: str, advice: str
) -> None:
    """With what to do; nothing has to be restored over a healthy database."""
    database = Database(f"sqlite:///{data_dir / 'service.db'}")
    with database.write() as connection:
        connection.execute(sa.text(f"UPDATE alembic_version SET version_num = '{revision}'"))
    fault, *_ = _wrong(look())
    assert f"revision {revision}" in fault
    assert advice in fault
    database.close()


def test_folder_open_to_others_is_reported(look: Look, data_dir: Path) -> None:
    """Write access is wrong; read access can be intended."""
    data_dir.chmod(0o755)
    assert look()["permissions"][0].state == "note"
    assert _wrong(look()) == []
    data_dir.chmod(0o777)
    assert "chmod o-w" in _wrong(look())[0]


DROP_RIGHTS = (
    ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"] if os.geteuid() == 0 else []
)
"""Even root then needs the rights that other users need."""


@pytest.mark.spread(3)
@pytest.mark.skipif(
    bool(DROP_RIGHTS) and shutil.which("setpriv") is None,
    reason="root may write everywhere",
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
def test_folder_without_write_permission_is_named(
    data_dir: Path, tmp_path: Path, locked: str, folder: str, command: str
) -> None:
    """With the user's id and what to do; usual for a new Docker volume."""
    path = data_dir / locked
    path.chmod(0o500)
    done = subprocess.run(
        [*DROP_RIGHTS, COMMAND, *command.split()],
        env={**os.environ, "SVM_DATA_DIR": str(data_dir / folder)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    path.chmod(0o700)
    output = done.stdout + done.stderr
    assert done.returncode == 1
    user, group = os.geteuid(), os.getegid()
    assert f"user id {user} may not read and write {path}: run `chown -R {user}:{group}" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SVM_DATA_DIR", "/proc/nope"),
        ("SVM_DATA_DIR", "/etc/passwd/var"),
        ("SVM_DATABASE_URL", "sqlite:////proc/nope/service.db"),
        ("SVM_BLOB_URL", "/proc/nope"),
    ],
)
def test_folder_that_cannot_be_created_is_named(tmp_path: Path, variable: str, value: str) -> None:
    """By `doctor` as by `serve`: the first of its lines, and the only one of `serve`."""
    environment = {**os.environ, "SVM_DATA_DIR": str(tmp_path), variable: value}
    said = {}
    for command in ("serve", "doctor"):
        done = started.run([command, "--port", "0"], env=environment)
        assert done.returncode == 1
        said[command] = done.stdout + done.stderr
    (line,) = said["serve"].splitlines()
    assert "cannot be created" in line
    assert line.endswith(f"set {variable} to another place")
    assert said["doctor"].startswith(f"wrong  data directory  {line}\n")


def test_unreachable_database_is_reported(look: Look) -> None:
    """The other checks run anyway."""
    findings = look(database_url="postgresql://user@127.0.0.1:1/nothing?connect_timeout=1")
    assert {finding.split(":")[0] for finding in _wrong(findings)} == {"database", "files"}
    assert "memory" in findings


def test_exit_status_tells_whether_the_service_is_healthy(data_dir: Path, tmp_path: Path) -> None:
    """Exit status 0 if all is well, also before the first start, else 1; --json for programs."""

    def run(folder: Path) -> tuple[int, Any]:
        done = started.run(
            ["doctor", "--json", "--port", "0"],
            env={**os.environ, "SVM_DATA_DIR": str(folder)},
        )
        return done.returncode, json.loads(done.stdout)

    assert run(tmp_path / "nowhere")[0] == 0
    assert run(data_dir)[1]["healthy"] is True
    (data_dir / "blobs" / "models" / "m1").unlink()
    code, report = run(data_dir)
    assert (code, report["healthy"]) == (1, False)
