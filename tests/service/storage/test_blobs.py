"""Files are written whole or not at all."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from service.storage.blobs import Blobs


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path / "blobs")


def test_written_content_comes_back_with_its_digest(blobs: Blobs) -> None:
    """What is written under a key is read under it; digest and size are those of the bytes."""
    blob = blobs.write("datasets/ds_1/X.npy", b"content")
    assert blobs.read("datasets/ds_1/X.npy") == b"content"
    assert (blob.sha256, blob.size_bytes) == (hashlib.sha256(b"content").hexdigest(), 7)
    with blobs.open("datasets/ds_1/X.npy") as file:
        assert file.read() == b"content"


def test_failed_writing_leaves_nothing(blobs: Blobs) -> None:
    """A temporary file disappears with the error that interrupted its writer."""

    def write_half() -> None:
        with blobs.temporary() as path:
            path.write_bytes(b"half")
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        write_half()
    assert list(blobs.keys()) == []


def test_missing_key_is_an_error(blobs: Blobs) -> None:
    """Reading what is not there raises FileNotFoundError."""
    with pytest.raises(FileNotFoundError):
        blobs.read("models/none")


def test_deleting_a_prefix_removes_all_below_it(blobs: Blobs) -> None:
    """A dataset's files go together, and only they; deleting again changes nothing."""
    for key in ("datasets/ds_1/X.npy", "datasets/ds_1/y.npy", "datasets/ds_11/X.npy"):
        blobs.write(key, b"")
    blobs.delete("datasets/ds_1")
    blobs.delete("datasets/ds_1")
    assert list(blobs.keys()) == ["datasets/ds_11/X.npy"]
    blobs.delete("datasets/ds_11/X.npy")
    assert list(blobs.keys()) == []


def test_keys_can_be_asked_by_age(blobs: Blobs) -> None:
    """A file younger than the age asked for is left out."""
    blobs.write("models/m1", b"")
    assert list(blobs.keys(older_than_s=60)) == []
    assert list(blobs.keys()) == ["models/m1"]
