"""Rows appended to a dataset: as if all had been uploaded in one piece."""

from __future__ import annotations

import json
from dataclasses import replace
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

from service.rows.parser import Parser
from service.rows.spec import (
    CSV,
    JSON,
    LIBSVM,
    NPY,
    TSV,
    Stored,
)
from service.rows.table.arrays import ArrayWriter, write_array
from service.settings import Settings
from service.storage.blobs import open_blobs
from tests.service.datasets.test_routes import made, post, problem
from tests.service.files import damage, incoming
from tests.service.rows.arrays import npy
from tests.service.rows.reading import Result, make_spec, places, refusal, upload
from tests.service.rows.test_digest import matrices, numbers, table, words
from tests.service.rows.test_parser import readers

BASE = "a,b,k\n1,2,x\n3,4,y\n"


def same(result: Result, expected: Result) -> None:
    """All that is kept and said of both is equal, types of labels and bits of numbers included."""
    parsed = [replace(one.parsed, reading=None, media_type="") for one in (result, expected)]
    assert repr(parsed[0]) == repr(parsed[1])
    for name, array in expected.arrays.items():
        assert result.arrays[name].dtype == array.dtype
        assert result.arrays[name].tobytes() == array.tobytes()


@hypothesis.settings(max_examples=50)
@given(X=matrices.filter(lambda X: len(X) > 1), data=st.data())
def test_append_is_upload_of_both(X: Any, data: st.DataObject) -> None:
    """Dense rows with labels of any kind, cut anywhere."""
    kind = data.draw(st.sampled_from([words, numbers]))
    labels = data.draw(st.lists(kind, min_size=len(X), max_size=len(X)))
    cells = [[*map(repr, row), label] for row, label in zip(X.tolist(), labels, strict=True)]
    cut = data.draw(st.integers(1, len(X) - 1))
    first = upload(table(cells[:cut], ","), header="absent")
    second = upload(table(cells[cut:], ","), header="absent", onto=first)
    same(second, upload(table(cells, ","), header="absent"))


rows_of_libsvm = st.lists(
    st.dictionaries(st.integers(1, 6), st.floats(-9, 9), max_size=4), min_size=2, max_size=8
)


@hypothesis.settings(max_examples=50)
@given(rows=rows_of_libsvm, data=st.data())
def test_append_of_sparse_rows(rows: list[dict[int, float]], data: st.DataObject) -> None:
    """CSR arrays are joined like dense ones."""
    lines = [
        f"{len(row)} " + " ".join(f"{index}:{value!r}" for index, value in sorted(row.items()))
        for row in rows
    ]
    cut = data.draw(st.integers(1, len(rows) - 1))
    first = upload("\n".join(lines[:cut]), LIBSVM, n_features=6, dense="never")
    second = upload("\n".join(lines[cut:]), LIBSVM, onto=first)
    same(second, upload("\n".join(lines), LIBSVM, n_features=6, dense="never"))


@pytest.mark.parametrize(
    ("content", "media_type", "options"),
    [
        ("a,b,k\n5,6,x\n", CSV, {}),
        ("k\tb\ta\nx\t6\t5\n", TSV, {}),
        ("b,k,a\n6,x,5\n", CSV, {}),
        ("5,6,x\n", CSV, {}),
        ("5,6,x\n", CSV, {"header": "absent"}),
        ("x,5,6\n", CSV, {"target": "0"}),
        ("b,class,a\n6,x,5\n", CSV, {"target": "class"}),
        ("b,a\n6,5\n", CSV, {"labels": "x\n"}),
        ('{"columns": ["b", "k", "a"], "rows": [[6, "x", 5]]}', JSON, {}),
        ('{"columns": ["b", "a"], "rows": [[6, 5]], "labels": ["x"]}', JSON, {}),
        ('{"rows": [[5, 6]], "labels": ["x"]}', JSON, {}),
        (npy(np.array([[5, 6]])), NPY, {"labels": "x\n"}),
    ],
)
def test_columns_are_matched(content: str | bytes, media_type: str, options: Any) -> None:
    """By name where the rows have names, in whatever order; else by position."""
    same(
        upload(content, media_type, onto=upload(BASE), **options),
        upload(BASE + "5,6,x\n"),
    )


def test_names_that_look_like_numbers() -> None:
    """They are a header where the dataset has the same."""
    base = upload("0,1,k\n1,2,x\n3,4,y\n", header="present")
    result = upload("1,0,k\n6,5,x\n", onto=base)
    assert result.arrays["X"].tolist() == [[1, 2], [3, 4], [5, 6]]


def test_dataset_without_names_gets_none() -> None:
    """Its columns are matched by position."""
    base = upload("1,2,x\n3,4,y\n", header="absent")
    result = upload("p,q,r\n5,6,x\n", onto=base)
    assert result.parsed.columns is None
    assert result.arrays["X"].tolist() == [[1, 2], [3, 4], [5, 6]]


def test_data_without_labels_stay_so() -> None:
    """The last column is not the label then."""
    base = upload("a,b\n1,2\n3,4\n", target="none")
    same(upload("b,a\n6,5\n", onto=base), upload("a,b\n1,2\n3,4\n5,6\n", target="none"))


@pytest.mark.parametrize(
    ("before", "after", "classes"),
    [
        (["2", "1"], ["3", "1"], [1, 2, 3]),
        (["2", "1"], ["0.5"], None),
        (["0.5"], ["2"], None),
        (["x", "1"], ["2", "1"], ["1", "2", "x"]),
        (["x"], ["1", "1.0"], ["1", "1.0", "x"]),
        (["9007199254740993"], ["1"], [1, 9007199254740993]),
    ],
)
def test_classes_are_merged(before: list[str], after: list[str], classes: list[Any]) -> None:
    """Numbers stay numbers; where there are words, texts stay texts."""
    first, second = (
        "".join(f"{i},{label}\n" for i, label in enumerate(labels)) for labels in (before, after)
    )
    result = upload(second, header="absent", onto=upload(first, header="absent"))
    same(result, upload(first + second, header="absent"))
    assert repr(result.parsed.classes) == repr(classes)


@pytest.mark.parametrize("cuts", [(1100, 1300), (900, 1300), (1100, 1150), (900, 950)])
@pytest.mark.parametrize("step", [1, 0.5])
def test_measurements(cuts: tuple[int, int], step: float) -> None:
    """Numbers that are too many to be classes, before or after."""
    rows = [f"{i},{(i % cuts[0]) * step}\n" for i in range(cuts[1])]
    first = upload("".join(rows[: cuts[0]]))
    same(upload("".join(rows[cuts[0] :]), onto=first), upload("".join(rows)))
    more = [f"{i},{i * step}\n" for i in range(cuts[1])]
    same(upload("".join(more[cuts[0] :]), onto=first), upload("".join(more)))


def test_too_many_words() -> None:
    """More than a thousand texts in all cannot be classes."""
    first, second = (
        "".join(f"{i},w{i}\n" for i in range(*ends)) for ends in ((0, 600), (600, 1200))
    )
    assert refusal(second, onto=upload(first, target="1")).code == "too-many-classes"


def test_sparse_data_get_more_columns_if_asked() -> None:
    """An index beyond the last column is a mistake unless n_features says more."""
    base = upload("1 1:5 3:6\n2 2:1\n", LIBSVM, dense="never")
    error = refusal("1 4:1\n", LIBSVM, onto=base)
    assert places(error) == [("libsvm-index", 1, None, "4:1")]
    assert "n_features" in str(error.faults[0].hint)
    wider = upload("1 4:1\n", LIBSVM, onto=base, n_features=5)
    same(wider, upload("1 1:5 3:6\n2 2:1\n1 4:1\n", LIBSVM, n_features=5, dense="never"))
    assert refusal("1 1:1\n", LIBSVM, onto=base, n_features=2).code == "feature-mismatch"


@pytest.mark.parametrize(
    ("content", "options", "extra"),
    [
        (
            "a,c,k\n5,6,x\n",
            {},
            {"expected": ["a", "b"], "got": ["a", "c"], "first_difference": "b"},
        ),
        ("a,b,c,k\n5,6,7,x\n", {}, {"first_difference": "c"}),
        ("a,k\n5,x\n", {}, {"first_difference": "b"}),
        ("5,x\n", {}, {"expected": 2, "got": 1, "first_difference": "b"}),
        ("5,6,7,x\n", {}, {"expected": 2, "got": 3, "first_difference": 2}),
        ("a,b,k\n5,6,7\n", {"target": "none"}, {"first_difference": "k"}),
    ],
)
def test_other_columns_are_refused(content: str, options: Any, extra: dict[str, Any]) -> None:
    """With the columns of both, and the first difference."""
    error = refusal(content, onto=upload(BASE), **options)
    assert error.code == "feature-mismatch"
    assert error.extra.items() >= extra.items()


@pytest.mark.parametrize(
    ("base", "content", "media_type", "options", "code"),
    [
        (BASE, "1 1:1\n", LIBSVM, {}, "feature-mismatch"),
        ("1 1:1\n", BASE, CSV, {}, "feature-mismatch"),
        (BASE, "a,b\n5,6\n", CSV, {"target": "none"}, "label-mismatch"),
        (BASE, "a,b\n5,6\n", CSV, {}, "target-missing"),
        (BASE, '{"rows": [[5, 6]]}', JSON, {}, "label-mismatch"),
        ("a,b\n1,2\n", '{"rows": [[5, 6]], "labels": ["x"]}', JSON, {}, "label-mismatch"),
    ],
)
def test_data_of_another_kind_are_refused(
    base: str, content: str, media_type: str, options: Any, code: str
) -> None:
    """Sparse or dense, labeled or not: as the dataset is."""
    target = "none" if base == "a,b\n1,2\n" else None
    onto = upload(base, LIBSVM if ":" in base else CSV, target=target)
    assert refusal(content, media_type, onto=onto, **options).code == code


@pytest.mark.parametrize(
    ("base", "labels", "classes"),
    [([1, 2], ["1", "3"], [1, 2, 3]), (["x", "1"], [1, 2.5], ["1", "2.5", "x"])],
)
def test_number_is_equal_to_its_text(base: Any, labels: Any, classes: Any) -> None:
    """Labels become those of the dataset, whatever wrote them."""

    def rows(labels: list[Any]) -> str:
        return json.dumps({"rows": [[i] for i, _ in enumerate(labels)], "labels": labels})

    result = upload(rows(labels), JSON, onto=upload(rows(base), JSON))
    assert result.parsed.classes == classes


@pytest.mark.parametrize(
    ("base", "labels", "place"),
    [
        ([1, 2], [2, "x", "y"], None),
        ([True], ["true"], ("label-mismatch", 1, "k", "true")),
        ([1.5], [False], ("label-mismatch", 1, "k", "False")),
    ],
)
def test_labels_of_another_kind_are_refused(base: Any, labels: Any, place: Any) -> None:
    """With the first row that has one."""

    def rows(labels: list[Any]) -> str:
        return json.dumps({"columns": ["a", "k"], "rows": [[i, x] for i, x in enumerate(labels)]})

    error = refusal(rows(labels), JSON, onto=upload(rows(base), JSON))
    if place is not None:
        assert places(error) == [place]
    words = refusal("a,k\n5,1\n6,2\n7,word\n", onto=upload(rows([1, 2]), JSON))
    assert places(words) == [("label-mismatch", 3, "k", "word")]


@pytest.mark.parametrize(
    ("limits", "code", "limit"),
    [({"rows": 3}, "too-many-rows", 3), ({"stored_values": 7}, "too-many-values", 7)],
)
def test_limits_count_both(limits: dict[str, int], code: str, limit: int) -> None:
    """Four rows of two values."""
    error = refusal("a,b,k\n5,6,x\n7,8,x\n", onto=upload(BASE), limits=limits)
    assert (error.code, error.extra["limit"]) == (code, limit)
    sparse = upload("1 1:1 2:2\n2 1:3 2:4\n", LIBSVM, dense="never")
    error = refusal("1 1:1 2:2\n2 1:3 2:4\n", LIBSVM, onto=sparse, limits=limits)
    assert (error.code, error.extra["limit"]) == (code, limit)


@pytest.mark.usefixtures("no_other_readers")
def test_memory_does_not_grow_with_the_dataset(tmp_path: Path) -> None:
    """160 MB get another row without ever being in memory as a whole."""
    n_samples, n_features = 200_000, 100
    (tmp_path / "onto").mkdir()
    with ArrayWriter(tmp_path / "onto" / "X.npy", "<f8") as writer:
        for i in range(100):
            writer.write(np.full((n_samples // 100, n_features), i))
        writer.finish((n_samples, n_features))
    write_array(tmp_path / "onto" / "y.npy", np.zeros(n_samples, dtype=np.int32))
    onto = Stored(
        folder=str(tmp_path / "onto"),
        arrays=["X", "y"],
        n_samples=n_samples,
        n_features=n_features,
        sparse=False,
        columns=None,
        target=None,
        classes=["y"],
    )
    spec = make_spec(tmp_path, "1," * n_features + "x\n", limits={"stored_values": 10**8})
    parser = Parser()
    parsed = anyio.run(parser.parse, replace(spec, onto=onto))
    assert (parsed.classes, parsed.class_counts) == (["x", "y"], [1, n_samples])
    (process,) = readers()
    status = Path(f"/proc/{process.pid}/status").read_text()
    assert int(status.split("VmHWM:")[1].split()[0]) < 200 * 1024
    parser.close()


def append(client: TestClient, path: str, content: str, **query: Any) -> httpx2.Response:
    headers = {"Content-Type": CSV}
    return client.post(f"{path}/append", content=content, params=query, headers=headers)


def test_append_makes_a_dataset(client: TestClient) -> None:
    """Complete by itself, with its parent named; the parent stays as it is."""
    reply = post(client, BASE, name="flowers")
    parent, path = made(reply), reply.headers["Location"]
    reply = append(client, path, "b,a,k\n6,5,z\n")
    child = made(reply)
    assert reply.headers["Location"] == f"/v1/datasets/{child['id']}"
    assert reply.headers["ETag"] == client.get(reply.headers["Location"]).headers["ETag"]
    assert (child["parent"], child["inherited_rows"]) == (parent["id"], 2)
    assert (child["name"], child["n_samples"]) == ("flowers", 3)
    assert (child["classes"], child["class_counts"]) == (["x", "y", "z"], [1, 1, 1])
    assert client.get(path).json() == parent
    again = append(client, path, "5,6,z\n", name="other")
    assert (again.status_code, again.json()) == (200, child)
    whole = made(post(client, BASE + "5,6,z\n", name="flowers"))
    differing = {"id", "created_at", "parent", "inherited_rows"}
    assert {k: v for k, v in whole.items() if k not in differing} == {
        k: v for k, v in child.items() if k not in differing
    }
    assert client.delete(path).status_code == 204
    assert client.get(f"/v1/datasets/{child['id']}").json() == child
    grandchild = made(append(client, f"/v1/datasets/{child['id']}", "7,8,z\n"))
    assert grandchild["inherited_rows"] == 3


def test_append_can_be_tried(client: TestClient, settings: Settings) -> None:
    """`validate_only` shows the dataset that would be; a form works as in uploads."""
    path = post(client, BASE).headers["Location"]
    reply = append(client, path, "5,6,z\n", validate_only=True)
    assert reply.status_code == 200
    assert (reply.json()["id"], reply.json()["n_samples"]) == (None, 3)
    assert reply.json()["parent"] == path.rpartition("/")[2]
    assert len(client.get("/v1/datasets").json()["datasets"]) == 1
    reply = client.post(
        f"{path}/append",
        data={"name": "more"},
        files={"file": ("x.csv", "a,b\n5,6\n", "text/csv"), "labels": ("y.csv", "z\n", "text/csv")},
    )
    assert made(reply)["name"] == "more"
    problem(append(client, path, "a,c,k\n5,6,z\n"), 422, "feature-mismatch")
    problem(append(client, "/v1/datasets/ds_" + "0" * 32, BASE), 404, "not-found")
    assert list(incoming(settings).iterdir()) == []


def test_damaged_parent_is_not_copied(client: TestClient, settings: Settings) -> None:
    """Its rows are compared with their digest."""
    path = post(client, BASE).headers["Location"]
    damage(settings, "X")
    problem(append(client, path, "5,6,z\n"), 500, "dataset-corrupt")
    open_blobs(settings).delete("datasets")
    problem(append(client, path, "5,6,z\n"), 500, "dataset-corrupt")


def test_reading_is_that_of_the_first_rows(client: TestClient, settings: Settings) -> None:
    """Of whatever form the appended ones are; models predict rows in the first form."""
    german = "n;c;k\n1,5;a;x\n2,5;b;y\n"
    parent = made(post(client, german))
    path = f"/v1/datasets/{parent['id']}"
    for body, media_type in (("n,c,k\n3.5,a,x\n", CSV), ('[{"n":4,"c":"b","k":"x"}]', JSON)):
        reply = client.post(f"{path}/append", content=body, headers={"Content-Type": media_type})
        child = made(reply)
        assert child["reading"] == parent["reading"]
        assert client.get(f"/v1/datasets/{child['id']}").json()["reading"] == parent["reading"]
