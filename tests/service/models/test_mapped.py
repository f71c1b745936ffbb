"""Memory-mapped arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import psutil
import pytest

from service.models.artifacts import blocks, digest, dump, load, map_array
from service.storage.blobs.base import digest_of
from svm.kernel.kernels import LinearKernel
from svm.model.pipeline import FittedPipeline
from svm.model.serialization import to_arrays
from svm.transforms.features import FeatureMap, Identity
from svm.transforms.scaling import Scaling

SHAPE = (8, 1 << 20)
BYTES = 8 * 8 * (1 << 20)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of 64 MiB of ones, behind a header."""
    path = tmp_path / "array"
    with path.open("wb") as file:
        file.write(b"skip" * 32)
        for _ in range(SHAPE[0]):
            file.write(np.ones(SHAPE[1]).data)
    return path


def model(vectors: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> FittedPipeline:
    return FittedPipeline(
        classes=np.array(["a", "b"]),
        scaling=Scaling(),
        features=FeatureMap(Identity(), SHAPE[1]),
        coefficients=np.ones((1, SHAPE[0])),
        intercepts=np.zeros(1),
        kernel=LinearKernel(),
        support_vectors=vectors,
    )


def test_memory_of_read_blocks_is_released(path: Path) -> None:
    """Reading all 64 MiB leaves little of it in memory."""
    array = map_array(path, np.dtype("<f8"), SHAPE, 128)
    before = psutil.Process().memory_info().rss
    assert sum(float(block.sum()) for block in blocks(array)) == BYTES / 8
    assert psutil.Process().memory_info().rss - before < BYTES / 4
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 2.0


def test_model_of_mapped_arrays_is_written_like_any_other(path: Path, tmp_path: Path) -> None:
    """The same file and the same digest as of arrays in memory, and little memory."""
    files = tmp_path / "mapped", tmp_path / "loaded"
    array = map_array(path, np.dtype("<f8"), SHAPE, 128)
    before = psutil.Process().memory_info().rss
    digests = [dump(model(array), files[0])]
    assert psutil.Process().memory_info().rss - before < BYTES * 3 / 4
    digests.append(dump(model(np.ones(SHAPE)), files[1]))
    assert digests[0] == digests[1] == digest(to_arrays(model(array)))
    content = files[0].read_bytes()
    assert content == files[1].read_bytes()
    with files[0].open("rb") as file:
        loaded = load(content, digest_of(file))
    assert digest(to_arrays(loaded)) == digests[0]


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2, 3)])
def test_small_arrays(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """Empty ones, too."""
    expected = np.arange(float(np.prod(shape))).reshape(shape)
    (tmp_path / "array").write_bytes(b"skip" * 32 + expected.tobytes())
    array = map_array(tmp_path / "array", np.dtype("<f8"), shape, 128)
    assert array.shape == shape
    assert array.tolist() == expected.tolist()
    assert sum(len(block) for block in blocks(array)) == expected.size
