"""Datasets over HTTP."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from service.app import create_app
from service.datasets.schemas import UploadOptions
from service.rows.spec import PARQUET
from service.settings import Limits, Settings
from service.storage.blobs import open_blobs
from tests.service import files
from tests.service.rows.arrays import npy, parquet

pytestmark = pytest.mark.one_application

IRIS = "a,b,k\n1,2,x\n3,4,y\n5,6,x\n"
UNKNOWN = "/v1/datasets/ds_" + "0" * 32


def post(
    client: TestClient, content: str | bytes = IRIS, media_type: str = "text/csv", **query: Any
) -> httpx2.Response:
    body = content.encode() if isinstance(content, str) else content
    return client.post(
        "/v1/datasets", content=body, params=query, headers={"Content-Type": media_type}
    )


def made(reply: httpx2.Response) -> dict[str, Any]:
    assert reply.status_code == 201, reply.text
    dataset: dict[str, Any] = reply.json()
    return dataset


def problem(reply: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    assert reply.status_code == status, reply.text
    assert reply.headers["Content-Type"] == "application/problem+json"
    body: dict[str, Any] = reply.json()
    assert body["code"] == code
    return body


@pytest.fixture
def incoming(settings: Settings) -> Path:
    """Where uploads lie until they are read."""
    return files.incoming(settings)


def test_upload_is_described(client: TestClient) -> None:
    """Everything a caller wants to know before training."""
    reply = post(client, name="iris")
    dataset = made(reply)
    assert reply.headers["Location"] == f"/v1/datasets/{dataset['id']}"
    assert dataset["name"] == "iris"
    assert dataset["format"] == "text/csv"
    assert (dataset["n_samples"], dataset["n_features"], dataset["sparse"]) == (3, 2, False)
    assert (dataset["target"], dataset["classes"], dataset["class_counts"]) == (
        "k",
        ["x", "y"],
        [2, 1],
    )
    first = dataset["columns"][0]
    assert first == {
        "name": "a",
        "kind": "number",
        "role": "feature",
        "levels": None,
        "n_levels": None,
        "missing": 0,
        "min": 1,
        "max": 5,
        "mean": 3,
        "std": pytest.approx((8 / 3) ** 0.5),
        "texts": None,
    }
    read = client.get(reply.headers["Location"])
    assert read.json() == dataset
    assert read.headers["ETag"] == reply.headers["ETag"]
    unchanged = client.get(
        reply.headers["Location"], headers={"If-None-Match": reply.headers["ETag"]}
    )
    assert unchanged.status_code == 304


def test_every_example_of_the_document_runs(client: TestClient, app: FastAPI) -> None:
    """As it is, one after the other."""
    content = app.openapi()["paths"]["/v1/datasets"]["post"]["requestBody"]["content"]
    assert next(iter(content)) == "text/csv"
    for media_type, body in content.items():
        example = body.get("example")
        if example is not None:
            text = example if isinstance(example, str) else json.dumps(example)
            reply = post(client, text, media_type)
            assert reply.status_code in (200, 201), reply.text
            assert reply.json()["n_samples"] == 12


@pytest.mark.parametrize(
    ("content", "media_type"),
    [
        (IRIS.replace(",", "\t"), "text/tab-separated-values"),
        (
            '{"columns": ["a", "b", "k"], "rows": [[1, 2, "x"], [3, 4, "y"], [5, 6, "x"]]}',
            "application/json",
        ),
        (IRIS, "text/csv; charset=utf-8"),
        (IRIS, "Text/CSV"),
        (IRIS, "application/csv; charset=UTF-8"),
    ],
)
def test_same_upload_again_gives_the_existing_one(
    client: TestClient, content: str, media_type: str
) -> None:
    """In any format: 200 instead of 201, and nothing new in the list."""
    dataset = made(post(client, name="first"))
    again = post(client, content, media_type, name="second")
    assert again.status_code == 200
    assert {**again.json(), "reading": dataset["reading"]} == dataset
    assert again.headers["Location"] == f"/v1/datasets/{dataset['id']}"
    assert len(client.get("/v1/datasets").json()["datasets"]) == 1


def test_latest_is_the_one_uploaded_last(client: TestClient) -> None:
    """Also if it existed before."""
    problem(client.get("/v1/datasets/latest"), 404, "not-found")
    first, second = made(post(client)), made(post(client, IRIS + "9,9,b\n"))
    assert client.get("/v1/datasets/latest").json() == second
    post(client)
    assert client.get("/v1/datasets/latest").json() == first
    assert client.get("/v1/datasets/latest/content").content
    assert client.delete("/v1/datasets/latest").status_code == 400


def test_other_formats(client: TestClient) -> None:
    """LIBSVM with its options, NPY without labels."""
    sparse = made(post(client, "1 0:5 2:6\n2 1:7\n", "text/x-libsvm", index_base=0, n_features=9))
    assert (sparse["sparse"], sparse["n_features"], sparse["classes"]) == (True, 9, [1, 2])
    array = made(post(client, npy(np.ones((4, 3))), "application/x-npy", target="none"))
    assert (array["n_features"], array["classes"], array["n_distinct_labels"]) == (3, None, 0)
    assert array["columns"][0]["name"] is None


def test_numeric_target_is_described(client: TestClient) -> None:
    """Also by `validate_only`; `schema` makes classes of it."""
    text = "size,price\n" + "".join(f"{k},{1000 + 7 * k}\n" for k in range(40))
    checked = post(client, text, validate_only=True).json()
    assert (checked["target_kind"], checked["n_distinct_labels"]) == ("numbers", 40)
    assert (checked["classes"], checked["class_counts"]) == (None, None)
    described = checked["target_statistics"]
    assert described["std"] == pytest.approx(80.80377)
    del described["std"]
    assert described == {"min": 1000, "max": 1273, "mean": 1136.5, "median": 1136.5}
    (said,) = (one for one in checked["warnings"] if one["code"] == "numeric-target")
    assert "40 different values" in said["message"]
    dataset = made(post(client, text))
    split = client.post(f"/v1/datasets/{dataset['id']}/split", json={"fraction": 0.25}).json()
    assert [split[part]["target_kind"] for part in ("train", "test")] == ["numbers", "numbers"]
    schema = '{"price": {"kind": "category", "role": "label"}}'
    classes = made(post(client, text, schema=schema))
    assert (classes["target_kind"], classes["target_statistics"]) == ("classes", None)
    assert len(classes["classes"]) == 40


def test_validate_only_keeps_nothing(client: TestClient, incoming: Path) -> None:
    """The reply is that of the upload, without an id."""
    reply = post(client, validate_only=True, name="iris")
    assert reply.status_code == 200
    checked = reply.json()
    assert checked["id"] is None
    assert client.get("/v1/datasets").json()["datasets"] == []
    dataset = made(post(client, name="iris"))
    assert checked | {"id": dataset["id"], "created_at": dataset["created_at"]} == dataset
    assert problem(post(client, "a,k\n1,\n", validate_only=True), 422, "missing-value")
    assert list(incoming.iterdir()) == []


def test_form_with_labels_of_their_own(client: TestClient) -> None:
    """Two files and fields, as curl and pages send them."""
    reply = client.post(
        "/v1/datasets",
        data={"name": "tutorial", "header": "absent"},
        files={
            "file": ("features.txt", "0,1\n1,0\n1,1\n", "text/plain"),
            "labels": ("target.txt", "-1\n1\n-1\n", "text/plain"),
        },
    )
    dataset = made(reply)
    assert dataset["name"] == "tutorial"
    assert (dataset["n_features"], dataset["classes"], dataset["class_counts"]) == (
        2,
        [-1, 1],
        [2, 1],
    )


@pytest.mark.parametrize(
    ("file", "features"),
    [
        (("x.csv", IRIS, "text/csv"), 2),
        (("x.csv", IRIS, "application/vnd.ms-excel"), 2),
        (("x.tsv", IRIS.replace(",", "\t"), "application/octet-stream"), 2),
        (("x", IRIS.replace(",", "\t"), "text/tab-separated-values"), 2),
        (("x.libsvm", "1 1:1 3:1\n2 1:2\n", "application/octet-stream"), 3),
        (("x.svm", "1 1:1 3:1\n2 1:2\n", "text/plain"), 3),
        (("x.json", '{"rows": [[1]], "labels": [1]}', "application/json"), 1),
        (("x.npy", npy(np.ones((2, 5))), "application/octet-stream"), 4),
    ],
)
def test_format_of_a_file_in_a_form(
    client: TestClient, file: tuple[str, Any, str], features: int
) -> None:
    """The part's type says it, or where that says nothing the file's name."""
    dataset = made(client.post("/v1/datasets", files={"file": file}))
    assert dataset["n_features"] == features


def test_parquet_in_every_way(client: TestClient) -> None:
    """As a body, compressed, in a form, and back again; a download is the same upload again."""
    X, labels = np.arange(6.0).reshape(3, 2), np.array(["x", "y", "x"], dtype=object)
    content = parquet({"a": X[:, 0], "b": X[:, 1], "k": labels})
    dataset = made(post(client, content, PARQUET))
    assert (dataset["target"], dataset["classes"]) == ("k", ["x", "y"])
    packed = {"Content-Type": PARQUET, "Content-Encoding": "gzip"}
    path = f"/v1/datasets/{dataset['id']}/content"
    download = client.get(path, headers={"Accept": PARQUET})
    assert download.headers["Content-Type"] == PARQUET
    for reply in (
        client.post("/v1/datasets", content=gzip.compress(content), headers=packed),
        client.post("/v1/datasets", files={"file": ("iris.parquet", content)}),
        client.post("/v1/datasets", files={"file": ("iris", content, PARQUET)}),
        post(client, download.content, PARQUET, target="2"),
        post(client, download.content, PARQUET, target="k"),
    ):
        assert (reply.status_code, reply.json()) == (200, dataset)
    gap = np.ma.masked_array(X[:, 0], [False, True, False])
    body = made(post(client, parquet({"a": gap, "k": labels}), PARQUET))
    assert body["columns"][0]["missing"] == 1
    problem(post(client, content, "text/csv"), 415, "format-mismatch")
    problem(post(client, content[:-3], PARQUET), 422, "columnar-unsupported")


def test_empty_parts_of_a_page_say_nothing(client: TestClient) -> None:
    """A page sends fields that were left empty, and files that were not chosen."""
    boundary = "XX"
    parts = [
        ('name="file"; filename="x.csv"\r\nContent-Type: text/csv', IRIS),
        ('name="labels"; filename=""\r\nContent-Type: application/octet-stream', ""),
        *((f'name="{field}"', "") for field in UploadOptions.model_fields),
    ]
    body = "".join(
        f"--{boundary}\r\nContent-Disposition: form-data; {head}\r\n\r\n{text}\r\n"
        for head, text in parts
    )
    reply = post(client, body + f"--{boundary}--\r\n", f"multipart/form-data; boundary={boundary}")
    assert made(reply)["target"] == "k"


@pytest.mark.parametrize(
    ("content", "media_type", "status", "code"),
    [
        (IRIS, "application/xml", 415, "unsupported-format"),
        (IRIS, "", 415, "unsupported-format"),
        (IRIS, "text/csv; charset=rot13", 415, "unsupported-format"),
        ("\x1f\x8b", "text/csv", 415, "format-mismatch"),
        ("{", "application/json", 400, "malformed-json"),
        ("a,b\n1,\0\n", "text/csv", 400, "bad-encoding"),
        ("", "text/csv", 422, "empty-data"),
        ("", "multipart/form-data", 400, "malformed-request"),
        ("nonsense", "multipart/form-data; boundary=X", 400, "malformed-request"),
        ("--X\r\n\r\n", "multipart/form-data; boundary=X", 400, "malformed-request"),
        (
            '--X\r\nContent-Disposition: form-data; name="file"\r\n\r\na,k\n1,x\n',
            "multipart/form-data; boundary=X",
            400,
            "malformed-request",
        ),
        (
            '--X\r\nContent-Disposition: form-data; name="name"\r\n\r\nx\r\n--X--\r\n',
            "multipart/form-data; boundary=X",
            400,
            "malformed-request",
        ),
    ],
)
def test_requests_that_are_refused(
    client: TestClient, incoming: Path, content: str, media_type: str, status: int, code: str
) -> None:
    """With the code of the contract, and without leaving anything behind."""
    problem(post(client, content.encode("latin-1"), media_type), status, code)
    assert client.get("/v1/datasets").json()["datasets"] == []
    assert list(incoming.iterdir()) == []


def send(client: TestClient, content: bytes, encoding: str = "gzip") -> httpx2.Response:
    headers = {"Content-Type": "text/csv", "Content-Encoding": encoding}
    return client.post("/v1/datasets", content=content, headers=headers)


def test_compressed_body(client: TestClient) -> None:
    """Alone, in members, as a form: it is what was compressed."""
    plain = made(post(client))
    whole = gzip.compress(IRIS.encode(), mtime=0)
    members = gzip.compress(IRIS[:7].encode()) + gzip.compress(IRIS[7:].encode())
    for body in (whole, members):
        assert send(client, body).json() == plain
    boundary = "XX"
    form = f'--XX\r\nContent-Disposition: form-data; name="file"\r\n\r\n{IRIS}\r\n--XX--\r\n'
    reply = client.post(
        "/v1/datasets",
        content=gzip.compress(form.encode()),
        headers={
            "Content-Type": f"multipart/form-data; boundary={boundary}",
            "Content-Encoding": "x-gzip",
        },
    )
    assert reply.json() == plain


def test_compressed_body_of_many_pieces(client: TestClient) -> None:
    """Whatever the sizes of what comes and what it becomes."""
    rows = "".join(f"{i},{i % 7},x\n" for i in range(300_000))
    dataset = made(send(client, gzip.compress(rows.encode(), 1)))
    assert dataset["n_samples"] == 300_000
    assert post(client, rows).json() == dataset


@pytest.mark.parametrize(
    ("content", "encoding", "status", "code"),
    [
        (b"x", "gzip", 415, "format-mismatch"),
        (gzip.compress(IRIS.encode(), mtime=0)[:-1], "gzip", 415, "format-mismatch"),
        (gzip.compress(IRIS.encode(), mtime=0) + b"x", "gzip", 415, "format-mismatch"),
        (gzip.compress(IRIS.encode(), mtime=0)[:-9] + b"x" * 9, "gzip", 415, "format-mismatch"),
        (b"", "gzip", 415, "format-mismatch"),
        (b"x", "br", 415, "unsupported-format"),
        (gzip.compress(IRIS.encode(), mtime=0), "gzip, gzip", 415, "unsupported-format"),
        (gzip.compress(bytes(10_000_000), mtime=0), "gzip", 413, "decompression-limit"),
    ],
)
def test_compressed_bodies_that_are_refused(
    client: TestClient, incoming: Path, content: bytes, encoding: str, status: int, code: str
) -> None:
    """Broken ones, other codings, and bombs."""
    problem(send(client, content, encoding), status, code)
    assert list(incoming.iterdir()) == []


def test_limit_of_what_a_body_becomes(settings: Settings) -> None:
    """It is another one than that on the wire."""
    rows = "".join(f"{i},{i % 7},x\n" for i in range(3000)).encode()
    with small(settings, inflated_bytes=len(rows) - 1) as client:
        reply = problem(send(client, gzip.compress(rows)), 413, "decompression-limit")
        assert reply["limit_bytes"] == len(rows) - 1
        made(post(client, rows))
    with small(settings, inflated_bytes=len(rows)) as client:
        assert send(client, gzip.compress(rows)).status_code == 200


@pytest.mark.parametrize(
    "query",
    [
        {"heder": "absent"},
        {"header": "maybe"},
        {"index_base": 2},
        {"n_features": 0},
        {"delimiter": ",,"},
        {"delimiter": "1"},
        {"name": ""},
        {"name": "x" * 201},
        {"validate_only": "perhaps"},
        {"index_base": 1},
    ],
)
def test_wrong_parameters(client: TestClient, query: dict[str, Any]) -> None:
    """Unknown ones, values out of range, and options of other formats."""
    problem(post(client, **query), 400, "invalid-parameter")


def test_wrong_fields_of_a_form(client: TestClient) -> None:
    """They are checked like parameters, and must not contradict them."""
    files = {"file": ("x.csv", IRIS, "text/csv")}
    for data, query in (
        ({"header": "maybe"}, {}),
        ({"x": "1"}, {}),
        ({"name": "a"}, {"name": "b"}),
    ):
        reply = client.post("/v1/datasets", data=data, files=files, params=query)
        problem(reply, 400, "invalid-parameter")
    said = {"name": "a", "header": "present"}
    query = {"name": "a", "header": "auto", "validate_only": "false"}
    made(client.post("/v1/datasets", data=said, files=files, params=query))


def test_wrong_cells_name_their_place(client: TestClient) -> None:
    """Row, column and value, at most a hundred, and how many there are."""
    rows = "".join(f"{i},word{i},x\n" for i in range(300))
    schema = '{"b": {"kind": "number"}}'
    body = problem(post(client, "a,b,k\n" + rows, schema=schema), 422, "not-a-number")
    assert (len(body["errors"]), body["errors_total"]) == (100, 300)
    first = body["errors"][0]
    assert (first["row"], first["column"], first["value"]) == (1, "b", "word0")
    assert first["hint"]


def small(settings: Settings, **limits: int) -> TestClient:
    return TestClient(create_app(settings.model_copy(update={"limits": Limits(**limits)})))


def test_limits_of_the_settings_hold(settings: Settings, incoming: Path) -> None:
    """On the wire, announced or not, and of what the data hold."""
    with small(settings, upload_bytes=1000, rows=2) as client:
        reply = problem(post(client, "1,2\n" * 300), 413, "body-too-large")
        assert reply["limit_bytes"] == 1000
        chunks = (b"1,2\n" * 100 for _ in range(5))
        headers = {"Content-Type": "text/csv"}
        unannounced = client.post("/v1/datasets", content=chunks, headers=headers)
        problem(unannounced, 413, "body-too-large")
        files = {"file": ("x.csv", "1,2\n" * 300, "text/csv")}
        problem(client.post("/v1/datasets", files=files), 413, "body-too-large")
        assert problem(post(client), 413, "too-many-rows")["limit"] == 2
        assert list(incoming.iterdir()) == []


def test_client_that_leaves_leaves_nothing(
    app: FastAPI, client: TestClient, incoming: Path
) -> None:
    """Half an upload is removed from the disk."""
    sent: list[Any] = []
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": "/v1/datasets",
        "raw_path": b"/v1/datasets",
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [(b"content-type", b"text/csv")],
        "client": ("test", 1),
        "server": ("test", 80),
        "state": {},
    }
    messages = [
        {"type": "http.request", "body": b"a,b,k\n" * 1000, "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(app(scope, receive, send))
    assert messages == []
    assert list(incoming.iterdir()) == []
    assert client.get("/v1/datasets").json()["datasets"] == []


def test_list_in_pages(client: TestClient) -> None:
    """Newest first, without the columns."""
    ids = [made(post(client, IRIS + f"{i},{i},x\n"))["id"] for i in range(3)]
    page = client.get("/v1/datasets", params={"page_size": 2}).json()
    assert [dataset["id"] for dataset in page["datasets"]] == [ids[2], ids[1]]
    assert "columns" not in page["datasets"][0]
    rest = client.get("/v1/datasets", params={"page_token": page["next_page_token"]}).json()
    assert [dataset["id"] for dataset in rest["datasets"]] == [ids[0]]
    assert rest["next_page_token"] is None


def test_name_and_tags_change(client: TestClient) -> None:
    """What is not mentioned stays, null removes, and the ETag changes with them."""
    reply = post(client, name="iris")
    path = reply.headers["Location"]
    changed = client.patch(path, json={"tags": {"team": "x", "stage": "raw"}})
    assert changed.json()["name"] == "iris"
    assert changed.json()["tags"] == {"team": "x", "stage": "raw"}
    assert changed.headers["ETag"] != reply.headers["ETag"]
    changed = client.patch(path, json={"name": None, "tags": {"stage": None}})
    assert changed.json() == client.get(path).json()
    assert (changed.json()["name"], changed.json()["tags"]) == (None, {"team": "x"})
    found = client.get("/v1/datasets", params={"tag": "team=x"}).json()["datasets"]
    assert len(found) == 1
    assert client.get("/v1/datasets", params={"tag": "team=y"}).json()["datasets"] == []


@pytest.mark.parametrize(
    "body",
    [
        {"n_samples": 5},
        {"name": 5},
        {"name": "a\nb"},
        {"tags": {"": "x"}},
        {"tags": {"a": 5}},
        {"tags": {f"k{i}": "x" for i in range(65)}},
    ],
)
def test_changes_that_are_refused(client: TestClient, body: dict[str, Any]) -> None:
    """Only names and tags change, within their rules."""
    path = post(client).headers["Location"]
    problem(client.patch(path, json=body), 422, "invalid-field")


def test_labels_of_a_dataset_are_called_tags(client: TestClient) -> None:
    """The hint names them; an upload has neither `labels` nor `tags` in its query."""
    path = post(client).headers["Location"]
    refused = problem(client.patch(path, json={"labels": {"a": "b"}}), 422, "invalid-field")
    assert refused["errors"][0]["hint"] == "did you mean `tags`? known fields are `name`, `tags`"
    refused = problem(client.get("/v1/datasets?label=a=b"), 400, "invalid-parameter")
    assert refused["errors"][0]["hint"].startswith("did you mean `tag`? known parameters: ")
    for name in ("labels", "tags"):
        refused = problem(post(client, **{name: "a=b"}), 400, "invalid-parameter")
        assert refused["errors"][0]["hint"].startswith("known parameters: ")


def test_changes_can_be_conditional(client: TestClient) -> None:
    """A caller that saw an older state gets an error."""
    reply = post(client)
    path, old = reply.headers["Location"], {"If-Match": reply.headers["ETag"]}
    assert client.patch(path, json={"name": "new"}, headers=old).status_code == 200
    problem(client.patch(path, json={"name": "newer"}, headers=old), 412, "precondition-failed")
    problem(client.delete(path, headers=old), 412, "precondition-failed")
    assert client.get(path).json()["name"] == "new"


def test_deleted_dataset_is_gone(client: TestClient, settings: Settings) -> None:
    """With its files; the same upload then makes a new one."""
    dataset = made(post(client))
    path = f"/v1/datasets/{dataset['id']}"
    assert client.delete(path).status_code == 204
    assert list(open_blobs(settings).keys("datasets")) == []
    problem(client.get(path), 404, "not-found")
    problem(client.delete(path), 404, "not-found")
    assert made(post(client))["id"] != dataset["id"]


def test_dataset_of_a_queued_job_stays(client: TestClient) -> None:
    """Until the job has ended."""
    dataset = made(post(client))
    body = {"dataset_id": dataset["id"], "model_name": "m", "solver": {"name": "newton"}}
    job = client.post("/v1/jobs", json=body).json()
    path = f"/v1/datasets/{dataset['id']}"
    assert job["id"] in problem(client.delete(path), 409, "resource-in-use")["detail"]
    assert client.post(f"/v1/jobs/{job['id']}/cancel", json={}).status_code == 202
    assert client.delete(path).status_code == 204


def test_unknown_datasets(client: TestClient) -> None:
    """404 for ids that could be one, 400 for those that could not."""
    for method in ("GET", "DELETE"):
        problem(client.request(method, UNKNOWN), 404, "not-found")
    problem(client.patch(UNKNOWN, json={}), 404, "not-found")
    problem(client.get("/v1/datasets/ds_..%2f"), 400, "invalid-name")
    problem(client.get("/v1/datasets/nonsense"), 400, "invalid-parameter")
    problem(client.put(UNKNOWN), 405, "method-not-allowed")
