"""The limit for free disk space."""

from __future__ import annotations

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
