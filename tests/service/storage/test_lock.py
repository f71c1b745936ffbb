"""Two services never share a data directory."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from service.storage.lock import DataDirInUse, exclusive


def test_second_holder_is_refused(tmp_path: Path) -> None:
    """The refusal names the process that holds the directory, and what to do."""
    with (
        exclusive(tmp_path / "var"),
        pytest.raises(DataDirInUse, match=rf"process id {os.getpid()}.*SVM_DATA_DIR"),
        exclusive(tmp_path / "var"),
    ):
        pass


def test_directory_is_free_after_its_holder(tmp_path: Path) -> None:
    """A directory can be taken again and again, one after the other."""
    for _ in range(2):
        with exclusive(tmp_path / "var"):
            assert (tmp_path / "var").is_dir()
