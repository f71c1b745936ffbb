"""Two services cannot use the same data directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from service.storage.disk import DataDirInUse, exclusive


def test_second_holder_is_refused(tmp_path: Path) -> None:
    """The message names the process with the lock, and what to do."""
    with (
        exclusive(tmp_path / "var"),
        pytest.raises(DataDirInUse, match=rf"process id {os.getpid()}.*SVM_DATA_DIR"),
        exclusive(tmp_path / "var"),
    ):
        pass


def test_directory_is_unlocked_afterwards(tmp_path: Path) -> None:
    """It can be locked again."""
    for _ in range(2):
        with exclusive(tmp_path / "var"):
            assert (tmp_path / "var").is_dir()
