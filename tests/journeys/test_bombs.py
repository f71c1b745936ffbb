"""Small requests that ask for very much: each is refused at once, and costs little memory."""

from __future__ import annotations

import contextlib
import gzip
import io
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from service.datasets.parsing.spec import CSV, JSON, LIBSVM, NDJSON, NPY, NPZ, PARQUET, TSV
from tests.journeys.server import Server
from tests.service.datasets.arrays import npy, parquet
from tests.service.datasets.parquet_parts import (
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

WITHIN_S = 1.0
EXTRA_BYTES = 64 * 1024 * 1024
MIB = 1024 * 1024
UPLOAD, JOBS, PREDICT = "/v1/datasets", "/v1/jobs", "/v1/models/bombed/predict"


def npz(X: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", X)
    return out.getvalue()


def npy_header(shape: str) -> bytes:
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()


def names(count: int, start: int = 0) -> list[str]:
    return [str(i) for i in range(start, start + count)]


def bombs() -> dict[str, tuple[str, str, bytes, int, str]]:
    """By name: path, media type, body, status and code."""
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
        "gzip": (UPLOAD, f"{CSV}+gzip", zeros, 413, "decompression-limit"),
        "gzip to predict": (PREDICT, f"{JSON}+gzip", zeros, 413, "decompression-limit"),
        "npz": (UPLOAD, NPZ, npz(npy(np.zeros((3000, 3000)))), 413, "decompression-limit"),
        "npy of 745 GB": (UPLOAD, NPY, npy_header("(100000, 1000000)"), 422, "npy-corrupt"),
        "npy of 745 GB to predict": (
            PREDICT,
            NPY,
            npy_header("(100000, 1000000)"),
            422,
            "npy-corrupt",
        ),
        "npy beyond 64 bits": (UPLOAD, NPY, npy_header("(9**30, 1)"), 422, "npy-corrupt"),
        "cell": (UPLOAD, CSV, b"a,k\n1," + b"x" * 20 * MIB, 422, "csv-cell-too-large"),
        "quoted cell": (UPLOAD, CSV, b'a,k\n1,"' + b"x" * 20 * MIB, 422, "csv-unterminated-quote"),
        "ndjson cell": (UPLOAD, NDJSON, b'{"a":"' + b"x" * 9 * MIB, 422, "csv-cell-too-large"),
        "json cell": (
            UPLOAD,
            JSON,
            b'{"rows":[["' + b"x" * 9 * MIB + b'"]]}',
            400,
            "malformed-json",
        ),
        "line in csv": (UPLOAD, CSV, f"{million}\n{row}\n".encode(), 422, "csv-cell-too-large"),
        "columns in csv": (UPLOAD, CSV, row.encode(), 413, "too-many-columns"),
        "columns in tsv": (
            UPLOAD,
            TSV,
            row.replace(",", "\t").encode(),
            413,
            "too-many-columns",
        ),
        "columns in json": (
            UPLOAD,
            JSON,
            f'{{"rows":[[{row}]]}}'.encode(),
            413,
            "too-many-columns",
        ),
        "columns in npy": (UPLOAD, NPY, npy(np.zeros((1, 10**6))), 413, "too-many-columns"),
        "columns in parquet": (
            UPLOAD,
            PARQUET,
            with_footer(b"PAR1", thrift({1: 1, 2: Announced(10**6, b"\x48\0\0" * 10**6)})),
            413,
            "too-many-columns",
        ),
        "index in libsvm": (UPLOAD, LIBSVM, b"1 99999999999:1\n", 413, "too-many-columns"),
        "classes in csv": (UPLOAD, CSV, classes.encode(), 422, "too-many-classes"),
        "classes in parquet": (
            UPLOAD,
            PARQUET,
            file({"a": numbers(100_000), "k": distinct}, 100_000),
            422,
            "too-many-classes",
        ),
        "deep json": (UPLOAD, JSON, b'{"rows":' + deep + b"}", 400, "malformed-json"),
        "deep ndjson": (UPLOAD, NDJSON, b'{"a":' + deep + b"}", 400, "malformed-json"),
        "deep job": (JOBS, JSON, b'{"a":' + deep + b"}", 400, "malformed-json"),
        "deep instances": (PREDICT, JSON, b'{"instances":' + deep + b"}", 400, "malformed-json"),
        "values in parquet": (UPLOAD, PARQUET, file(wide, 5_000_000), 413, "decompression-limit"),
        "rows in parquet": (
            UPLOAD,
            PARQUET,
            file({"a": numbers(10**9), "k": labels(10**9)}, 10**9),
            413,
            "too-many-rows",
        ),
        "label in parquet": (
            UPLOAD,
            PARQUET,
            file({"a": numbers(4_000_000), "k": labels(4_000_000, b"x" * MIB)}, 4_000_000),
            422,
            "csv-cell-too-large",
        ),
        "page in parquet": (
            UPLOAD,
            PARQUET,
            file({"a": Chunk(5, [page(0, bytes(10**9), count=9, encoding=0)]), "k": labels(9)}, 9),
            413,
            "decompression-limit",
        ),
        "list in parquet": (
            UPLOAD,
            PARQUET,
            with_footer(b"PAR1", thrift({1: 1, 2: Announced(15_000)})),
            422,
            "columnar-unsupported",
        ),
    }


@pytest.fixture(scope="module")
def warm(server: Server) -> Server:
    """A service whose processes have everything loaded that they need, and a model."""
    dataset = server.upload(b"".join(b"%d,%d,%d\n" % (i, i % 3, i % 2) for i in range(40)))
    server.trained(dataset["id"], "bombed", solver={"name": "pegasos"})
    columns = {"a": np.arange(3.0), "k": np.array(["x", "y", "x"], dtype=object)}
    server.upload(parquet(columns), PARQUET)
    server.upload(b'{"rows": [[1, 2]]}', JSON)
    server.http.post(PREDICT, json={"instances": [[1, 2]]})
    return server


def memory(server: Server, name: str) -> dict[int, int]:
    """VmRSS or VmHWM of the processes that answer and parse, in bytes, by process."""
    found = {}
    for process in server.processes():
        with contextlib.suppress(OSError):
            folder = Path(f"/proc/{process.pid}")
            command = (folder / "cmdline").read_bytes()
            if process.pid == server.process.pid or b"parsing" in command:
                status = (folder / "status").read_text()
                found[process.pid] = int(status.split(f"{name}:")[1].split()[0]) * 1024
    return found


def test_bombs_are_refused_at_once(warm: Server) -> None:
    """Within a second of their last byte, and for less than 64 MiB."""
    slow, large = {}, {}
    for name, (path, media_type, content, status, code) in bombs().items():
        headers = {"Content-Type": media_type}
        if media_type.endswith("+gzip"):
            headers = {"Content-Type": media_type[:-5], "Content-Encoding": "gzip"}
        for _ in range(3):  # a busy machine may be late
            before = memory(warm, "VmRSS")
            for pid in before:
                Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins anew
            start = time.monotonic()
            reply = warm.http.post(path, content=content, headers=headers)
            slow[name] = time.monotonic() - start
            after = memory(warm, "VmHWM")
            if slow[name] <= WITHIN_S:
                break
        large[name] = sum(after[pid] - before.get(pid, 0) for pid in after)
        found = reply.status_code, reply.json()["code"]
        assert found == (status, code), f"{name}: {reply.text[:500]}"
        assert len(reply.content) < 20_000
    for name in slow:
        print(f"{name:26} {slow[name]:5.2f} s {large[name] / MIB:6.1f} MiB")
    assert {name: s for name, s in slow.items() if s > WITHIN_S} == {}
    assert {name: size for name, size in large.items() if size > EXTRA_BYTES} == {}
    assert warm.http.post(PREDICT, json={"instances": [[1, 2]]}).status_code == 200


def test_length_alone_is_enough(warm: Server) -> None:
    """A body that says it is too large is refused before it comes; one that does not, on the way.

    The sender learns of it while it is still sending.
    """

    def endless() -> Iterator[bytes]:
        for _ in range(2000):
            yield b"1,2,3\n" * 100_000

    before = memory(warm, "VmRSS")
    reply = warm.http.post(UPLOAD, content=endless(), headers={"Content-Type": CSV})
    assert (reply.status_code, reply.json()["code"]) == (413, "body-too-large")
    after = memory(warm, "VmHWM")
    assert sum(after[pid] - before.get(pid, 0) for pid in after) < EXTRA_BYTES
