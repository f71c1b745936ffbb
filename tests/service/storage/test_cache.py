"""Local copies of files on S3: bounded and verified."""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from service.settings import Settings
from service.storage.blobs import BlobDamaged, Blobs, open_blobs
from service.storage.blobs.s3 import FileCache
from tests.backends import ON_POSTGRES_AND_S3

KIB = 1024


def _content(number: int) -> tuple[str, bytes]:
    content = bytes([number]) * KIB
    return hashlib.sha256(content).hexdigest(), content


def _opened(cache: FileCache, sha256: str) -> bytes | None:
    file = cache.open(sha256)
    if file is None:
        return None
    with file:
        return file.read()


def _add(cache: FileCache, folder: Path, number: int) -> str:
    sha256, content = _content(number)
    source = folder / f"source-{number}"
    source.write_bytes(content)
    cache.add(sha256, source)
    os.utime(folder / "copies" / sha256, (number, number))
    return sha256


def test_least_recently_used_copies_are_deleted(tmp_path: Path) -> None:
    """As many stay as fit; opening a copy counts as use."""
    cache = FileCache(tmp_path / "copies", 3 * KIB)
    copies = [_add(cache, tmp_path, number) for number in range(3)]
    assert _opened(cache, copies[0])
    copies += [_add(cache, tmp_path, number) for number in (3, 4)]
    there = [_opened(cache, sha256) is not None for sha256 in copies]
    assert there == [True, False, False, True, True]


def test_file_larger_than_the_cache_is_not_stored(tmp_path: Path) -> None:
    """The other copies stay."""
    cache = FileCache(tmp_path / "copies", 2 * KIB)
    small = _add(cache, tmp_path, 1)
    large = tmp_path / "large"
    large.write_bytes(bytes(3 * KIB))
    cache.add("0" * 64, large)
    assert large.exists()
    assert _opened(cache, small)


def test_deleted_copy_stays_readable_while_it_is_open(tmp_path: Path) -> None:
    """Its space is freed when the last reader closes it."""
    cache = FileCache(tmp_path / "copies", KIB)
    sha256, content = _content(1)
    _add(cache, tmp_path, 1)
    file = cache.open(sha256)
    assert file is not None
    with file:
        cache.shrink(0)
        assert _opened(cache, sha256) is None
        assert file.read() == content


def test_processes_can_share_a_cache(tmp_path: Path) -> None:
    """With concurrent changes a copy is complete or missing."""

    def work(worker: int) -> None:
        folder = tmp_path / str(worker)
        folder.mkdir()
        cache = FileCache(tmp_path / "copies", 4 * KIB)
        for number in range(40):
            sha256, content = _content((number * 7 + worker) % 16)
            (folder / "source").write_bytes(content)
            cache.add(sha256, folder / "source")
            assert _opened(cache, sha256) in (None, content)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))


@ON_POSTGRES_AND_S3
def test_damaged_copy_is_fetched_again(blobs: Blobs, settings: Settings) -> None:
    """A damaged copy is not reported as a damaged object."""
    sha256, content = _content(1)
    blobs.write("models/m1", content)
    assert blobs.read("models/m1", sha256) == content
    copy = settings.data_dir / "s3" / "copies" / sha256
    copy.write_bytes(content[:-1])
    assert blobs.read("models/m1", sha256) == content
    blobs.write("models/m1", content[:-1])
    assert blobs.read("models/m1", sha256) == content  # from the copy
    copy.unlink()
    with pytest.raises(BlobDamaged):
        blobs.read("models/m1", sha256)


@ON_POSTGRES_AND_S3
def test_large_file_is_sent_in_parts(settings: Settings, blobs: Blobs) -> None:
    """Above 8 MiB; it has the same bytes when it is read."""
    content = os.urandom(9 * KIB * KIB)
    with blobs.temporary() as path:
        path.write_bytes(content)
        blob = blobs.adopt("datasets/ds_1/X", path)
    elsewhere = open_blobs(settings.model_copy(update={"data_dir": settings.data_dir / "e"}))
    assert elsewhere.read("datasets/ds_1/X", blob.sha256) == content
