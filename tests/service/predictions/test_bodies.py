from __future__ import annotations

import gzip
import json
import math
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.errors import InvalidContent, InvalidRequest, ServiceError, TooLarge, UnsupportedFormat
from service.predictions.batcher import Instances, Prediction, ScoredBatch
from service.predictions.loaded_models import LoadedModel
from service.predictions.schemas import NO_QUERY
from service.predictions.wire_format import PlainExchange, asked_of, write
from service.rows.formats.json_to_predict import explained_rows
from service.rows.spec import RowLimits
from service.settings import Limits
from tests.service.models.registered_models import fitted_pipeline

ROW_LIMIT = 1000
COLUMNS = ["age", "height", "weight"]


def model(
    classes: tuple[Any, ...] = ("no", "yes"), columns: list[str] | None = None, n_features: int = 3
) -> LoadedModel:
    fitted = fitted_pipeline(classes, n_features)
    return LoadedModel(
        "key", "m", 1, "digest", fitted.classes.tolist(), columns, n_features, fitted, fitted.nbytes
    )


def decode(body: bytes, model: LoadedModel, row_limit: int) -> Instances:
    return decode_as("application/json", body, model, Limits(predict_rows=row_limit))


def decode_as(
    media_type: str, body: bytes, model: LoadedModel, limits: Limits | None = None
) -> Instances:
    headers = [(b"content-type", media_type.encode())]
    return PlainExchange(headers, NO_QUERY, limits or Limits()).read(body, model)


def explain(body: bytes, model: LoadedModel, row_limit: int) -> Instances:
    """By the reader that says what is wrong."""
    rows = explained_rows(body, model.features, RowLimits(row_limit, 4096, 1 << 20))
    outputs, shares = asked_of(rows.others)
    asked = model.default_outputs if outputs is None else outputs
    return Instances(rows.X, asked, shares=shares)


def encode(model: LoadedModel, X: NDArray[np.float64], *outputs: str) -> bytes:
    answer = Prediction(X, ScoredBatch(model, model.fitted.problem_scores(X)), 0, len(X))
    return write("application/json", answer, Instances(X, outputs)).body


def outcome(read: Any, body: bytes, columns: list[str] | None = None) -> object:
    """The bits that were read, or the error."""
    try:
        instances: Instances = read(body, model(columns=columns), ROW_LIMIT)
    except ServiceError as error:
        return error.code, error.detail, error.faults
    assert isinstance(instances.X, np.ndarray)
    assert instances.X.dtype == np.float64
    assert np.isfinite(instances.X).all()
    return instances.X.shape, instances.X.tobytes(), instances.outputs


def refused(body: object, columns: list[str] | None = None) -> ServiceError:
    """The error for a body, given as JSON text or as a value."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(ServiceError) as caught:
        decode(text, model(columns=columns), ROW_LIMIT)
    return caught.value


numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**70), 2**70),
    st.sampled_from([0, -0.0, 5e-324, 1.7976931348623157e308, 2**53 + 1, 2**64, 10**400]),
)
rows = st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=1, max_size=5)
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, st.text()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
nearly_right = st.fixed_dictionaries(
    {"instances": st.lists(st.lists(st.one_of(numbers, anything), min_size=2, max_size=4))},
    optional={"outputs": st.lists(st.sampled_from(["label", "decision", "explanation"]))},
)


@settings(max_examples=300, deadline=None)
@given(rows, st.sampled_from([None, [], ["label"], ["decision", "label"]]), st.booleans())
def test_both_ways_read_the_same_bits(
    instances: list[list[float]], outputs: list[str] | None, spaced: bool
) -> None:
    """Every number is rounded once, correctly, whichever way it takes."""
    document: dict[str, Any] = {"instances": instances}
    if outputs is not None:
        document["outputs"] = outputs
    body = json.dumps(document, indent=1 if spaced else None).encode()
    assert outcome(decode, body) == outcome(explain, body)
    if max(abs(number) for row in instances for number in row) < 10**308:
        expected = np.array([[float(number) for number in row] for row in instances])
        X = decode(body, model(), ROW_LIMIT).X
        assert isinstance(X, np.ndarray)
        assert X.tobytes() == expected.tobytes()


@settings(max_examples=300, deadline=None)
@given(st.one_of(anything, nearly_right), st.sampled_from([None, COLUMNS]))
def test_any_json_is_read_or_refused(document: Any, columns: list[str] | None) -> None:
    """Whatever a body says, both ways agree on it, and nothing but a problem is raised."""
    body = json.dumps(document).encode()
    assert outcome(decode, body, columns) == outcome(explain, body, columns)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_bytes_are_read_or_refused(data: st.DataObject) -> None:
    """So do they on bodies with a few bytes changed, most of which are not JSON."""
    body = bytearray(b'{"instances": [[1, -2.5e3, 0.1], [4, 5, 6]], "outputs": ["label"]}')
    for position in data.draw(st.lists(st.integers(0, len(body) - 1), min_size=1, max_size=3)):
        byte = data.draw(st.sampled_from(b'0189-+.eE[]{},:"\\ \xefnutf\x00\xff'))
        body[position] = byte
    assert outcome(decode, bytes(body)) == outcome(explain, bytes(body))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"instances": [[1, 2, 3]]} x',
        b'{"instances": [[1, 2, 3]], "instances": [[4, 5, 6]]}',
        b'{"instances": [[1, 2, 3]], "outputs": ["label"], "outputs": ["label"]}',
        b'{"instances": [{"age": 1, "age": 2, "height": 3, "weight": 4}]}',
        b'{"instances": [[NaN, 2, 3]]}',
        b'{"instances": [[1, 2, -Infinity]]}',
        b'{"instances": [[01, 2, 3]]}',
        b'{"instances": [["\\ud800", 2, 3]]}',
        b'{"instances": [[' + b"[" * 20 + b"]" * 20 + b", 2, 3]]}",
        b"[" * 100_000,
    ],
    ids=str,
)
def test_what_is_not_json_is_refused(body: bytes) -> None:
    """Syntax, names given twice, bare NaN, bad text, too many levels."""
    with pytest.raises(InvalidRequest, match="malformed-json"):
        decode(body, model(columns=COLUMNS), ROW_LIMIT)


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        ("application/json", b'{"instances": [["\xff", 2, 3]]}'),
        ("application/json", b'{"instances": [[1, 2, 3]]}\0'),
        ("application/json", '{"instances": [[1, 2, 3]]}'.encode("utf-16")),
        ("application/x-ndjson", b"[1, 2, 3]\n[1, 2, \xff]\n"),
        ("application/x-ndjson", b"[1, 2, 3]\0\n"),
        ("text/csv", b"1,2,\xff\n"),
        ("text/x-libsvm", b"1:2\0\n"),
    ],
)
def test_what_is_not_text_is_refused_alike(media_type: str, body: bytes) -> None:
    """By the same code in every format."""
    with pytest.raises(InvalidRequest, match="bad-encoding") as caught:
        decode_as(media_type, body, model(columns=COLUMNS))
    assert caught.value.faults[0].hint


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        ("application/json", b'{"instances": [[1, 2, 3]]}'),
        ("application/x-ndjson", b"[1, 2, 3]\n"),
        ("text/csv", b"1,2,3\n"),
        ("text/x-libsvm", b"1:1 2:2 3:3\n"),
    ],
)
def test_a_byte_order_mark_is_ignored(media_type: str, body: bytes) -> None:
    """Editors put it before any text."""
    read = decode_as(media_type, b"\xef\xbb\xbf" + body, model())
    assert np.asarray(read.X).tolist() == [[1.0, 2.0, 3.0]]


@pytest.mark.parametrize("media_type", ["application/x-ndjson", "text/csv", "text/x-libsvm"])
def test_lines_end_somewhere(media_type: str) -> None:
    """A longer one is refused as in an upload, before its cells are looked at."""
    body = {
        "application/x-ndjson": b"[1, 2, 3]\n[1, 2, 3" + b" " * 2000 + b"]",
        "text/csv": b"1,2,3\n1,2,3" + b" " * 2000,
        "text/x-libsvm": b"1:1\n" + b"1:1 " * 500,
    }[media_type]
    with pytest.raises(InvalidContent) as caught:
        decode_as(media_type, body, model(), Limits(line_bytes=1000))
    assert caught.value.code == "csv-cell-too-large"
    assert "line 2" in caught.value.detail


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        ("application/json", b'{"instances": [[1, 2], [3, 4]]}'),
        ("application/x-ndjson", b"[1, 2]\n[3, 4]\n"),
        ("text/csv", b"1,2\n3,4\n"),
        ("text/tab-separated-values", b"1\t2\n3\t4\n"),
    ],
)
def test_a_wrong_width_is_the_same_error_in_every_format(media_type: str, body: bytes) -> None:
    """All rows of another width are one mistake, with what is expected, in every format."""
    with pytest.raises(InvalidContent) as caught:
        decode_as(media_type, body, model(columns=COLUMNS))
    assert caught.value.code == "feature-mismatch"
    assert caught.value.extra == {"expected": 3, "got": 2, "first_difference": COLUMNS[2]}


@pytest.mark.parametrize(
    ("pair", "hint"), [("0:1", "begin at 1"), ("4:1", "takes 3"), ("9" * 30 + ":1", "takes 3")]
)
def test_libsvm_indices_are_those_of_the_model(pair: str, hint: str) -> None:
    """From 1 to the number of its features; there is nothing to set."""
    with pytest.raises(InvalidContent) as caught:
        decode_as("text/x-libsvm", pair.encode(), model())
    (fault,) = caught.value.faults
    assert (fault.code, fault.row, fault.value) == ("libsvm-index", 1, pair)
    assert hint in (fault.hint or "")


def test_a_number_may_have_thousands_of_digits() -> None:
    """It is too large, not malformed."""
    body = b'{"instances": [[1, 2, %s]]}' % (b"9" * 5000)
    with pytest.raises(InvalidContent, match="non-finite-value"):
        decode(body, model(columns=COLUMNS), ROW_LIMIT)


@pytest.mark.parametrize(
    "body",
    [b"{}", b'{"instances": [[1, 2, 3]], "rows": 1}', b'{"instances": [{"a": 1}]}', b"[[1, 2, 3]]"],
)
def test_what_is_wrong_with_the_document_has_a_hint(body: bytes) -> None:
    """What to send instead; of names, where the model knows none."""
    with pytest.raises(InvalidContent) as caught:
        decode(body, model(), ROW_LIMIT)
    (fault,) = caught.value.faults
    assert fault.hint or "give" in fault.message


@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        ("text/csv", b'{"instances": [[1, 2, 3]]}'),
        ("text/csv", b"1 1:1 2:2\n"),
        ("text/csv", gzip.compress(b"1,2,3\n", mtime=0)),
        ("application/json", gzip.compress(b'{"instances": [[1, 2, 3]]}', mtime=0)),
        ("application/json", b"\x93NUMPY\x01\x00"),
        ("application/x-npy", b"1,2,3\n"),
        ("application/x-npy", b'{"instances": [[1, 2, 3]]}'),
        ("text/x-libsvm", b"PK\x03\x04"),
    ],
)
def test_what_is_another_format_is_told_so(media_type: str, body: bytes) -> None:
    """By the code that uploads have for it."""
    with pytest.raises(UnsupportedFormat, match="format-mismatch"):
        decode_as(media_type, body, model())


def test_lines_of_json_have_no_pointer() -> None:
    """There is no document that it could point into."""
    with pytest.raises(InvalidContent) as caught:
        decode_as("application/x-ndjson", b"1\n", model())
    assert (caught.value.faults[0].row, caught.value.faults[0].pointer) == (1, None)


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        (None, "missing-value"),
        ("yes", "not-a-number"),
        ("1,500", "not-a-number"),
        ("", "missing-value"),
        ([1], "not-a-number"),
        ({}, "not-a-number"),
        (math.inf, "non-finite-value"),
        (10**400, "non-finite-value"),
    ],
)
@pytest.mark.parametrize("columns", [None, COLUMNS])
def test_bad_cell_is_named(cell: object, code: str, columns: list[str] | None) -> None:
    """Row, column and value: in lists and in objects."""
    bodies: list[list[Any]] = [[[1, 2, 3], [4, cell, 6]]]
    if columns:
        bodies.append([[1, 2, 3], {"weight": 6, "height": cell, "age": 4}])
    for instances in bodies:
        text = json.dumps({"instances": instances}).replace("Infinity", "1e999").encode()
        error = refused(text, columns)
        (fault,) = error.faults
        assert (error.code, fault.code, fault.row) == (code, code, 2)
        assert fault.column == (columns[1] if columns else 1)
        assert fault.value is not None
        assert "row 2" in error.detail


def test_every_bad_row_is_listed_up_to_a_hundred() -> None:
    """Once each, in order, and all are counted."""
    bad: list[Any] = [[None, "x", 3], [1, 2], 7, [1, "yes", 3]]
    error = refused({"instances": [[1, 2, 3], *bad, [4, 5, 6]]})
    codes = ["missing-value", "ragged-row", "invalid-field", "not-a-number"]
    assert [(fault.row, fault.code) for fault in error.faults] == list(
        zip([2, 3, 4, 5], codes, strict=True)
    )
    error = refused({"instances": [[1, 2, None]] * 150})
    assert ([fault.row for fault in error.faults], error.faults_total) == (list(range(1, 101)), 150)


@pytest.mark.parametrize(("row", "column"), [([1, 2], "weight"), ([1, 2, 3, 4], 3), ([], "age")])
def test_wrong_number_of_features_is_one_fault(row: list[int], column: str | int) -> None:
    """Where all rows have the same wrong length: expected, got and the first difference."""
    error = refused({"instances": [row] * 5}, COLUMNS)
    assert (error.code, error.faults_total) == ("feature-mismatch", 1)
    assert error.extra == {"expected": 3, "got": len(row), "first_difference": column}


def test_names_find_their_features() -> None:
    """In any order; mixed with lists, if a caller wants."""
    body = {"instances": [{"weight": 3, "age": 1, "height": 2}, [4, 5, 6]]}
    instances = decode(json.dumps(body).encode(), model(columns=COLUMNS), ROW_LIMIT)
    assert isinstance(instances.X, np.ndarray)
    assert instances.X.tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("row", "first"),
    [
        ({"age": 1, "height": 2}, "weight"),
        ({"age": 1, "height": 2, "Weight": 3}, "weight"),
        ({}, "age"),
    ],
    ids=str,
)
def test_missing_names_are_reported(row: dict[str, int], first: str) -> None:
    """Nothing is filled in."""
    error = refused({"instances": [[1, 2, 3], row]}, COLUMNS)
    assert (error.code, error.faults[0].row, error.faults[0].column) == (
        "feature-mismatch",
        2,
        first,
    )
    assert error.extra == {
        "expected": COLUMNS,
        "got": list(row),
        "first_difference": first,
        "missing": [name for name in COLUMNS if name not in row],
    }


def test_names_need_a_model_with_names() -> None:
    """Trained on columns without names, a model takes lists only."""
    error = refused({"instances": [{"age": 1, "height": 2, "weight": 3}]})
    assert (error.code, error.faults[0].row) == ("feature-mismatch", 1)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ([[1, 2, 3]], None),
        ({}, "/instances"),
        ({"instances": None}, "/instances"),
        ({"instances": {"age": 1}}, "/instances"),
        ({"instances": [[1, 2, 3]], "rows": 1}, "/rows"),
        ({"instances": [[1, 2, 3]], "outputs": ["label"], "rows": 1}, "/rows"),
        ({"instances": [[1, 2, 3]], "a/b~": 1}, "/a~1b~0"),
        ({"instances": [[1, 2, 3]], "outputs": "label"}, "/outputs"),
        ({"instances": [[1, 2, 3]], "outputs": ["label", "certainty"]}, "/outputs/1"),
        ({"instances": [[1, 2, 3]], "outputs": [["label"]]}, "/outputs/0"),
        ({"instances": [1, 2, 3]}, "/instances/0"),
    ],
    ids=str,
)
def test_bad_field_is_pointed_at(body: object, pointer: str | None) -> None:
    """Unknown, missing or of the wrong type."""
    error = refused(body)
    assert error.code == "invalid-field"
    assert (error.faults[0].pointer or None) == pointer


def test_long_values_are_cut() -> None:
    """A problem does not send a large body back."""
    error = refused({"instances": [["x" * 1000, 2, 3]], "outputs": ["label"]})
    assert len(error.faults[0].value or "") <= 64
    error = refused({"instances": [{"x" * 1000: 1}]}, COLUMNS)
    assert max(map(len, error.extra["got"])) == 64
    error = refused({"instances": [], "x" * 1000: 1})
    assert len(error.detail) < 300


@pytest.mark.parametrize("row", [[1, 2, 3], {"age": 1, "height": 2, "weight": 3}], ids=str)
def test_rows_over_the_limit_are_refused(row: object) -> None:
    """413 with the limit; exactly the limit passes."""
    body = json.dumps({"instances": [row] * 4}).encode()
    assert len(decode(body, model(columns=COLUMNS), 4).X) == 4
    with pytest.raises(TooLarge) as caught:
        decode(body, model(columns=COLUMNS), 3)
    assert (caught.value.code, caught.value.extra) == ("too-many-rows", {"limit": 3})


def test_no_rows_are_refused() -> None:
    """An empty request is a mistake of the caller."""
    assert refused({"instances": []}).code == "empty-data"
    nothing = (b"", b"\n", b"\r\n")
    for media_type in ("application/x-ndjson", "text/csv", "text/tab-separated-values"):
        for body in nothing:
            with pytest.raises(InvalidContent) as caught:
                PlainExchange([(b"content-type", media_type.encode())], NO_QUERY, Limits()).read(
                    body, model(columns=COLUMNS)
                )
            assert caught.value.code == "empty-data"


@pytest.mark.parametrize(
    "classes",
    [("no", "yes"), (1, 2), (1.5, 2.5), (False, True), ("a", "b", "c"), (1, 2, 3, 4)],
    ids=str,
)
def test_reply_keeps_the_type_of_labels(classes: tuple[Any, ...]) -> None:
    """Texts, integers, floats and booleans come back as what they were."""
    a = model(classes)
    X = np.random.default_rng(0).normal(size=(20, 3))
    decision = a.fitted.decision_function(X)
    reply = orjson.loads(encode(a, X, "label", "decision"))
    assert reply["model"] == {"name": "m", "version": 1, "digest": "digest"}
    assert reply["classes"] == list(classes)
    assert reply["label"] == a.fitted.predict(X).tolist()
    assert {type(label) for label in reply["label"]} == {type(classes[0])}
    assert np.array(reply["decision"]).tobytes() == decision.tobytes()


@pytest.mark.parametrize("outputs", [(), ("label",), ("decision",)])
def test_reply_has_what_was_asked_for(outputs: tuple[str, ...]) -> None:
    """And nothing else."""
    reply = orjson.loads(encode(model(), np.ones((1, 3)), *outputs))
    assert set(reply) == {"model", "classes", *outputs}
