"""Small requests that would need very much memory or time."""

from __future__ import annotations

import base64
import gzip
import io
import zipfile
from dataclasses import dataclass

import numpy as np

from service.rows.spec import CSV, JSON, LIBSVM, NDJSON, NPY, NPZ, PARQUET, TSV
from tests.journeys.limits.memory import MIB
from tests.service.rows.arrays import npy
from tests.service.rows.parquet_parts import (
    BYTE_ARRAY,
    DATA_PAGE,
    PLAIN,
    Announced,
    Chunk,
    file,
    labels,
    numbers,
    page,
    texts,
    thrift,
    with_footer,
)

UPLOAD, JOBS, PREDICT = "/v1/datasets", "/v1/jobs", "/v1/models/bombed/predict"
IMPORT = "/v1/models/imported/versions"
BZIP2 = (
    "UEsDBC4AAAAMAKZQdl2F3UfD1gAAAIAAAAgFAAAAWC5ucHlCWmg5MUFZJlNZ8A8+FgV+QF+g4BBA5EV0AQNCIK9F3QoI"
    "AAAIIACUhkUajJpozKDJiDeo9KCKqepkaYQxMAQaGiH5RAFVRIAKAKqib/kAUASSSCPFj1C+0IqqlzaJB0MroLGmQSXY"
    "fOorAhlP1lm2kdXWx6Nh+poYNFdsZzCzrtYeXUAkAAkkkT+YoKyTKayHBPFvgK/HIABgAAAEEAAYQCajIVAS1IVAS5ig"
    "rJMprI78634AonfgAGIAAAQQABBSmgzGqpUQmwCqITxdyRThQkMHW6xkUEsBAi4DLgAAAAwAplB2XYXdR8PWAAAAgAAA"
    "CAUAAAAAAAAAAAAAAIABAAAAAFgubnB5UEsFBgAAAAABAAEAMwAAAPkAAAAAAA=="
)
"""An archive with a member `X.npy` of 128 MiB of zeros."""


@dataclass(frozen=True)
class Bomb:
    """A request, and its expected reply."""

    path: str
    media_type: str
    body: bytes
    status: int = 0
    code: str = ""
    """Without them, any 4xx with any code; 201 for a large but valid model."""
    within_s: float = 1.0
    """Time limit for the reply, from the last byte sent."""


def npz(X: bytes, name: str = "X.npy", method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr(name, X)
    return out.getvalue()


def corrupt_lzma() -> bytes:
    """An archive with a truncated LZMA stream."""
    whole = bytearray(npz(npy(np.arange(9.0).reshape(3, 3)), method=zipfile.ZIP_LZMA))
    whole[60:90] = b"\xff" * 30
    return bytes(whole)


def model(values: str, count: int) -> bytes:
    """An export in JSON with `count` coefficients `values`."""
    return (
        '{"format":"svm-service-model","format_version":1,"columns":null,"origin":{},"model":{'
        '"format":1,"classes":{"dtype":"<U1","shape":[2],"values":["a","b"]},"scaling":"none",'
        f'"features":{{"name":"identity"}},"n_features":{count},"multiclass":"one-vs-one",'
        '"intercepts":{"dtype":"<f8","shape":[1],"values":[0.125]},"coefficients":'
        f'{{"dtype":"<f8","shape":[1,{count}],"values":[{",".join([values] * count)}]}}}}}}'
    ).encode()


def npy_header(shape: str) -> bytes:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


def names(count: int, start: int = 0) -> list[str]:
    return [str(i) for i in range(start, start + count)]


def bombs() -> dict[str, Bomb]:
    """All bombs by name."""
    million, row = ",".join(names(10**6)), ",".join(["1"] * 10**6)
    classes = "".join(f"{i},c{i}\n" for i in range(100_000))
    deep = b"[" * 100_000 + b"]" * 100_000
    wide = {f"a{i}": numbers(5_000_000) for i in range(19)} | {"k": labels(5_000_000)}
    distinct = Chunk(
        BYTE_ARRAY,
        [page(DATA_PAGE, texts(*(b"c%d" % i for i in range(10**5))), count=10**5, encoding=PLAIN)],
    )
    zeros = gzip.compress(bytes(64 * MIB), 9)
    return {
        "gzip": Bomb(UPLOAD, f"{CSV}+gzip", zeros, 413, "decompression-limit"),
        "gzip to predict": Bomb(PREDICT, f"{JSON}+gzip", zeros, 413, "decompression-limit"),
        "npz": Bomb(UPLOAD, NPZ, npz(npy(np.zeros((3000, 3000)))), 413, "decompression-limit"),
        "npz in bzip2": Bomb(UPLOAD, NPZ, base64.b64decode(BZIP2)),
        "npz in lzma": Bomb(UPLOAD, NPZ, npz(npy(np.eye(3)), method=zipfile.ZIP_LZMA)),
        "npz in corrupt lzma": Bomb(UPLOAD, NPZ, corrupt_lzma()),
        "model in bzip2": Bomb(IMPORT, NPZ, base64.b64decode(BZIP2)),
        "model in corrupt lzma": Bomb(IMPORT, NPZ, corrupt_lzma()),
        "model in npz": Bomb(IMPORT, NPZ, npz(npy(np.zeros((1, 16 * MIB))), "coefficients.npy")),
        "model of numbers": Bomb(IMPORT, JSON, model("0.5", 15 * MIB // 4), 201, within_s=3.0),
        "model of objects": Bomb(IMPORT, JSON, model("{}", 5 * MIB), within_s=3.0),
        "npy of 745 GB": Bomb(UPLOAD, NPY, npy_header("(100000, 1000000)"), 422, "npy-corrupt"),
        "npy of 745 GB to predict": Bomb(
            PREDICT,
            NPY,
            npy_header("(100000, 1000000)"),
            422,
            "npy-corrupt",
        ),
        "npy beyond 64 bits": Bomb(UPLOAD, NPY, npy_header("(9**30, 1)"), 422, "npy-corrupt"),
        "cell": Bomb(UPLOAD, CSV, b"a,k\n1," + b"x" * 20 * MIB, 422, "csv-cell-too-large"),
        "quoted cell": Bomb(
            UPLOAD, CSV, b'a,k\n1,"' + b"x" * 20 * MIB, 422, "csv-unterminated-quote"
        ),
        "ndjson cell": Bomb(UPLOAD, NDJSON, b'{"a":"' + b"x" * 9 * MIB, 422, "csv-cell-too-large"),
        "json cell": Bomb(
            UPLOAD,
            JSON,
            b'{"rows":[["' + b"x" * 9 * MIB + b'"]]}',
            400,
            "malformed-json",
        ),
        "line in csv": Bomb(UPLOAD, CSV, f"{million}\n{row}\n".encode(), 422, "csv-cell-too-large"),
        "columns in csv": Bomb(UPLOAD, CSV, row.encode(), 413, "too-many-columns"),
        "columns in tsv": Bomb(
            UPLOAD,
            TSV,
            row.replace(",", "\t").encode(),
            413,
            "too-many-columns",
        ),
        "columns in json": Bomb(
            UPLOAD,
            JSON,
            f'{{"rows":[[{row}]]}}'.encode(),
            400,
            "malformed-json",
        ),
        "columns in npy": Bomb(UPLOAD, NPY, npy(np.zeros((1, 10**6))), 413, "too-many-columns"),
        "columns in parquet": Bomb(
            UPLOAD,
            PARQUET,
            with_footer(b"PAR1", thrift({1: 1, 2: Announced(50_000, b"\x48\0\0" * 50_000)})),
            422,
            "columnar-unsupported",
        ),
        "announced columns in parquet": Bomb(
            UPLOAD,
            PARQUET,
            with_footer(b"PAR1", thrift({1: 1, 2: Announced(3_000_000, b"\x48\0\0" * 1000)})),
            422,
            "columnar-unsupported",
        ),
        "index in libsvm": Bomb(UPLOAD, LIBSVM, b"1 99999999999:1\n", 413, "too-many-columns"),
        "classes in csv": Bomb(UPLOAD, CSV, classes.encode(), 422, "too-many-classes"),
        "classes in parquet": Bomb(
            UPLOAD,
            PARQUET,
            file({"a": numbers(100_000), "k": distinct}, 100_000),
            422,
            "too-many-classes",
        ),
        "deep json": Bomb(UPLOAD, JSON, b'{"rows":' + deep + b"}", 400, "malformed-json"),
        "deep ndjson": Bomb(UPLOAD, NDJSON, b'{"a":' + deep + b"}", 400, "malformed-json"),
        "deep job": Bomb(JOBS, JSON, b'{"a":' + deep + b"}", 400, "malformed-json"),
        "deep instances": Bomb(
            PREDICT, JSON, b'{"instances":' + deep + b"}", 400, "malformed-json"
        ),
        "values in parquet": Bomb(
            UPLOAD, PARQUET, file(wide, 5_000_000), 413, "decompression-limit"
        ),
        "rows in parquet": Bomb(
            UPLOAD,
            PARQUET,
            file({"a": numbers(10**9), "k": labels(10**9)}, 10**9),
            413,
            "too-many-rows",
        ),
        "label in parquet": Bomb(
            UPLOAD,
            PARQUET,
            file({"a": numbers(4_000_000), "k": labels(4_000_000, b"x" * MIB)}, 4_000_000),
            422,
            "csv-cell-too-large",
        ),
        "page in parquet": Bomb(
            UPLOAD,
            PARQUET,
            file({"a": Chunk(5, [page(0, bytes(10**9), count=9, encoding=0)]), "k": labels(9)}, 9),
            413,
            "decompression-limit",
        ),
        "list in parquet": Bomb(
            UPLOAD,
            PARQUET,
            with_footer(b"PAR1", thrift({1: 1, 2: Announced(15_000)})),
            422,
            "columnar-unsupported",
        ),
    }
