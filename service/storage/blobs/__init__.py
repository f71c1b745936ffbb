"""Immutable files under keys such as `models/<id>`, written completely or not at all.

The service makes the keys itself, never from a request.
"""

from __future__ import annotations

from pathlib import Path

from service.settings import Settings
from service.storage.blobs.base import CHUNK_BYTES, Blob, BlobDamaged, Blobs
from service.storage.blobs.local import LocalBlobs

__all__ = ["CHUNK_BYTES", "Blob", "BlobDamaged", "Blobs", "LocalBlobs", "open_blobs"]


def open_blobs(settings: Settings, make: bool = True) -> Blobs:
    """The store in the settings. Without `make`, a missing directory is an error: its disk is
    probably not mounted."""
    if not settings.blob_url.startswith("s3://"):
        return LocalBlobs(Path(settings.blob_url), settings.limits, make)
    from service.storage.blobs.s3 import S3Blobs  # obstore: 5 MB of memory

    folder = settings.data_dir.resolve() / "s3"
    return S3Blobs(settings.blob_url, folder, settings.blob_cache_bytes, settings.limits)
