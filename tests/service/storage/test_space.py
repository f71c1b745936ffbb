"""The limit for free disk space."""

from __future__ import annotations

import contextlib
import subprocess
from pathlib import Path

import pytest

from service.errors import StorageFull
from service.settings import Limits
from service.storage.blobs import LocalBlobs


@pytest.mark.parametrize(
    ("share", "free_bytes", "refused"),
    [(0.9999999, 10**18, True), (0.9999999, 0, False), (0, 10**18, False)],
)
def test_storage_is_full_below_both_limits(
    tmp_path: Path, share: float, free_bytes: int, refused: bool
) -> None:
    """The smaller one applies."""
    limits = Limits(disk_free_share=share, disk_free_bytes=free_bytes)
    blobs = LocalBlobs(tmp_path / "files", limits)
    if not refused:
        blobs.check_room()
        return
    with pytest.raises(StorageFull):
        blobs.check_room()


def test_disk_without_inodes_is_full(tmp_path: Path) -> None:
    """With all of its space free; the reason is named."""
    options = ["-t", "tmpfs", "-o", "nr_inodes=20", "tmpfs", str(tmp_path)]
    mount = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    if mount.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {mount.stderr.strip()}")
    try:
        blobs = LocalBlobs(tmp_path / "files")
        blobs.check_room()
        with contextlib.suppress(OSError):
            for number in range(20):
                (tmp_path / str(number)).touch()
        with pytest.raises(StorageFull, match="only 0 of the disk's 20 inodes are free"):
            blobs.check_room()
        with pytest.raises(StorageFull, match="inodes"):
            blobs.write("datasets/ds_1/X", b"x")
    finally:
        subprocess.run(["umount", "--lazy", tmp_path], check=True)
