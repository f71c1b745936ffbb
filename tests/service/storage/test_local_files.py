"""A directory of blobs: only regular files are valid; errors of the disk are not damage."""

from __future__ import annotations

import hashlib
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from service.errors import Unavailable
from service.storage.blobs import BlobDamaged, LocalBlobs
from service.storage.blobs.base import KNOWN_FROM_BYTES
from service.storage.blobs.s3 import FileCache

SHA256 = hashlib.sha256(b"content").hexdigest()


def _directory(path: Path) -> None:
    path.mkdir()


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))  # the path of a socket is short


def _link_to(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


@pytest.fixture
def blobs(tmp_path: Path) -> LocalBlobs:
    blobs = LocalBlobs(tmp_path / "blobs")
    blobs.write("models/m1", b"content")
    return blobs


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    "plant",
    [
        *(_directory, os.mkfifo, _socket),
        *(_link_to(name) for name in ("m1", "nowhere", "/dev/zero", "m0/m0")),
    ],
    ids=["directory", "fifo", "socket", "loop", "dangling", "device", "below-a-file"],
)
def test_anything_but_a_regular_file_is_damage(
    blobs: LocalBlobs, plant: Callable[[Path], None]
) -> None:
    """It does not block, also not in the sweep. A local copy is fetched again."""
    path = blobs.path("models/m1")
    path.with_name("m0").touch()
    path.unlink()
    plant(path)
    with pytest.raises(BlobDamaged):
        blobs.read("models/m1", SHA256)
    assert set(blobs.keys()) <= {"models/m0", "models/m1"}
    cache = FileCache(path.parent, 100)
    path.rename(path.with_name(SHA256))
    assert cache.open(SHA256) is None


LARGE = bytes(KNOWN_FROM_BYTES)
LARGE_SHA256 = hashlib.sha256(LARGE).hexdigest()


def _damaged_quietly(path: Path) -> None:
    """As by a disk: only the times of the file show that it was written to, and can be set back
    but for that of the change."""
    before = path.stat()
    with path.open("r+b") as file:
        file.write(b"x")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_large_file_is_read_once_by_a_process(blobs: LocalBlobs) -> None:
    """If it is unchanged: a change is found, as is another file with this name."""
    blobs.write("datasets/X", LARGE)
    path = blobs.path("datasets/X")
    begun = _bytes_read()
    blobs.open("datasets/X", LARGE_SHA256).close()
    assert _bytes_read() - begun >= len(LARGE)
    begun = _bytes_read()
    for _ in range(3):
        blobs.open("datasets/X", LARGE_SHA256).close()
    assert _bytes_read() - begun < len(LARGE)
    begun = _bytes_read()
    blobs.check("datasets/X", LARGE_SHA256)
    assert _bytes_read() - begun >= len(LARGE)
    with pytest.raises(BlobDamaged):
        blobs.open("datasets/X", SHA256)
    time.sleep(0.02)  # beyond the resolution of file times
    _damaged_quietly(path)
    with pytest.raises(BlobDamaged):
        blobs.open("datasets/X", LARGE_SHA256)
    blobs.write("datasets/X", LARGE)
    assert blobs.read("datasets/X", LARGE_SHA256) == LARGE


def test_large_copy_is_read_once_by_a_process(tmp_path: Path) -> None:
    """Although its time of use is written with each use."""
    cache = FileCache(tmp_path / "copies", 2 * len(LARGE))
    (tmp_path / "source").write_bytes(LARGE)
    cache.add(LARGE_SHA256, tmp_path / "source")
    for first in (True, False, False):
        begun = _bytes_read()
        file = cache.open(LARGE_SHA256)
        assert file is not None
        file.close()
        assert (_bytes_read() - begun >= len(LARGE)) == first


def _bytes_read() -> int:
    """By this process, also from memory."""
    return int(psutil.Process().io_counters().read_chars)


def test_file_behind_a_link_is_read(blobs: LocalBlobs, tmp_path: Path) -> None:
    """An operator can move a large file to another disk."""
    path = blobs.path("models/m1")
    path.symlink_to(path.rename(tmp_path / "m1"))
    assert blobs.read("models/m1", SHA256) == b"content"


def test_unreadable_file_is_unavailable(blobs: LocalBlobs) -> None:
    """An error of the disk (EIO, as for this file) does not mean that the file is damaged."""
    path = blobs.path("models/m1")
    path.unlink()
    path.symlink_to("/proc/self/mem")
    with pytest.raises(Unavailable):
        blobs.read("models/m1", SHA256)
    path.rename(path.with_name(SHA256))
    assert FileCache(path.parent, 100).open(SHA256) is None


@pytest.mark.parametrize("instead", ["nothing", "an empty directory", "a file"])
def test_missing_directory_is_unavailable(blobs: LocalBlobs, tmp_path: Path, instead: str) -> None:
    """If a disk is not mounted, its files are not damaged, and no directory is created instead."""
    directory = blobs.scratch.parent
    directory.rename(tmp_path / "away")
    if instead == "an empty directory":
        directory.mkdir()
    elif instead == "a file":
        directory.touch()

    def attempts() -> list[Callable[[], object]]:
        return [
            lambda: blobs.read("models/m1", SHA256),
            lambda: blobs.write("models/m2", b"content"),
            lambda: blobs.temporary_folder().__enter__(),
            lambda: list(blobs.keys()),
            blobs.check_room,
        ]

    for attempt in attempts():
        with pytest.raises(Unavailable):
            attempt()
    blobs.delete("models/m1")  # the sweep deletes it later
    if directory.is_dir():
        assert list(directory.iterdir()) == []
        directory.rmdir()
    directory.unlink(missing_ok=True)
    (tmp_path / "away").rename(directory)
    assert blobs.read("models/m1", SHA256) == b"content"
