"""Files are written completely or not at all."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from service.storage.blobs import BlobDamaged, Blobs
from tests.backends import ON_ALL_BACKENDS

pytestmark = ON_ALL_BACKENDS

SHA256 = hashlib.sha256(b"content").hexdigest()


def test_written_content_is_read_with_its_digest(blobs: Blobs) -> None:
    """Under the same key, with digest and size of the bytes."""
    blob = blobs.write("datasets/ds_1/X", b"content")
    assert (blob.key, blob.sha256, blob.size_bytes) == ("datasets/ds_1/X", SHA256, 7)
    assert blobs.read("datasets/ds_1/X", SHA256) == b"content"
    with blobs.open("datasets/ds_1/X", SHA256) as file:
        assert file.read(3) == b"con"
        file.seek(5)
        assert file.read() == b"nt"


def test_finished_file_is_adopted(blobs: Blobs) -> None:
    """A temporary file becomes a blob."""
    with blobs.temporary() as path:
        path.write_bytes(b"content")
        blob = blobs.adopt("models/m1", path)
    assert (blob.sha256, blob.size_bytes) == (SHA256, 7)
    assert not path.exists()
    assert blobs.read("models/m1", SHA256) == b"content"


def test_failed_write_leaves_no_file(blobs: Blobs) -> None:
    """The temporary file is deleted after the error."""
    paths: list[Path] = []

    def write_half() -> None:
        with blobs.temporary() as path, blobs.temporary_folder() as folder:
            paths.extend((path, folder))
            path.write_bytes(b"half")
            (folder / "X").write_bytes(b"half")
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        write_half()
    assert not any(path.exists() for path in paths)
    assert list(blobs.keys()) == []


def test_missing_file_is_reported(blobs: Blobs) -> None:
    """As damaged."""
    with pytest.raises(BlobDamaged):
        blobs.read("models/none", SHA256)


def test_other_bytes_are_refused(blobs: Blobs) -> None:
    """The digest is checked at every read."""
    blobs.write("models/m1", b"contents")
    with pytest.raises(BlobDamaged):
        blobs.open("models/m1", SHA256)
    assert blobs.read("models/m1", hashlib.sha256(b"contents").hexdigest()) == b"contents"


def test_deleting_a_prefix_removes_all_below_it(blobs: Blobs) -> None:
    """Only these files; deleting again does nothing."""
    for key in ("datasets/ds_1/X", "datasets/ds_1/y", "datasets/ds_11/X"):
        blobs.write(key, b"content")
    blobs.delete("datasets/ds_1")
    blobs.delete("datasets/ds_1")
    assert list(blobs.keys()) == ["datasets/ds_11/X"]
    blobs.delete("datasets/ds_11/X")
    assert list(blobs.keys()) == []


def test_keys_can_be_listed_by_age(blobs: Blobs) -> None:
    """Younger files are left out."""
    blobs.write("models/m1", b"content")
    assert list(blobs.keys(older_than_s=60)) == []
    assert list(blobs.keys()) == ["models/m1"]


def test_old_unfinished_files_are_swept(blobs: Blobs) -> None:
    """Newer ones, which can still be in use, stay."""
    with blobs.temporary() as path, blobs.temporary_folder() as folder:
        (folder / "X").write_bytes(b"half")
        assert list(blobs.keys()) == []
        assert blobs.sweep_scratch(older_than_s=60) == []
        assert path.exists()
        assert set(blobs.sweep_scratch(older_than_s=0)) == {path.name, folder.name, "X"}
        assert not path.exists()
        folder.mkdir()  # for its owner to remove
