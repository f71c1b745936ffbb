"""What lies among the files of a running service, wherever it keeps them."""

from __future__ import annotations

from pathlib import Path

from service.settings import Settings
from service.storage.blobs import open_blobs


def incoming(settings: Settings) -> Path:
    """Where uploads and other unfinished files are."""
    return open_blobs(settings).scratch


def damage(settings: Settings, name: str) -> None:
    """Let the only file of this name have other bytes; no local copy of it is left."""
    blobs = open_blobs(settings)
    (key,) = (key for key in list(blobs.keys()) if key.endswith(f"/{name}"))
    blobs.write(key, b"damaged")
    for copy in (settings.data_dir / "s3" / "copies").glob("*"):
        copy.unlink()
