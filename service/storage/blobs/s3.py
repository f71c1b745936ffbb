"""Blobs in a bucket of S3, or of a store with the same protocol."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from io import BufferedReader
from pathlib import Path
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import S3Store

from service.errors import StorageFull
from service.settings import Limits
from service.storage.arrays import Content
from service.storage.blobs.base import (
    CHUNK_BYTES,
    Blob,
    BlobDamaged,
    Blobs,
    digest_of,
    log,
    open_undamaged,
    still_undamaged,
)
from service.storage.disk import file_errors_reported, private_folder, storage_unavailable

PART_BYTES = 8 * CHUNK_BYTES
"""Size of the parts of larger files; the object exists when the last part has arrived."""
PARTS_AT_ONCE = 4


class FileCache:
    """Files by sha-256; if they exceed `capacity_bytes`, the least recently used are deleted.

    Processes of one machine can share a folder. A deleted file stays readable while it is open.
    """

    def __init__(self, folder: Path, capacity_bytes: int) -> None:
        self._folder = folder
        self._capacity_bytes = capacity_bytes
        private_folder(folder)

    def open(self, sha256: str) -> BufferedReader | None:
        """The copy, if there is an undamaged one."""
        path = self._folder / sha256
        file = None
        with suppress(OSError):  # of the disk: the copy cannot be read
            file = open_undamaged(path, sha256)
        if file is None:
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(FileNotFoundError):
            os.utime(path)
            still_undamaged(file, sha256)
        return file

    def add(self, sha256: str, source: Path) -> None:
        """Move a file with this digest from the same file system into the cache, if it fits."""
        with suppress(OSError):  # copies are optional
            room = self._capacity_bytes - source.stat().st_size
            if room >= 0:
                self.shrink(room)
                source.rename(self._folder / sha256)

    def shrink(self, limit_bytes: int) -> None:
        """Delete the least recently used files until the rest needs at most `limit_bytes`."""
        files = []
        for entry in os.scandir(self._folder):
            with suppress(FileNotFoundError):
                files.append((entry.stat(), entry.path))
        kept_bytes = sum(stat.st_size for stat, _ in files)
        for stat, path in sorted(files, key=lambda item: item[0].st_mtime_ns):
            if kept_bytes <= limit_bytes:
                return
            Path(path).unlink(missing_ok=True)
            kept_bytes -= stat.st_size


class S3Blobs(Blobs):
    """Objects below a prefix, with copies of recently used ones in a local folder."""

    def __init__(self, url: str, folder: Path, cache_bytes: int, limits: Limits) -> None:
        """`url` is `s3://bucket/prefix`; the usual variables `AWS_…` give the rest."""
        super().__init__(folder / "incoming", limits)
        private_folder(self.scratch)
        self._cache = FileCache(folder / "copies", cache_bytes)
        parts = urlsplit(url)
        self._store = S3Store(
            parts.netloc,
            prefix=parts.path.strip("/") or None,
            client_options={
                "allow_http": True,  # the endpoint can be http://…
                "connect_timeout": timedelta(seconds=5),
                "read_timeout": timedelta(seconds=20),
                "timeout": timedelta(minutes=30),
            },
            retry_config={
                "max_retries": 5,
                "retry_timeout": timedelta(seconds=30),
                "backoff": {"max_backoff": timedelta(seconds=2)},
            },
        )

    def check_room(self) -> None:
        try:
            super().check_room()
        except StorageFull:
            self._cache.shrink(0)
            super().check_room()

    def write(self, key: str, content: Content) -> Blob:
        if not isinstance(content, bytes):
            return super().write(key, content)
        self._put(key, content)
        return Blob(key, hashlib.sha256(content).hexdigest(), len(content))

    def adopt(self, key: str, source: Path) -> Blob:
        with file_errors_reported(), source.open("rb") as file:
            blob = Blob(key, digest_of(file), source.stat().st_size)
        self._put(key, source)
        self._cache.add(blob.sha256, source)
        return blob

    def open(self, key: str, sha256: str) -> BufferedReader:
        copy = self._cache.open(sha256)
        if copy is not None:
            return copy
        try:
            return self._fetch(key, sha256)
        except StorageFull:
            self._cache.shrink(0)
            return self._fetch(key, sha256)

    def check(self, key: str, sha256: str) -> None:
        self._fetch(key, sha256).close()

    def keys(self, prefix: str = "", older_than_s: float = 0) -> Iterator[str]:
        newest = time.time() - older_than_s
        with _failures_reported():
            for chunk in obstore.list(self._store, prefix):
                for entry in chunk:
                    if entry["last_modified"].timestamp() <= newest:
                        yield entry["path"]

    def _fetch(self, key: str, sha256: str) -> BufferedReader:
        digest = hashlib.sha256()
        with self.temporary() as path:
            try:
                with _failures_reported(), path.open("wb") as file:
                    reply = obstore.get(self._store, key)
                    for chunk in reply:
                        digest.update(chunk)
                        file.write(chunk)
                    if file.tell() < reply.meta["size"]:
                        raise BaseError("the connection was cut")
            except FileNotFoundError:
                raise BlobDamaged(key) from None
            if digest.hexdigest() != sha256:
                raise BlobDamaged(key)
            copy = path.open("rb")
            self._cache.add(sha256, path)
            return copy

    def _put(self, key: str, content: bytes | Path) -> None:
        with _failures_reported():
            obstore.put(
                self._store, key, content, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
            )

    def _delete(self, prefix: str) -> None:
        with _failures_reported():
            chunks = obstore.list(self._store, prefix)
            below = [entry["path"] for chunk in chunks for entry in chunk]
            obstore.delete(self._store, [prefix, *below])


@contextmanager
def _failures_reported() -> Iterator[None]:
    """Raises Unavailable if the store does not respond, or refuses the credentials."""
    try:
        yield
    except BaseError as error:
        log.warning("file store failed", cause=str(error).partition("\n")[0])
        raise storage_unavailable("the file store does not respond") from error
