"""Files with the digest that they must have."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections import OrderedDict
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from threading import Lock
from typing import TypeAlias

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
