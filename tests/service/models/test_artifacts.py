from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import pickle
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joblib.numpy_pickle import NumpyArrayWrapper

from service.errors import Corrupt
from service.models import artifacts
from svm.model.pipeline import FittedPipeline
from svm.model.serialization import to_arrays
from tests.service.models.registered_models import fitted_pipeline

GOLDEN = Path(__file__).parent / "golden"


def load(content: bytes) -> FittedPipeline:
    """Read a file whose digest is that of its row."""
    return artifacts.load(content, hashlib.sha256(content).hexdigest())


def dumped(value: object) -> bytes:
    file = io.BytesIO()
    joblib.dump(value, file)
    return file.getvalue()


@pytest.mark.parametrize(
    "classes", [("no", "yes"), ("é", "ü", "longer"), (1, 2, 3), (0.5, 1.5), (False, True)], ids=str
)
@pytest.mark.parametrize("scaled", [False, True])
def test_loaded_model_is_the_dumped_one(
    tmp_path: Path, classes: tuple[Any, ...], scaled: bool
) -> None:
    """Every array has the same type and bits, and the digest is the same."""
    fitted = fitted_pipeline(classes, scaled=scaled)
    digest = artifacts.dump(fitted, tmp_path / "model")
    loaded = load((tmp_path / "model").read_bytes())
    for name, value in to_arrays(fitted).items():
        again = to_arrays(loaded)[name]
        np.testing.assert_array_equal(again, value, strict=isinstance(value, np.ndarray))
    assert artifacts.digest(to_arrays(loaded)) == digest


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.joblib")), ids=lambda path: path.stem)
def test_file_of_a_past_format_still_predicts(path: Path) -> None:
    """A model file of an older version gives the same labels and values."""
    expected = json.loads(path.with_suffix(".json").read_text())
    fitted = artifacts.load(path.read_bytes(), expected["sha256"])
    assert fitted.predict(np.array(expected["X"])).tolist() == expected["label"]
    decision = fitted.decision_function(np.array(expected["X"]))
    np.testing.assert_allclose(decision, expected["decision"], rtol=1e-12)
    assert artifacts.digest(to_arrays(fitted)) == expected["digest"]


def test_every_past_format_has_a_golden_file() -> None:
    """A new format number needs a new golden file."""
    formats = range(1, to_arrays(fitted_pipeline())["format"] + 1)
    assert {path.stem for path in GOLDEN.glob("*.joblib")} == {f"format-{n}" for n in formats}


def test_digest_depends_on_content_only() -> None:
    """Order of entries, memory layout and byte order do not matter."""
    a = np.arange(6.0).reshape(2, 3)
    digest = artifacts.digest({"a": a, "n": 1})
    assert artifacts.digest({"n": 1, "a": np.asfortranarray(a)}) == digest
    assert artifacts.digest({"n": 1, "a": a.astype(">f8")}) == digest


@pytest.mark.parametrize(
    "other",
    [
        {"a": np.array([1.0, 2.0])},
        {"a": np.array([1, 3])},
        {"a": np.array([[1, 2]])},
        {"b": np.array([1, 2])},
        {"a": "1"},
        {"a": 1},
        {"a": 1.0},
        {"a": np.array([1, 2]), "b": 0},
        {"a": np.array(["1", "2"])},
    ],
    ids=str,
)
def test_digest_differs_for_every_difference(other: dict[str, Any]) -> None:
    """Values, types, shapes and names all matter."""
    assert artifacts.digest(other) != artifacts.digest({"a": np.array([1, 2])})


def test_dump_refuses_what_is_not_plain(tmp_path: Path) -> None:
    """An array of Python objects would be pickled."""
    fitted = replace(fitted_pipeline(), classes=np.array(["a", "b"], dtype=object))
    with pytest.raises(TypeError):
        artifacts.dump(fitted, tmp_path / "model")


def test_digest_is_checked_before_the_file_is_read() -> None:
    """A file with a flipped bit or a missing byte is refused."""
    content = (GOLDEN / "format-1.joblib").read_bytes()
    expected = hashlib.sha256(content).hexdigest()
    flipped = content[:-1] + bytes([content[-1] ^ 1])
    for wrong in (flipped, content[:-1], content + b"\0", b""):
        with pytest.raises(Corrupt, match="model-corrupt"):
            artifacts.load(wrong, expected)


class Exploit:
    """Unpickling it creates a directory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return os.mkdir, (str(self._path),)


@pytest.mark.parametrize(
    "plant",
    [
        lambda exploit: pickle.dumps(exploit),
        lambda exploit: dumped(exploit),
        lambda exploit: dumped({"format": 1, "classes": exploit}),
        lambda exploit: dumped({"format": 1, "classes": np.array([exploit], dtype=object)}),
        lambda exploit: pickle.dumps(exploit, protocol=0),
    ],
    ids=["pickle", "joblib", "entry", "object-array", "protocol-0"],
)
def test_planted_code_never_runs(tmp_path: Path, plant: Callable[[Exploit], bytes]) -> None:
    """Not even if the row has the sha-256 of the planted file."""
    with pytest.raises(Corrupt):
        load(plant(Exploit(tmp_path / "planted")))
    assert not (tmp_path / "planted").exists()
    joblib.load(io.BytesIO(dumped(Exploit(tmp_path / "planted"))))
    assert (tmp_path / "planted").exists(), "the exploit works with joblib itself"


def huge_array(n_bytes: int) -> bytes:
    """A file that claims to contain an array of `n_bytes`."""
    wrapper = NumpyArrayWrapper(np.ndarray, (n_bytes // 8,), "C", np.dtype("f8"))
    return pickle.dumps({"format": 1, "classes": wrapper}, protocol=4) + b"\0" * 64


@pytest.mark.parametrize(
    "content",
    [
        huge_array(2**31),
        # BYTEARRAY8 allocates memory before it reads.
        b"\x80\x05\x96" + (2**31).to_bytes(8, "little") + b".",
        # numpy.ndarray((2**31,))
        b"\x80\x04\x8c\x05numpy\x8c\x07ndarray\x93\x8a\x05"
        + (2**31).to_bytes(5, "little")
        + b"\x85\x85R.",
    ],
    ids=["array", "bytearray", "ndarray"],
)
def test_nothing_is_allocated_for_a_size_that_a_file_claims(content: bytes) -> None:
    """The file is refused first."""
    tracemalloc.start()
    try:
        with pytest.raises(Corrupt, match="model-corrupt"):
            load(content)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "content",
    [
        # numpy.dtype("V1000000000")
        b"\x80\x04\x8c\x05numpy\x8c\x05dtype\x93\x8c\x0bV1000000000\x85R.",
        dumped({"format": 1, "classes": np.zeros(2, dtype=[("a", "f8")])}),
        dumped({"format": 1, "classes": np.array([1j, 2j])}),
        dumped([1, 2, 3]),
        dumped({"format": 2}),
        dumped({}),
    ],
    ids=["void", "record", "complex", "list", "format-2", "empty"],
)
def test_what_dump_would_not_write_is_refused(content: bytes) -> None:
    """Other types, other contents, newer formats."""
    with pytest.raises(Corrupt, match="model-corrupt"):
        load(content)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_damaged_file_is_read_or_refused(data: st.DataObject) -> None:
    """Garbage raises only Corrupt, even with a matching sha-256."""
    content = bytearray((GOLDEN / "format-1.joblib").read_bytes())
    for position in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=4)):
        content[position] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.integers(0, len(content)))]
    with contextlib.suppress(Corrupt):
        assert isinstance(load(bytes(content)), FittedPipeline)
