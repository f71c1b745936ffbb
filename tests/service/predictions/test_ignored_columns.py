"""Columns that a model does not use may come with the rows."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import InvalidContent, ServiceError
from service.predictions.batcher import Instances
from service.rows.formats.json_to_predict import explained_rows
from service.rows.spec import RowLimits
from tests.service.models.registered_models import RegisteredModels, fitted_pipeline
from tests.service.predictions.predict_paths import PredictPath, predict_path
from tests.service.predictions.test_bodies import COLUMNS, decode_as, model

__all__ = ["predict_path"]

pytestmark = pytest.mark.one_application()

PATH = "/v1/models/iris/predict"
ROWS = np.array([[1.0, 2.0, 3.0], [-4.5, 0.0, 1e-3], [0.1, 1e20, -7.25e-300]])
HEADER = ["id", "weight", "", "age", "label: é", "height"]

Record = dict[str, Any]


def records(X: Any) -> list[Record]:
    """With an identifier, an index without a name and a label, which is a text."""
    return [
        dict(zip(HEADER, [f"n: {i}", weight, i, age, "a, b\u003a[", height], strict=True))
        for i, (age, height, weight) in enumerate(np.asarray(X).tolist())
    ]


def csv_of(rows: list[Record], delimiter: str = ",") -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def without_quotes(rows: list[Record]) -> list[Record]:
    """With a label that needs none."""
    return [{**row, "label: é": "[a"} for row in rows]


def bodies(rows: list[Record]) -> dict[str, tuple[str, bytes]]:
    """The same rows in every format with names."""
    escaped = json.dumps({"instances": rows})
    readable = json.dumps({"instances": without_quotes(rows)}, ensure_ascii=False)
    return {
        "JSON": ("application/json", escaped.encode()),
        "JSON in UTF-8": ("application/json", readable.encode()),
        "NDJSON": ("application/x-ndjson", "\n".join(map(json.dumps, rows)).encode()),
        "CSV": ("text/csv", csv_of(without_quotes(rows))),
        "CSV, quoted": ("text/csv", csv_of(rows)),
        "TSV": ("text/tab-separated-values", csv_of(without_quotes(rows), "\t")),
    }


@pytest.mark.parametrize("member", ["instances", "records", None])
def test_objects_in_cells_are_columns_of_their_own(member: str | None) -> None:
    """As in an upload; an object without a feature is ignored as it is."""
    nested = replace(model(), columns=["user.age", "height", "user.weight"])
    rows: list[Record] = [
        {"user": {"age": age, "city": "x", "weight": weight}, "height": height, "more": {"a": []}}
        for age, height, weight in ROWS.tolist()
    ]
    if member is None:
        instances = decode_as(
            "application/x-ndjson", "\n".join(map(json.dumps, rows)).encode(), nested
        )
    else:
        instances = decode_as("application/json", json.dumps({member: rows}).encode(), nested)
    np.testing.assert_array_equal(instances.X, ROWS)
    assert instances.ignored == ("more", "user.city")


def test_a_column_beside_an_object_with_its_name() -> None:
    """The column counts."""
    nested = replace(model(), columns=["user.age", "height", "weight"])
    row = {"user": {"age": 5.0}, "user.age": 1.0, "height": 2.0, "weight": 3.0}
    instances = decode_as("application/json", json.dumps({"instances": [row]}).encode(), nested)
    np.testing.assert_array_equal(instances.X, [[1.0, 2.0, 3.0]])
    assert instances.ignored == ("user",)


def test_a_training_file_is_predicted(
    predict_path: PredictPath, registered: RegisteredModels
) -> None:
    """With its label and identifiers, in any format, to the bit; they are listed once."""
    fitted = fitted_pipeline(scaled=True)
    registered.add("iris", fitted, columns=COLUMNS)
    ignored = ["id", "", "label: é"]
    for name, (media_type, body) in bodies(records(ROWS)).items():
        headers = {"Content-Type": media_type}
        path = f"{PATH}?outputs=decision"
        reply = predict_path.post(path, content=body, headers=headers)
        assert reply.status_code == 200, (name, reply.text)
        assert reply.json()["decision"] == fitted.decision_function(ROWS).tolist(), name
        assert reply.json()["ignored_columns"] == ignored, name
        for accept in ("text/csv", "application/x-ndjson", "application/x-npy"):
            reply = predict_path.post(path, content=body, headers={**headers, "Accept": accept})
            assert reply.headers["X-Ignored-Columns"] == "id,,label%3A %C3%A9", name
    plain = predict_path.post(PATH, json={"instances": ROWS.tolist()})
    assert "ignored_columns" not in plain.json()
    plain = predict_path.post(
        PATH, json={"instances": ROWS.tolist()}, headers={"Accept": "text/csv"}
    )
    assert "X-Ignored-Columns" not in plain.headers


def test_missing_columns_are_one_error(
    predict_path: PredictPath, registered: RegisteredModels
) -> None:
    """It names all of them, and those that may be misspelled."""
    registered.add("iris", fitted_pipeline(), columns=COLUMNS)
    rows = [{"Weight": 1, "age": 2.5, "label": "a"}] * 3
    for name, (media_type, body) in {
        "JSON": ("application/json", json.dumps({"instances": rows}).encode()),
        "NDJSON": ("application/x-ndjson", "\n".join(map(json.dumps, rows)).encode()),
        "CSV": ("text/csv", csv_of(rows)),
    }.items():
        reply = predict_path.post(PATH, content=body, headers={"Content-Type": media_type})
        problem = reply.json()
        assert (reply.status_code, problem["code"]) == (422, "feature-mismatch"), name
        assert problem["errors_total"] == 1, name
        assert problem["missing"] == ["height", "weight"], name
        assert "'height', 'weight'; not of the model: 'Weight', 'label'" in problem["detail"], name


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        ("text/csv", b"age,height,weight,label,label\n1,2,3,a,b\n"),
        ("text/csv", b"age,height,weight,age\n1,2,3,4\n"),
        ("application/json", b'{"instances": [{"age":1,"height":2,"weight":3,"x":1,"x":2}]}'),
        ("application/json", b'{"instances": [{"age":1,"height":2,"weight":3,"x":":","age":2}]}'),
        (
            "application/json",
            b'{"instances": [{"age":1,"height":2,"weight":3,"x":"\\u003a","age":2}]}',
        ),
        ("application/x-ndjson", b'{"age":1,"height":2,"weight":3,"x":{"y":1,"y":2}}\n'),
    ],
)
def test_a_name_that_comes_twice_is_an_error(media_type: str, body: bytes) -> None:
    """Of a feature or of another column."""
    with pytest.raises(ServiceError) as caught:
        decode_as(media_type, body, model(columns=COLUMNS))
    assert caught.value.code in ("feature-mismatch", "malformed-json")


def test_ragged_rows_are_found_beside_ignored_columns() -> None:
    """By the number of cells that the header has."""
    body = b"age,label,height,weight\n1,a,2,3\n1,2,3\n"
    with pytest.raises(InvalidContent) as caught:
        decode_as("text/csv", body, model(columns=COLUMNS))
    (fault,) = caught.value.faults
    assert (fault.code, fault.row) == ("ragged-row", 2)
    assert "3 values, 4 are expected" in fault.message


def test_a_bad_cell_beside_ignored_columns_is_named() -> None:
    """With its row and its column."""
    rows = [*records(ROWS), {**records(ROWS)[0], "height": "tall"}]
    for media_type, body in bodies(rows).values():
        with pytest.raises(InvalidContent) as caught:
            decode_as(media_type, body, model(columns=COLUMNS))
        (fault,) = caught.value.faults
        assert (fault.code, fault.row, fault.column) == ("not-a-number", 4, "height")


def test_text_outside_of_the_features_is_checked() -> None:
    """It is UTF-8 without NUL, as all text."""
    for cell in (b"\xff", b"\0"):
        with pytest.raises(ServiceError, match="bad-encoding"):
            decode_as(
                "text/csv",
                b"age,height,weight,x\n1,2,3,%b\n" % cell,
                model(columns=COLUMNS),
            )


cells = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=5)
)
others = st.dictionaries(
    st.text(max_size=5).filter(lambda name: name not in COLUMNS),
    st.one_of(cells, st.lists(cells, max_size=2), st.dictionaries(st.text(), cells, max_size=2)),
    max_size=3,
)


@settings(max_examples=200, deadline=None)
@given(st.lists(others, min_size=1, max_size=4), st.booleans(), st.randoms())
def test_other_members_change_nothing(some: list[Record], ascii_only: bool, random: Any) -> None:
    """Whatever they hold: the bits are those of the features alone, and both readers agree."""
    rows: list[Record] = []
    for i, extra in enumerate(some):
        members = [*extra.items(), ("age", 0.5), ("height", i), ("weight", -1e300)]
        random.shuffle(members)
        rows.append(dict(members))
    body = json.dumps({"instances": rows}, ensure_ascii=ascii_only)
    body = body.replace("-Infinity", "-1e999").replace("Infinity", "1e999")
    if not ascii_only and not body.isprintable():
        body = json.dumps({"instances": rows}).replace("Infinity", "1e999")
    columns = model(columns=COLUMNS).features
    fast = decode_as("application/json", body.encode(), model(columns=COLUMNS))
    slow = explained_rows(body.encode(), columns, RowLimits(10, 4096, 1 << 20))
    expected = np.array([[0.5, i, -1e300] for i in range(len(some))])
    for X in (fast.X, slow.X):
        assert cast(np.ndarray, X).tobytes() == expected.tobytes()
    assert fast.ignored == slow.ignored
    assert set(fast.ignored) == set().union(*some)
    assert isinstance(fast, Instances)
