"""The interface of blob stores, and files with the digest that they must have."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import tempfile
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from threading import Lock
from typing import TypeAlias

import structlog

from service.errors import ServiceError
from service.settings import Limits
from service.storage.arrays import Arrays, Content, pack_into, unpack
from service.storage.disk import check_room, file_errors_reported

CHUNK_BYTES = 1024 * 1024
log = structlog.stdlib.get_logger("service.storage")
MISSING = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO})
"""Errors of `open` that mean that there is no such file; ENXIO for a socket."""
KNOWN_FROM_BYTES = 1 << 20
"""A smaller file is read again whenever it is opened. The digest of 100 MB takes 0.07 s, a third of
a short training on them …"""
KNOWN = 256
"""… so a process remembers this many files that it has read."""
_Identity: TypeAlias = tuple[int, ...]
"""What differs if a file is another one, or has been written to: the time of the last change
(`ctime`) cannot be set."""
_known: OrderedDict[_Identity, str] = OrderedDict()
_lock = Lock()


@dataclass(frozen=True, slots=True)
class Blob:
    """A stored file; its sha-256 is stored in the row that names the key."""

    key: str
    sha256: str
    size_bytes: int


class BlobDamaged(Exception):
    """The file is missing, or its bytes do not match the digest."""


class Blobs(ABC):
    """Files by key. Safe to share between threads, and processes can use the same store.

    All methods raise StorageFull if there is no space, and Unavailable if the store or the local
    disk does not respond.
    """

    def __init__(self, scratch: Path, limits: Limits) -> None:
        """`scratch` is a local folder for unfinished files."""
        self.scratch = scratch
        self._limits = limits

    @contextmanager
    def temporary(self) -> Iterator[Path]:
        """A private local file, deleted at the end unless `adopt` moved it."""
        with file_errors_reported():
            handle, name = tempfile.mkstemp(dir=self.scratch)
            os.close(handle)
            path = Path(name)
            try:
                yield path
            finally:
                path.unlink(missing_ok=True)

    def check_room(self) -> None:
        """Raises StorageFull if the local disk has too little space for uploads."""
        with file_errors_reported():
            check_room(self.scratch, self._limits)

    @contextmanager
    def temporary_folder(self) -> Iterator[Path]:
        """A private local folder, deleted at the end with its contents."""
        with file_errors_reported(), tempfile.TemporaryDirectory(dir=self.scratch) as name:
            yield Path(name)

    def write(self, key: str, content: Content) -> Blob:
        """Store `content` under `key`, arrays as an NPZ file; durable when this returns."""
        with self.temporary() as path:
            with path.open("wb") as file:
                if isinstance(content, bytes):
                    file.write(content)
                else:
                    pack_into(file, content)
            return self.adopt(key, path)

    @abstractmethod
    def adopt(self, key: str, source: Path) -> Blob:
        """Move a finished temporary file under `key`, durable when this returns."""

    @abstractmethod
    def open(self, key: str, sha256: str) -> BufferedReader:
        """A local file with the stored bytes. Raises BlobDamaged."""

    def read(self, key: str, sha256: str) -> bytes:
        """The stored bytes. Raises BlobDamaged."""
        with self.open(key, sha256) as file:
            return file.read()

    def read_arrays(self, key: str, sha256: str) -> Arrays:
        """The stored arrays. Raises BlobDamaged."""
        with self.open(key, sha256) as file:
            return unpack(file)

    def check(self, key: str, sha256: str) -> None:
        """Raises BlobDamaged if the store has lost the bytes, even if there is a local copy."""
        self.open(key, sha256).close()

    def delete(self, prefix: str) -> None:
        """Delete the file `prefix` and every file below it.

        Called when no row names them any more. The sweep deletes later what fails now.
        """
        try:
            self._delete(prefix)
        except (OSError, ServiceError):
            log.exception("deleting files failed", prefix=prefix)

    @abstractmethod
    def keys(self, prefix: str = "", older_than_s: float = 0) -> Iterator[str]:
        """All keys below `prefix` of files that are at least that old."""

    def sweep_scratch(self, older_than_s: float) -> list[str]:
        """Delete unfinished files of processes that died; returns their names."""
        newest = time.time() - older_than_s
        old, removed = [], []
        for path in self.scratch.rglob("*"):
            with suppress(FileNotFoundError):  # deleted meanwhile
                if path.lstat().st_mtime <= newest:
                    old.append(path)
        for path in sorted(old, reverse=True):  # files before their folders
            with suppress(OSError):  # deleted meanwhile, or a folder that is not empty
                path.rmdir() if path.is_dir() else path.unlink()
                removed.append(path.name)
        return removed

    @abstractmethod
    def _delete(self, prefix: str) -> None: ...


def open_undamaged(path: Path, sha256: str, *, unread: bool = True) -> BufferedReader | None:
    """The regular file with this digest; None if there is none. Does not block on a FIFO. Raises
    OSError. `unread`: it need not be read if this process has done so, and it is unchanged."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in MISSING:
            return None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None
    with ExitStack() as unless_valid:
        file = unless_valid.enter_context(os.fdopen(handle, "rb"))
        identity = _identity(file)
        with _lock:
            known = unread and _known.get(identity) == sha256
        if not known:
            if digest_of(file) != sha256:
                return None
            _remember(identity, sha256)
        unless_valid.pop_all()
    return file


def still_undamaged(file: BufferedReader, sha256: str) -> None:
    """The process has changed the times of a file, not its content."""
    _remember(_identity(file), sha256)


def digest_of(file: BufferedReader) -> str:
    """The sha-256 of the rest of the file; the position does not change."""
    start = file.tell()
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(start)
    return digest


def _identity(file: BufferedReader) -> _Identity:
    now = os.fstat(file.fileno())
    return now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns


def _remember(identity: _Identity, sha256: str) -> None:
    _, _, size, *_ = identity
    if size < KNOWN_FROM_BYTES:
        return
    with _lock:
        _known[identity] = sha256
        _known.move_to_end(identity)
        while len(_known) > KNOWN:
            _known.popitem(last=False)
