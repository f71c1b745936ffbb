"""Archives of one file: what is in them is read as if it had come alone."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from backports import zstd

from service.errors import TooLarge, UnsupportedFormat
from service.rows.spec import (
    BZIP2,
    CSV,
    GZIP,
    JSON,
    LIBSVM,
    NDJSON,
    NPZ,
    UNKNOWN,
    XLSX,
    XZ,
    ZIP,
    ZSTD,
)
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


COMPRESSIONS: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    GZIP: (gzip.compress, ".gz"),
    BZIP2: (bz2.compress, ".bz2"),
    XZ: (lzma.compress, ".xz"),
    ZSTD: (zstd.compress, ".zst"),
}
LIBSVM_TEXT = b"+1 1:1 9:2\n-1 3:1\n" * 20


@pytest.mark.parametrize("media_type", COMPRESSIONS)
def test_compressed_files(media_type: str) -> None:
    """By the name of what is in it, or by its contents; in one or several members."""
    compress, suffix = COMPRESSIONS[media_type]
    for name in (f"data.csv{suffix}", "data", ""):
        result = upload(compress(TABLE) + compress(b"3,x\n"), media_type, name=name)
        assert (result.parsed.media_type, result.parsed.n_samples) == (CSV, 3)
    result = upload(compress(LIBSVM_TEXT), media_type, name=f"covtype{suffix}")
    assert (result.parsed.media_type, result.parsed.sparse) == (LIBSVM, True)
    error = refusal(compress(TABLE)[:-5], media_type, name="data")
    assert error.code == "format-mismatch"
    assert "not complete" in error.detail
    assert refusal(b"?" + compress(TABLE), media_type).code == "format-mismatch"


@pytest.mark.parametrize("media_type", COMPRESSIONS)
def test_compressed_bombs(media_type: str) -> None:
    """More than 100:1 is refused on the way, in little memory."""
    compress, _ = COMPRESSIONS[media_type]
    bomb = compress(b"0" * 50_000_000)
    tracemalloc.start()
    assert refusal(bomb, media_type, name="data.csv").code == "decompression-limit"
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


def test_windows_larger_than_allowed() -> None:
    """What zstd or xz would keep of a file is bounded."""
    compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 27})
    streamed = compressor.compress(TABLE) + compressor.flush()
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 30}]
    for media_type, body in ((ZSTD, streamed), (XZ, lzma.compress(TABLE, filters=filters))):
        assert refusal(body, media_type).code == "format-mismatch"


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (b"% a\n@RELATION r\n@ATTRIBUTE a NUMERIC\n", "ARFF"),
        (b"FEA1\0\0\0\0", "Feather"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"\x80\x05\x95\0", "pickle"),
        (b"%PDF-1.7\n", "PDF"),
        (b"$FL2@(#) SPSS", "SPSS"),
        (b"SQLite format 3\0", "SQLite"),
        (b"\x89PNG\r\n", "image"),
        (b"RDX3\nX\n", "R"),
        (b"<!DOCTYPE html><html>", "HTML"),
    ],
)
def test_formats_of_other_programs(head: bytes, name: str) -> None:
    """They are named, with the way out, whether or not the type says something else."""
    for media_type in (UNKNOWN, CSV):
        error = refusal(head + b"x" * 100, media_type)
        assert isinstance(error, UnsupportedFormat)
        assert name in error.detail


@pytest.mark.parametrize("text", ["orchid,k\n1,a\n2,b\n", "ORCHID,k\n1,a\n", "riff,k\n1,a\n"])
def test_texts_that_begin_like_other_formats(text: str) -> None:
    assert upload(text, UNKNOWN).parsed.media_type == CSV


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (TABLE, CSV),
        (LIBSVM_TEXT, LIBSVM),
        (b'{"rows": [[1], [2]], "labels": [0, 1]}', JSON),
        (b'[{"a": 1, "k": "x"}, {"a": 2, "k": "y"}]', JSON),
        (b'{"a": 1, "k": "x"}\n{"a": 2, "k": "y"}\n', NDJSON),
        (npz(X=np.array([[1.0], [2.0]]), y=np.array(["x", "y"])), NPZ),
        (workbook({"S": [["a", "k"], [1, "x"], [2, "y"]]}), XLSX),
        (zipped({"a.csv": TABLE}), CSV),
        (gzipped(TABLE), CSV),
    ],
    ids=range(9),
)
def test_formats_by_their_contents(content: bytes, media_type: str) -> None:
    """Of files whose name does not say what they are."""
    assert upload(content, UNKNOWN).parsed.media_type == media_type


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
    for inner, content in (("a.gz", gzipped(TABLE)), ("a.zip", zipped({"a.csv": TABLE}))):
        assert refusal(zipped({inner: content}), ZIP).code == "unsupported-format"
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
