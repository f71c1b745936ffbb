"""NPY files."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import numpy as np
import pytest

from service.errors import InvalidContent, UnsupportedFormat
from service.rows.spec import NPY
from tests.service.rows.arrays import npy
from tests.service.rows.reading import places, refusal, upload

X = np.array([[1.5, 2, 0], [-3, 4, 1]])


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", ">f4", "<f2", "<i8", ">i4", "i1", "<u2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_numbers_of_any_type_and_order(dtype: str, order: Any) -> None:
    """All of them become float64 in C order; the last column holds the labels."""
    array = np.asarray(np.abs(X), dtype=dtype, order=order)
    result = upload(npy(array), NPY)
    assert result.arrays["X"].tolist() == array[:, :2].astype(float).tolist()
    assert result.arrays["X"].flags.c_contiguous
    assert result.rows_of_labels == [0, 1]


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_versions_of_the_format(version: tuple[int, int]) -> None:
    """All that NumPy writes."""
    assert upload(npy(X, version), NPY).parsed.n_samples == 2


def test_booleans_are_zero_and_one() -> None:
    """As features; as labels they stay booleans."""
    result = upload(npy(np.array([[True, False], [False, True]])), NPY)
    assert result.arrays["X"].tolist() == [[1], [0]]
    assert result.parsed.classes == [False, True]


def test_target_by_position_or_none() -> None:
    """Columns have no names here."""
    result = upload(npy(X), NPY, target="0")
    assert result.arrays["X"].tolist() == [[2, 0], [4, 1]]
    assert result.rows_of_labels == [1.5, -3.0]
    assert upload(npy(X), NPY, target="none").arrays["X"].tolist() == X.tolist()
    assert refusal(npy(X), NPY, target="k").code == "target-missing"
    assert refusal(npy(X), NPY, target="3").code == "target-missing"


def test_vector_needs_labels() -> None:
    """A vector is one feature column if labels are beside it; else it gets a hint."""
    vector = npy(np.array([1.0, 2.0]))
    assert upload(vector, NPY, labels="x\ny\n").arrays["X"].shape == (2, 1)
    error = refusal(vector, NPY)
    assert error.code == "npy-unsupported"
    assert "reshape" in error.detail


def test_numbers_that_are_not_finite() -> None:
    """Every one is named by row and column."""
    array = np.array([[1, np.nan, 0], [np.inf, 2, 1], [3, 4, np.nan], [5, 6, 1]])
    error = refusal(npy(array), NPY)
    assert sorted(places(error), key=str) == [
        ("non-finite-value", 1, 1, "nan"),
        ("non-finite-value", 2, 0, "inf"),
    ]


@pytest.mark.parametrize(
    "array",
    [
        np.array([[{"a": 1}]], dtype=object),
        np.array([["x"]]),
        np.array([[b"x"]]),
        np.array([[1j]]),
        np.array([[1]], dtype="m8[s]"),
        np.zeros((1, 1), dtype=[("a", "f8")]),
        np.zeros((1, 1), dtype=np.longdouble),
        np.zeros((2, 2, 2)),
        np.float64(1),
    ],
    ids=["object", "text", "bytes", "complex", "time", "record", "longdouble", "cube", "scalar"],
)
def test_other_arrays_are_refused(array: Any) -> None:
    """Objects above all: nothing is ever unpickled."""
    error = refusal(npy(np.asarray(array)), NPY)
    assert isinstance(error, InvalidContent)
    assert error.code == "npy-unsupported"


@pytest.mark.parametrize("shape", [(0, 3), (3, 0)])
def test_empty_arrays(shape: tuple[int, int]) -> None:
    """No rows or no columns."""
    assert refusal(npy(np.zeros(shape)), NPY).code == "empty-data"


def lying(header: str) -> bytes:
    text = header.encode() + b" " * (117 - len(header)) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(48)


def of_shape(shape: str) -> str:
    return f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"


HUGE = f"({'9' * 4000}, {'9' * 4000})"


@pytest.mark.parametrize(
    "content",
    [
        npy(X)[:-1],
        npy(X) + b"\0",
        npy(X)[:64],
        npy(X)[:7],
        b"\x93NUMPY\x09\x00" + npy(X)[8:],
        lying(of_shape("(1000000000000, 1000000)")),
        lying(of_shape("(-2, -3)")),
        lying(of_shape("(2.0, 3)")),
        lying(of_shape("(True, 6)")),
        lying(of_shape(HUGE)),
        lying(of_shape(str((6,) + (1,) * 3000))),
        lying("{'descr': '<f8', 'shape': (2, 3), }"),
        lying("{'descr': '<q9', 'fortran_order': False, 'shape': (2, 3), }"),
        lying("__import__('os').system('true')"),
        lying("(" * 100),
    ],
)
def test_headers_that_lie(content: bytes) -> None:
    """The header is compared with the file's size before anything is read."""
    error = refusal(content, NPY)
    assert isinstance(error, InvalidContent)
    assert error.code == "npy-corrupt"
    assert len(error.detail) < 200


def test_long_header_is_not_read() -> None:
    """A header of 32 MB, which NumPy would refuse after reading it, costs no memory."""
    content = b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 25) + b" " * (1 << 25)
    tracemalloc.start()
    error = refusal(content, NPY)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert error.code == "npy-corrupt"
    assert peak_bytes < 2_000_000


def test_other_files() -> None:
    """What does not begin like an NPY file is none."""
    for content in (b"a,b\n1,2\n", b"PK\x03\x04"):
        assert isinstance(refusal(content, NPY), UnsupportedFormat)
    assert refusal(b"", NPY).code == "npy-corrupt"


def test_blocks_of_a_large_array() -> None:
    """Blocks of rows follow each other in both orders."""
    array = np.arange(3_000_000, dtype=np.float64).reshape(-1, 3)
    for content in (npy(array), npy(np.asfortranarray(array))):
        assert np.array_equal(upload(content, NPY, target="none").arrays["X"], array)
    assert refusal(npy(array), NPY, limits={"stored_values": 10}).code == "too-many-values"
    assert refusal(npy(array), NPY, limits={"rows": 10}).code == "too-many-rows"
