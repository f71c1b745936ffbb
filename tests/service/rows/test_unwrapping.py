"""Archives of one file: what is in them is read as if it had come alone."""

from __future__ import annotations

import gzip
import io

import numpy as np
import pytest

from service.errors import TooLarge
from service.rows.spec import CSV, GZIP, NPZ, XLSX, ZIP
from tests.service.rows.formats.test_npz import npz
from tests.service.rows.reading import refusal, upload
from tests.service.rows.workbooks import workbook, zipped

TABLE = b"a,k\n1,x\n2,y\n"


def gzipped(content: bytes, name: str = "") -> bytes:
    file = io.BytesIO()
    with gzip.GzipFile(name, "wb", fileobj=file) as out:
        out.write(content)
    return file.getvalue()


@pytest.mark.parametrize(
    ("member", "content", "media_type"),
    [
        ("folder/data.CSV", TABLE, CSV),
        ("a.npz", npz(X=np.array([[1.0], [2.0]]), y=np.array(["x", "y"])), NPZ),
        ("book.xlsx", workbook({"S": [["a", "k"], [1, "x"], [2, "y"]]}), XLSX),
    ],
)
def test_zip_of_one_file(member: str, content: bytes, media_type: str) -> None:
    """Its suffix says what it is; folders and files that macOS adds do not count."""
    members = {"folder/": b"", f"__MACOSX/._{member}": b"x", member: content}
    result = upload(zipped(members), ZIP)
    assert result.parsed.media_type == media_type
    assert result.arrays["X"].tolist() == [[1], [2]]
    assert result.rows_of_labels == ["x", "y"]


def test_gzip_with_a_name() -> None:
    """Of the upload, or in the file."""
    for content, name in ((gzipped(TABLE), "data.csv.gz"), (gzipped(TABLE, "data.csv"), "")):
        result = upload(content, GZIP, name=name)
        assert (result.parsed.media_type, result.parsed.n_samples) == (CSV, 2)
    error = refusal(gzipped(TABLE), GZIP)
    assert (error.code, "Content-Encoding" in error.detail) == ("unsupported-format", True)


def test_labels_in_archives() -> None:
    """A file of labels is unpacked like the data."""
    rows = b"a\n1\n2\n"
    for labels, media_type in ((zipped({"y.csv": b"u\nv\n"}), ZIP), (gzipped(b"u\nv\n"), GZIP)):
        result = upload(rows, labels=labels, labels_media_type=media_type, labels_name="y.txt.gz")
        assert result.rows_of_labels == ["u", "v"]


def test_archives_that_are_refused() -> None:
    """Of several files, of none, of another kind, damaged, inside of each other."""
    error = refusal(zipped({"a.csv": TABLE, "b.csv": TABLE}), ZIP)
    assert error.code == "archive-unsupported"
    assert "the archive has 2 files, one is expected: 'a.csv', 'b.csv'" in error.detail
    assert refusal(zipped({"a/": b""}), ZIP).code == "archive-unsupported"
    assert refusal(zipped({"a.csv": TABLE})[:-9], ZIP).code == "archive-unsupported"
    for inner in ("a.exe", "a.csv.gz", "a.zip"):
        assert refusal(zipped({inner: TABLE}), ZIP).code == "unsupported-format"
    assert refusal(gzipped(TABLE)[:-9], GZIP, name="a.csv.gz").code == "format-mismatch"
    assert ZIP in refusal(zipped({"a.csv": TABLE}), CSV).detail


def test_bombs() -> None:
    """More than 100:1, or more than is allowed."""
    zeros = b"0" * 10_000_000
    limits = {"inflated_bytes": 100}
    for content, media_type in ((zipped({"a.csv": zeros}), ZIP), (gzipped(zeros), GZIP)):
        for limit in ({}, limits):
            error = refusal(content, media_type, name="a.csv.gz", limits=limit)
            assert isinstance(error, TooLarge)
            assert error.code == "decompression-limit"
