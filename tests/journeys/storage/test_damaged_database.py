"""A damaged database is detected at the start of the service."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import started

PAGE = 4096


@pytest.mark.long
@pytest.mark.parametrize("first", [0, 1, 20], ids=["all of it", "all but the header", "its end"])
def test_damage_is_detected_at_the_start(migrated: Path, tmp_path: Path, first: int) -> None:
    """One line says what to do, and the process ends at once."""
    content = migrated.read_bytes()
    file = tmp_path / "var" / "service.db"
    file.parent.mkdir()
    file.write_bytes(content[: first * PAGE] + os.urandom(len(content) - first * PAGE))
    done = started.run(
        ["serve", "--port", "0"], env={**os.environ, "SVM_DATA_DIR": str(file.parent)}
    )
    assert done.returncode != 0
    (line,) = (line for line in done.stderr.splitlines() if '"critical"' in line)
    assert "the database is damaged; restore a backup" in line
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [["keys", "list"], ["backup", "x.tar"], ["migrate"]])
def test_damage_is_one_line_of_a_command(tmp_path: Path, command: list[str]) -> None:
    """On standard error, with the reason."""
    (tmp_path / "service.db").write_bytes(os.urandom(PAGE))
    done = started.run(command, cwd=tmp_path, env={**os.environ, "SVM_DATA_DIR": str(tmp_path)})
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "the database is damaged; restore a backup: file is not a database\n"
