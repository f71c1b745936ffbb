"""NPZ: two arrays in an archive."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array, save_npz, vstack

from service.rows.spec import NPZ
from tests.service.rows.arrays import npy
from tests.service.rows.reading import refusal, upload

X = np.array([[1.0, 2.5], [3.0, 4.0], [5.0, 6.0]])


def npz(compressed: bool = False, **arrays: Any) -> bytes:
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **arrays)
    return file.getvalue()


def archive(*members: tuple[str, bytes], comment: bytes = b"", method: int = 8) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as made:
        for name, content in members:
            made.writestr(name, content)
        made.comment = comment
    return file.getvalue()


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    ("y", "labels"),
    [
        (np.array(["b", "a", "b"]), ["a", "b"]),
        (np.array([["2"], ["1"], ["2"]]), ["1", "2"]),
        (np.array([2, 1, 2], ">i4"), [1, 2]),
        (np.array([1, 0.5, 1]), [0.5, 1.0]),  # numbers
        (np.array([True, False, True]), [False, True]),
    ],
)
def test_features_and_labels(y: Any, labels: list[Any], compressed: bool) -> None:
    """Labels keep their kind."""
    result = upload(npz(compressed, X=np.asfortranarray(X, ">f8"), y=y), NPZ)
    assert result.arrays["X"].tolist() == X.tolist()
    assert repr(result.rows_of_labels) == repr([labels[1], labels[0], labels[1]])


def test_features_alone() -> None:
    """There are no labels then, unless some column or a file holds them."""
    assert upload(npz(X=X), NPZ).parsed.classes is None
    assert upload(npz(X=X), NPZ, target="0").parsed.classes == [1, 3, 5]
    assert upload(npz(X=X), NPZ, labels="a\nb\na\n").parsed.classes == ["a", "b"]


GOOD = ("X.npy", npy(X))
ENCRYPTED = bytearray(archive(GOOD))
ENCRYPTED[ENCRYPTED.index(b"PK\x01\x02") + 8] |= 1


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (archive(GOOD, ("../../etc/passwd", b"x")), "passwd"),
        (archive(GOOD, ("y.npy", npy(X)), ("z.npy", b"")), "'z.npy'"),
        (archive(GOOD, ("Y.npy", npy(X))).replace(b"Y.npy", b"X.npy"), "two members"),
        (archive(("y.npy", npy(X))), "no member X"),
        (archive(GOOD, comment=b"hello"), "without a comment"),
        (archive(("Z.npy", npy(X))), "Z.npy"),
        (archive(GOOD, method=zipfile.ZIP_BZIP2), "'X.npy' is compressed in a way"),
        (archive(GOOD, method=zipfile.ZIP_LZMA), "'X.npy' is compressed in a way"),
        (archive(GOOD, method=zipfile.ZIP_LZMA).replace(b"\0" * 9, b"\xff" * 9), "in a way"),
        (archive(GOOD).replace(b"\x08\0", b"\x63\0"), "'X.npy' is compressed in a way"),
        (archive(GOOD)[:-1], "without a comment"),
        (b"PK\x03\x04", "without a comment"),
        (archive(GOOD)[:40] + b"\xff" * 20 + archive(GOOD)[60:], "damaged"),
        (ENCRYPTED, "encrypted"),
    ],
)
def test_archives_that_are_not_read(content: bytes, said: str) -> None:
    """Nothing but X and y is ever taken out of one."""
    error = refusal(content, NPZ)
    assert error.code == "npz-unsafe"
    assert said in error.detail


def test_directory_of_many_members_is_not_read() -> None:
    """Its length is known before."""
    error = refusal(archive(GOOD, *((f"m{i}", b"") for i in range(20_000))), NPZ)
    assert error.code == "npz-unsafe"


@pytest.mark.parametrize(
    ("content", "options", "code"),
    [
        (npz(X=X, y=np.array(["a"])), {}, "label-count"),
        (npz(X=X, y=X), {}, "npy-unsupported"),
        (npz(X=X, y=np.array([1, np.inf, 2])), {}, "non-finite-value"),
        (npz(X=X * 1j), {}, "npy-unsupported"),
        (npz(X=X[0]), {}, "npy-unsupported"),
        (npz(X=X, y=np.array([b"a", b"b", b"c"])), {}, "npy-unsupported"),
        (npz(X=np.array([["a", "b"]])), {}, "npy-unsupported"),
        (npz(X=X, y=np.array(["a", "\ud800", "c"])), {}, "npy-corrupt"),
        (archive(("X.npy", npy(X)[:-1])), {}, "npy-corrupt"),
        (npz(X=X, y=np.arange(3)), {"target": "0"}, "invalid-parameter"),
        (npz(X=X, y=np.arange(3)), {"labels": "1\n2\n3\n"}, "invalid-parameter"),
        (npy(X), {}, "format-mismatch"),
        (b"a,b\n1,2\n", {}, "format-mismatch"),
        (npz(X=np.zeros((3, 0))), {}, "empty-data"),
        (npz(True, X=np.zeros((1000, 1000))), {}, "decompression-limit"),
        (npz(X=X), {"limits": {"inflated_bytes": 100}}, "decompression-limit"),
    ],
)
def test_arrays_that_are_refused(content: bytes, options: Any, code: str) -> None:
    """As those of NPY files are; and bombs."""
    assert refusal(content, NPZ, **options).code == code


def test_number_beyond_unicode_is_no_text() -> None:
    """What NumPy cannot read as text is refused."""
    content = npy(np.array(["a", "b", "c"])).replace("b".encode("utf-32-le"), b"\xff\xff\xff\x7f")
    error = refusal(archive(GOOD, ("y.npy", content)), NPZ)
    assert error.code == "npy-corrupt"


def saved(matrix: Any) -> bytes:
    file = io.BytesIO()
    save_npz(file, matrix)
    return file.getvalue()


@pytest.mark.parametrize("kind", [csr_array, csc_array])
def test_sparse_matrices_of_scipy(kind: Callable[[Any], Any]) -> None:
    """The same arrays as of LIBSVM lines, whether or not the matrix is sorted; labels may be a
    second file."""
    X = np.zeros((40, 9))
    X[::2, 3], X[1::3, 7], X[5] = 2.5, -1.0, 0.0
    expected = csr_array(X)
    matrix = kind(X)
    result = upload(saved(matrix), NPZ, target="none")
    assert (result.parsed.sparse, result.parsed.n_features) == (True, 9)
    for name in ("data", "indices", "indptr"):
        assert np.array_equal(result.arrays[name], getattr(expected, name))
    labels = "".join(f"{'uv'[i % 2]}\n" for i in range(40))
    assert upload(saved(matrix), NPZ, labels=labels).rows_of_labels == labels.split()
    assert not upload(saved(matrix), NPZ, dense="always").parsed.sparse


def test_sparse_matrices_are_appended_to_sparse_and_dense_rows() -> None:
    """As LIBSVM rows are; an array is refused by a sparse dataset."""
    matrix = csr_array(np.array([[0, 1, 0, 0, 0], [0, 0, 2, 0, 0], [3, 0, 0, 0, 0]]))
    for dense in ("never", "always"):
        onto = upload(saved(matrix), NPZ, dense=dense)
        both = upload(saved(matrix), NPZ, onto=onto).parsed
        whole = upload(saved(vstack([matrix, matrix]).tocsr()), NPZ, dense=dense).parsed
        assert both.matrix_digest == whole.matrix_digest
        assert both.sparse == (dense == "never")
    narrow = csr_array(np.array([[0, 1, 0]]))
    assert refusal(saved(narrow), NPZ, onto=onto).code == "feature-mismatch"
    onto = upload(saved(matrix), NPZ, dense="never")
    assert refusal(npz(X=matrix.toarray()), NPZ, onto=onto).code == "feature-mismatch"


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"indices": np.array([0, 9])}, "outside of its shape"),
        ({"indices": np.array([-1, 1])}, "outside of its shape"),
        ({"indptr": np.array([0, 3, 2])}, "do not fit"),
        ({"indptr": np.array([0, 1])}, "do not fit"),
        ({"data": np.array([1.0])}, "do not fit"),
        ({"data": np.array([1.0, np.inf])}, "row 2, column 2: 'inf' is not finite"),
        ({"shape": np.array([2, 0])}, "is not read"),
        ({"format": np.array(b"coo")}, "tocsr"),
    ],
)
def test_sparse_matrices_that_are_not_read(changed: dict[str, Any], said: str) -> None:
    arrays = {
        "data": np.array([1.0, 2.0]),
        "indices": np.array([0, 1]),
        "indptr": np.array([0, 1, 2]),
        "shape": np.array([2, 2]),
        "format": np.array(b"csr"),
    }
    assert said in refusal(npz(**arrays | changed), NPZ, target="none").detail
