"""Immutable files under keys such as `models/<id>`: written whole or not at all.

A key is made by us, never from a caller's words.
"""

from __future__ import annotations

from pathlib import Path

from service.settings import Settings
from service.storage.blobs.base import CHUNK_BYTES, Blob, BlobDamaged, Blobs
from service.storage.blobs.local import LocalBlobs

__all__ = ["CHUNK_BYTES", "Blob", "BlobDamaged", "Blobs", "LocalBlobs", "open_blobs"]


def open_blobs(settings: Settings) -> Blobs:
    """The store that the settings name."""
    return LocalBlobs(Path(settings.blob_url))
