"""Immutable files under keys such as `models/<id>`: written whole or not at all.

A key is made by us, never from a caller's words.
"""

from __future__ import annotations

from pathlib import Path

from service.settings import Settings
from service.storage.blobs.base import CHUNK_BYTES, Blob, BlobDamaged, Blobs
from service.storage.blobs.local import LocalBlobs

__all__ = ["CHUNK_BYTES", "Blob", "BlobDamaged", "Blobs", "LocalBlobs", "open_blobs"]


def open_blobs(settings: Settings, make: bool = True) -> Blobs:
    """The store that the settings name. A directory that is missing is made only by the process
    that decides whose files are there: for all others its disk is not mounted."""
    if not settings.blob_url.startswith("s3://"):
        return LocalBlobs(Path(settings.blob_url), settings.limits, make)
    from service.storage.blobs.s3 import S3Blobs  # obstore, 5 MB of memory that few have use for

    folder = settings.data_dir.resolve() / "s3"
    return S3Blobs(settings.blob_url, folder, settings.blob_cache_bytes, settings.limits)
