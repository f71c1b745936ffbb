"""Datasets as files: what is downloaded and uploaded again is the same."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import httpx2
import hypothesis
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from service.datasets.contents import Contents
from service.datasets.dataset import Dataset
from service.datasets.store import DatasetStore
from service.rows.cell_texts.number_text import MISSING_TEXTS
from service.rows.parser import Parser
from service.rows.parsing_process import render
from service.rows.rendering import nameable
from service.rows.spec import (
    CSV,
    JSON,
    LIBSVM,
    NDJSON,
    NPY,
    NPZ,
    PARQUET,
    TSV,
    RenderSpec,
    Stored,
    decode,
    encode,
)
from service.settings import Settings
from service.storage.blobs import Blobs
from tests.service.datasets.test_routes import IRIS, UNKNOWN, made, post, problem
from tests.service.datasets.test_store import add
from tests.service.files import damage, incoming
from tests.service.rows.arrays import npy
from tests.service.rows.reading import Result, stored, upload
from tests.service.rows.test_digest import (
    matrices,
    numbers,
    rows_of_texts,
    text_files,
    texts_in,
    words,
)

pytestmark = pytest.mark.one_application

READ_AGAIN = (CSV, TSV, JSON, NDJSON, NPZ, PARQUET)


def rendered(result: Result, media_type: str) -> bytes:
    """The file of a dataset in a format."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        out = folder / "content"
        spec = RenderSpec(
            stored=stored(result, folder / "stored"), media_type=media_type, out=str(out)
        )
        found = render(decode(encode(spec)))
        content = out.read_bytes()
        assert (found.size_bytes, found.sha256) == (
            len(content),
            hashlib.sha256(content).hexdigest(),
        )
        return content


names = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), min_size=1)
    .map(str.strip)
    .filter(bool),
    min_size=6,
    max_size=6,
    unique=True,
)


ANYTHING = given(X=matrices, columns=st.none() | names, data=st.data())


@hypothesis.settings(max_examples=20)
@ANYTHING
def test_what_is_read_again_is_the_same(X: Any, columns: Any, data: st.DataObject) -> None:
    """Every float64, every name, and labels that a text can tell from others."""
    check_read_again(X, columns, data)


@pytest.mark.fuzz
@pytest.mark.timeout(1800)
@hypothesis.settings(max_examples=2000)
@ANYTHING
def test_two_thousand_are_read_again_the_same(X: Any, columns: Any, data: st.DataObject) -> None:
    check_read_again(X, columns, data)


def check_read_again(X: Any, columns: Any, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([words, numbers]))
    body: dict[str, Any] = {"rows": X.tolist()}
    if columns is not None:
        columns = columns[: X.shape[1]]
        body["columns"] = columns
    options: dict[str, Any] = {"target": "none"}
    if data.draw(st.booleans()):
        label = kind.filter(lambda value: value not in MISSING_TEXTS)  # in a text it has no label
        body["labels"] = data.draw(st.lists(label, min_size=len(X), max_size=len(X)))
        options = {}
    first = upload(json.dumps(body), JSON, target="none")
    for media_type in READ_AGAIN:
        if media_type == PARQUET and not nameable([*(columns or ()), ""]):
            continue
        own = dict(options)
        if media_type in (CSV, TSV):
            own["header"] = "absent" if columns is None else "present"
            own["delimiter"] = "," if media_type == CSV else "\t"  # or `a;b` is taken for two cells
        again = upload(rendered(first, media_type), media_type, **own)
        assert again.parsed.matrix_digest == first.parsed.matrix_digest
        numbered = [str(i) for i in range(X.shape[1])] if media_type in (NDJSON, PARQUET) else None
        assert again.parsed.columns == (None if media_type == NPZ else columns or numbered)
        assert rendered(first, media_type) == rendered(first, media_type)


def test_texts_that_are_read_again_are_the_same() -> None:
    """In every format that can hold them, and what is appended or split off."""
    file = text_files(rows_of_texts())[0]
    first = upload(file.content, file.media_type, **file.options)
    twice = upload(file.content, file.media_type, onto=first, **file.options)
    assert texts_in(twice) == [[*column, *column] for column in texts_in(first)]
    for media_type in (CSV, TSV, JSON, NDJSON, PARQUET):
        for result in (first, twice):
            own = file.options if media_type != JSON else {"schema": file.options["schema"]}
            again = upload(rendered(result, media_type), media_type, **own)
            assert texts_in(again) == texts_in(result)
            assert again.parsed.matrix_digest == result.parsed.matrix_digest


@pytest.mark.parametrize(
    "labels", [[True, False], ["1", "2"], ["", " "], [0.5, 2**60], [2**62, 1], ["a\rb", "\0"]]
)
def test_json_npz_and_parquet_keep_the_kind_of_labels(labels: list[Any]) -> None:
    """Other texts have no kinds."""
    first = upload(json.dumps({"rows": [[1], [2]], "labels": labels}), JSON)
    for media_type in (JSON, PARQUET):
        again = upload(rendered(first, media_type), media_type)
        assert again.parsed.matrix_digest == first.parsed.matrix_digest
        assert repr(again.parsed.classes) == repr(first.parsed.classes)
    if labels[-1] != "\0":  # NumPy's texts lose NUL characters at their end
        again = upload(rendered(first, NPZ), NPZ)
        assert again.parsed.matrix_digest == first.parsed.matrix_digest


@given(
    rows=st.lists(
        st.dictionaries(st.integers(1, 6), st.floats(-9, 9), max_size=4), min_size=1, max_size=8
    ),
    unlabeled=st.booleans(),
    width=st.integers(6, 8),
)
@hypothesis.settings(max_examples=60)
def test_sparse_data_are_read_again(
    rows: list[dict[int, float]], unlabeled: bool, width: int
) -> None:
    """Their last columns, too, if they are empty."""
    lines = [
        f"{len(row) / 2} " + " ".join(f"{index}:{value!r}" for index, value in sorted(row.items()))
        for row in rows
    ]
    target = "none" if unlabeled else None
    first = upload("\n".join(lines), LIBSVM, n_features=width, target=target, dense="never")
    again = upload(rendered(first, LIBSVM), LIBSVM, target=target, dense="never")
    assert again.parsed.matrix_digest == first.parsed.matrix_digest


@pytest.mark.parametrize("labels", [[3, 1], [0.5, 2]])
def test_numpy_holds_numbers(labels: list[Any]) -> None:
    """The labels are the last column."""
    first = upload(json.dumps({"rows": [[0.1, 7], [5e-324, 1]], "labels": labels}), JSON)
    again = upload(rendered(first, NPY), NPY)
    assert again.parsed.matrix_digest == first.parsed.matrix_digest
    unlabeled = upload(npy(np.arange(6.0).reshape(3, 2)), NPY, target="none")
    assert np.load(io.BytesIO(rendered(unlabeled, NPY))).tolist() == [[0, 1], [2, 3], [4, 5]]


def test_measurements_in_every_format() -> None:
    """More different numbers than there can be classes."""
    first = upload("".join(f"{i},{i}.5\n" for i in range(1200)))
    for media_type in (*READ_AGAIN, NPY):
        again = upload(rendered(first, media_type), media_type)
        assert again.parsed.matrix_digest == first.parsed.matrix_digest


def test_texts_as_they_are_written() -> None:
    """Whole numbers without a fraction, quotes where they are needed, one line a row."""
    first = upload(
        '{"columns": ["a", "b,%"], "rows": [[1, 0.1], [-2.50, 1e300]], "labels": ["x", "y\\"z"]}',
        JSON,
    )
    assert rendered(first, CSV) == b'a,"b,%",label\n1,0.1,x\n-2.5,1e+300,"y""z"\n'
    assert rendered(first, TSV) == b'a\tb,%\tlabel\n1\t0.1\tx\n-2.5\t1e+300\t"y""z"\n'
    assert rendered(first, NDJSON) == (
        b'{"a":1,"b,%":0.1,"label":"x"}\n{"a":-2.5,"b,%":1e+300,"label":"y\\"z"}\n'
    )
    assert rendered(first, JSON) == (
        b'{"columns":["a","b,%"],"rows":[[1,0.1],[-2.5,1e+300]],"labels":["x","y\\"z"]}\n'
    )
    sparse = upload("1 1:2 3:0.5\n-1\n", LIBSVM, n_features=4)
    assert rendered(sparse, LIBSVM) == b"1 1:2 3:0.5 4:0\n-1\n"


def test_label_column_has_a_name_of_its_own() -> None:
    """Where the labels came without one, and a feature is called `label`."""
    body = {"columns": ["label", "label_"], "rows": [[1, 2]], "labels": ["x"]}
    first = upload(json.dumps(body), JSON)
    assert rendered(first, CSV).startswith(b"label,label_,label__\n")
    named = upload("label,k\n1,x\n", target="k")
    assert rendered(named, CSV) == b"label,k\n1,x\n"
    unnamed = upload("1,2,x\n3,4,y\n", header="absent")
    assert rendered(unnamed, CSV) == b"1,2,x\n3,4,y\n"
    assert rendered(unnamed, NDJSON).startswith(b'{"0":1,"1":2,"label":"x"}\n')


def content(client: TestClient, path: str, accept: str = "*/*", **headers: str) -> httpx2.Response:
    return client.get(f"{path}/content", headers={"Accept": accept, **headers})


def test_download_is_the_upload(client: TestClient) -> None:
    """As CSV unless something else is preferred, with everything a download has."""
    reply = post(client, IRIS)
    dataset, path = made(reply), reply.headers["Location"]
    reply = content(client, path)
    assert reply.status_code == 200
    assert reply.text == IRIS
    digest = base64.b64encode(hashlib.sha256(IRIS.encode()).digest()).decode()
    assert reply.headers["Repr-Digest"] == f"sha-256=:{digest}:"
    assert reply.headers["Content-Type"] == "text/csv; charset=utf-8; header=present"
    assert reply.headers["Vary"] == "Accept"
    assert f'filename="{dataset["id"]}.csv"' in reply.headers["Content-Disposition"]
    again = post(client, reply.content, reply.headers["Content-Type"])
    assert (again.status_code, again.json()) == (200, dataset)
    part = content(client, path, Range="bytes=6-9")
    assert (part.status_code, part.text) == (206, IRIS[6:10])
    assert part.headers["Repr-Digest"] == reply.headers["Repr-Digest"]
    seen = {"If-None-Match": reply.headers["ETag"]}
    assert content(client, path, **seen).status_code == 304
    assert content(client, path, JSON, **seen).status_code == 200
    assert client.head(f"{path}/content").headers["Content-Length"] == str(len(IRIS))
    problem(content(client, path, Range="bytes=500-"), 416, "range-not-satisfiable")


def test_names_that_are_numbers_are_a_header_again(client: TestClient) -> None:
    """The media type says that there is one, or that there is none."""
    for text, header in (("0,1,k\n5,6,x\n", "present"), ("p,q,k\n", "absent")):
        text += "7,8,y\n" if header == "present" else ""
        body = {"columns": ["0", "1"]} if header == "present" else {}
        reply = post(client, json.dumps({**body, "rows": [[0, 1]], "labels": ["x"]}), JSON)
        csv = content(client, reply.headers["Location"])
        assert csv.headers["Content-Type"].endswith(f"header={header}")
        again = post(client, csv.content, csv.headers["Content-Type"])
        assert again.json()["matrix_digest"] == reply.json()["matrix_digest"]


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("application/json", JSON),
        ("text/*;q=0.5, application/x-ndjson", NDJSON),
        ("text/tab-separated-values", TSV),
        ("application/x-npz", NPZ),
        ("application/vnd.apache.parquet", PARQUET),
        ("text/x-libsvm, */*;q=0.1", CSV),
    ],
)
def test_accept_chooses_the_format(client: TestClient, accept: str, media_type: str) -> None:
    """Of those that the dataset can have."""
    reply = content(client, post(client, IRIS).headers["Location"], accept)
    assert reply.headers["Content-Type"].partition(";")[0] == media_type


def test_formats_that_a_dataset_cannot_have(client: TestClient) -> None:
    """Words in an array of numbers, dense data in LIBSVM, sparse data in anything else."""
    dense = post(client, IRIS).headers["Location"]
    sparse = post(client, "1 1:1\n2 2:1\n", LIBSVM, dense="never").headers["Location"]
    booleans = post(client, '{"rows": [[1]], "labels": [true]}', JSON).headers["Location"]
    for path, accept in (
        (dense, NPY),
        (dense, LIBSVM),
        (dense, "image/png"),
        (booleans, NPY),
        (sparse, CSV),
    ):
        detail = problem(content(client, path, accept), 406, "not-acceptable")["detail"]
        assert accept not in detail
    assert content(client, sparse).text == "1 1:1\n2 2:1\n"
    problem(content(client, UNKNOWN), 404, "not-found")


def test_deleted_and_damaged_data_are_not_sent(client: TestClient, settings: Settings) -> None:
    """Not even what was made of them before they were deleted. The same upload heals."""
    path = post(client, IRIS).headers["Location"]
    assert content(client, path).status_code == 200
    assert client.delete(path).status_code == 204
    problem(content(client, path), 404, "not-found")
    path = post(client, IRIS).headers["Location"]
    damage(settings, "X")
    problem(content(client, path), 500, "dataset-corrupt")
    again = post(client, IRIS)
    assert (again.status_code, again.headers["Location"]) == (200, path)
    assert content(client, path).status_code == 200
    assert list(incoming(settings).iterdir()) == []


def test_many_downloads_at_once(client: TestClient) -> None:
    """Each gets its own range of the same file."""
    path = post(client, IRIS).headers["Location"]
    ranges = [(start, end) for start in range(0, 20, 3) for end in range(start, 20, 4)]

    def part(bounds: tuple[int, int]) -> str:
        return content(client, path, Range=f"bytes={bounds[0]}-{bounds[1]}").text

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(part, ranges))
    assert found == [IRIS[start : end + 1] for start, end in ranges]


@pytest.fixture
def parser() -> Iterator[Parser]:
    parser = Parser()
    yield parser
    parser.close()


def test_files_are_kept_within_a_limit(
    database: Any, blobs: Blobs, parser: Parser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is made once for all who ask at the same time; those unused for longest go first."""
    store = DatasetStore(database, blobs)
    copied: list[str] = []
    copy = store.copy

    def counted(dataset: Dataset, folder: Path) -> Stored:
        copied.append(dataset.id)
        return copy(dataset, folder)

    monkeypatch.setattr(store, "copy", counted)
    found = [add(store, blobs, IRIS + f"{i},{i},x\n")[0] for i in range(3)]
    contents = Contents(store, parser, blobs, kept_bytes=2 * (len(IRIS) + 6))

    async def read(dataset: Dataset) -> None:
        content = await contents.open(dataset, CSV)
        with content.file as file:
            assert os.pread(file.fileno(), 100, 0).decode().startswith(IRIS)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(read, found[0])
        assert copied == [found[0].id]
        for index in (0, 1, 0, 2, 0, 1):
            await read(found[index])
        assert copied == [found[i].id for i in (0, 1, 2, 1)]

    anyio.run(main)
    contents.close()
