"""Rows of tables with categories, dates and gaps."""

from __future__ import annotations

import json
import math
from codecs import BOM_UTF8
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import InvalidContent, ServiceError
from service.predictions.loaded_models import LoadedModel
from service.rows.cell_texts.reading import ANY_DELIMITER, Reading
from service.rows.formats.json_to_predict import explained_rows
from service.rows.spec import RowLimits
from service.settings import Limits
from svm.data.columns import UNKNOWN
from svm.encoding.encoder import Encoder, Encoding
from svm.model.pipeline import FittedPipeline
from svm.transforms.features import Interactions, Nystroem, RandomFourier, Square
from tests.service.models.registered_models import RegisteredModels
from tests.service.predictions.predict_paths import PredictPath, predict_path
from tests.service.predictions.table_rows import (
    NAMES,
    Values,
    bodies,
    csv_of,
    fitted_table,
    objects,
    raw_rows,
    written,
)
from tests.service.predictions.test_bodies import decode_as

__all__ = ["predict_path"]

pytestmark = pytest.mark.one_application()

PATH = "/v1/models/passengers/predict"
FITTED = fitted_table()
ROWS = raw_rows(2, 5, unknown=0.0, missing=0.0)
ROWS[:, NAMES.index("port")] = 0.0  # needs no quotes
ROW = ROWS[:1]


def model(fitted: FittedPipeline = FITTED) -> LoadedModel:
    classes = fitted.classes.tolist()
    return LoadedModel("key", "m", 1, "digest", classes, NAMES, len(NAMES), fitted, fitted.nbytes)


def decoded(media_type: str, body: bytes, fitted: FittedPipeline = FITTED) -> Values:
    X = decode_as(media_type, body, model(fitted), Limits()).X
    assert isinstance(X, np.ndarray)
    assert X.dtype == np.float64
    assert X.flags.c_contiguous
    return X


def json_body(*rows: Any) -> bytes:
    return json.dumps({"instances": rows}).encode()


def refused(media_type: str, body: bytes, fitted: FittedPipeline = FITTED) -> ServiceError:
    with pytest.raises(ServiceError) as caught:
        decode_as(media_type, body, model(fitted), Limits())
    return caught.value


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_every_format_has_the_same_raw_values(seed: int | None) -> None:
    """However their cells are written; 12,000 rows, to the bit."""
    X = raw_rows(1000, seed or 0)
    for name, (media_type, body) in bodies(X, seed).items():
        read = decoded(media_type, body)
        assert np.array_equal(read, X, equal_nan=True), name
        assert np.array_equal(np.signbit(read), np.signbit(X)), name


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_rows_do_not_depend_on_others(seed: int, n: int) -> None:
    """Each alone and in company has the same score, to the bit, in every format."""
    X = raw_rows(n, seed)
    expected = FITTED.decision_function(X)
    for name, (media_type, body) in bodies(X, seed).items():
        read = decoded(media_type, body)
        assert FITTED.scores_of_checked(read)[:, 0].tobytes() == expected.tobytes(), name
    for i in range(min(n, 5)):
        for name, (media_type, body) in bodies(X[i : i + 1], seed).items():
            score = FITTED.scores_of_checked(decoded(media_type, body))
            assert score.tobytes() == expected[i : i + 1].tobytes(), name


@pytest.mark.soundness
@pytest.mark.parametrize("quarter", range(4))
def test_a_million_rows_have_one_answer(quarter: int) -> None:
    """Each as CSV, JSON and NDJSON, alone and in batches of any size: no bit differs."""
    n, differing = 10_000, 0
    for seed in range(25 * quarter, 25 * (quarter + 1)):
        X = raw_rows(n, seed)
        expected = FITTED.decision_function(X)
        lists, named = written(X, "value", seed), objects(X, seed)
        forms = (
            ("text/csv", csv_of(written(X, "text", seed))),
            ("application/json", json_body(*lists)),
            ("application/x-ndjson", "\n".join(map(json.dumps, named)).encode()),
        )
        for media_type, body in forms:
            scores = FITTED.scores_of_checked(decoded(media_type, body))[:, 0]
            equal = scores.view(np.uint64) == expected.view(np.uint64)
            differing += n - int(np.count_nonzero(equal))
        order = np.random.default_rng(seed).permutation(n)
        for size in (1, 2 + 37 * seed):
            for start in range(0, n, size):
                some = order[start : start + size]
                scores = FITTED.scores_of_checked(X[some])[:, 0]
                differing += scores.tobytes() != expected[some].tobytes()
    print(f"\n250,000 rows: {differing} differ")
    assert differing == 0


cells = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.sampled_from(["", "NA", "male", "1", "1.0", "true", "2024-02-30", "2024-05-01", " 3"]),
    st.text(max_size=4),
    st.lists(st.none(), max_size=1),
    st.just({}),
    st.just(10**400),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.lists(cells, min_size=8, max_size=8), min_size=1, max_size=3), st.booleans())
def test_both_readers_agree_on_any_cells(rows: list[list[Any]], named: bool) -> None:
    """The one that reads at once, and the one that says what is wrong."""
    some = [dict(zip(NAMES, row, strict=True)) for row in rows] if named else rows
    body = json.dumps({"instances": some}).replace("Infinity", "1e999").encode()

    def outcome(read: Any) -> object:
        try:
            return read().X.tobytes()
        except ServiceError as error:
            return error.code, error.detail, error.faults

    features = model().features
    assert outcome(lambda: decode_as("application/json", body, model(), Limits())) == outcome(
        lambda: explained_rows(body, features, RowLimits(10, 4096, 1 << 20))
    )


texts = st.one_of(
    st.floats().map(str),
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from(["", "NA", "male", "1", "true", "1_000", "\u0663", "nan", "1e999", "a,b", "#"]),
    st.sampled_from(["2024-05-01", " 3\t", "age", "port", "class: é", "other", "sep=", "\n", "'"]),
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 7), texts), max_size=3),
    st.sampled_from(["named", "turned", "without names"]),
    st.sampled_from([None, *ANY_DELIMITER]),
)
def test_both_readers_agree_on_any_texts(
    changes: list[tuple[int, int, str]], header: str, uploaded: str | None
) -> None:
    """The one of a few plain lines, and the one of other texts: they begin with a mark here."""
    rows = written(ROWS, "text")
    for i, j, text in changes:
        rows[i][j] = text
    names = {"named": NAMES, "turned": NAMES[::-1]}.get(header)
    asked = replace(model(), reading=Reading(delimiter=uploaded))
    body = csv_of(rows, names, uploaded or ",")
    media_type = "text/tab-separated-values" if uploaded == "\t" else "text/csv"

    def outcome(body: bytes) -> object:
        try:
            X = decode_as(media_type, body, asked, Limits()).X
            assert isinstance(X, np.ndarray)
            return X.tobytes()
        except ServiceError as error:
            return error.code, error.detail, error.faults

    assert outcome(body) == outcome(BOM_UTF8 + body)


def test_predictions_are_those_of_the_model(
    predict_path: PredictPath, registered: RegisteredModels
) -> None:
    """By every route and in every format, for unknown levels and missing cells too."""
    registered.add("passengers", FITTED, columns=NAMES)
    X = raw_rows(40)
    expected = FITTED.decision_function(X).tolist()
    for name, (media_type, body) in bodies(X, 3).items():
        headers = {"Content-Type": media_type}
        reply = predict_path.post(f"{PATH}?outputs=label,decision", content=body, headers=headers)
        assert reply.status_code == 200, (name, reply.text)
        assert reply.json()["decision"] == expected, name
        assert reply.json()["label"] == FITTED.predict(X).tolist(), name
        ignored = ["id", "label"] if "more" in name else None
        assert reply.json().get("ignored_columns") == ignored, name


BAD: dict[str, tuple[str, Any, str, str]] = {
    "another form of a number": ("age", "1,500", "1,500", "not-a-number"),
    "a word for a number": ("age", "old", "old", "not-a-number"),
    "a list": ("sex", ["male"], "[1]", "invalid-field"),
    "a list for a boolean": ("alive", [True], "[1]", "invalid-field"),
    "two for a boolean": ("alive", 2, "2", "not-a-boolean"),
    "a word for a boolean": ("alive", "yes", "yes", "not-a-boolean"),
    "a number for a date": ("born", 19000, "19000", "not-a-date"),
    "a wrong date": ("born", "2023-02-29", "2023-02-29", "not-a-date"),
    "two dates in one": ("born", "01/05/2024", "01/05/2024", "not-a-date"),
    "only a time": ("born", "12:30", "12:30", "not-a-date"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_cells_are_named(name: str) -> None:
    """With row and column, in every format that can have them."""
    column, value, text, code = BAD[name]
    row = objects(ROW)[0]
    error = refused("application/json", json_body(row, {**row, column: value}))
    (fault,) = error.faults
    assert (fault.code, fault.row, fault.column) == (code, 2, column)
    assert fault.hint
    line = "\n".join(map(json.dumps, [row, {**row, column: value}]))
    assert refused("application/x-ndjson", line.encode()).faults == error.faults
    if isinstance(value, list) or name == "another form of a number":
        return
    cells = written(ROW, "text")[0]
    bad = list(cells)
    bad[NAMES.index(column)] = text
    (fault,) = refused("text/csv", csv_of([cells, bad])).faults
    assert (fault.code, fault.row, fault.column, fault.value) == (code, 2, column, text)


def test_every_bad_cell_of_a_text_file_is_listed() -> None:
    """Not only the first of each row."""
    cells = written(ROW, "text")[0]
    bad = ["old", *cells[1:3], "maybe", *cells[4:]]
    error = refused("text/csv", csv_of([bad, cells, bad]))
    assert [(fault.row, fault.column) for fault in error.faults] == [
        (1, "age"),
        (1, "alive"),
        (3, "age"),
        (3, "alive"),
    ]


def test_a_model_may_refuse_missing_cells() -> None:
    """Of numbers, booleans and dates; in a category such a cell has no term."""
    fitted = fitted_table(Encoding(missing="refuse"))
    for column in ("age", "alive", "born"):
        row = {**objects(ROW)[0], column: None}
        (fault,) = refused("application/json", json_body(row), fitted).faults
        assert (fault.code, fault.row, fault.column) == ("missing-value", 1, column)
        cells = list(written(ROW, "text")[0])
        cells[NAMES.index(column)] = ""
        (fault,) = refused("text/csv", csv_of([cells]), fitted).faults
        assert (fault.code, fault.row, fault.column) == ("missing-value", 1, column)
    row = {**objects(ROW)[0], "sex": None}
    assert np.isnan(decoded("application/json", json_body(row), fitted)[0, 1])


def test_a_model_may_refuse_unseen_levels() -> None:
    """Those that its columns do not have, and those that no training row had."""
    fitted = fitted_table(Encoding(unseen="refuse"))
    row = objects(ROW)[0]
    assert decoded("application/json", json_body(row), fitted).shape == (1, 8)
    (fault,) = refused("application/json", json_body({**row, "sex": "x"}), fitted).faults
    assert (fault.code, fault.row, fault.column, fault.value) == ("unseen-level", 1, "sex", "x")
    assert isinstance(fitted.encoder, Encoder)
    fitted.encoder.counts[0] = 0  # female
    for media_type, body in (
        ("application/json", json_body({**row, "sex": " female"})),
        (
            "text/csv",
            csv_of([[*written(ROW, "text")[0][:1], "female", *written(ROW, "text")[0][2:]]]),
        ),
    ):
        (fault,) = refused(media_type, body, fitted).faults
        assert (fault.code, fault.column) == ("unseen-level", "sex")


def test_numbers_alone_are_refused_with_the_way_out(
    predict_path: PredictPath, registered: RegisteredModels
) -> None:
    """NPY, LIBSVM and a tensor of all numbers cannot hold categories."""
    registered.add("passengers", FITTED, columns=NAMES)
    tensor = {"name": "x", "shape": [1, 8], "datatype": "FP64", "data": [0] * 8}
    reply = predict_path.post("/v2/models/passengers/infer", json={"inputs": [tensor]})
    assert (reply.status_code, reply.json()["code"]) == (422, "feature-mismatch")
    assert "a tensor for each column" in reply.text
    for media_type, body in (
        ("application/x-npy", npy(np.zeros((1, 8)))),
        ("text/x-libsvm", b"1:1\n"),
    ):
        reply = predict_path.post(PATH, content=body, headers={"Content-Type": media_type})
        assert (reply.status_code, reply.json()["code"]) == (422, "feature-mismatch")
        assert "JSON, NDJSON or CSV" in reply.text


def test_unknown_cells_are_counted(predict_path: PredictPath, registered: RegisteredModels) -> None:
    """By model: levels that no training row had, and missing cells where it had none."""
    registered.add("counted", FITTED, columns=NAMES)

    def counted() -> dict[str, float]:
        text = predict_path.get("/metrics").text
        mark = 'svm_prediction_unknown_cells_total{model="counted",reason="'
        lines = [line for line in text.splitlines() if line.startswith(mark)]
        return {line[len(mark) :].partition('"')[0]: float(line.split()[-1]) for line in lines}

    row = objects(ROW)[0]
    path = "/v1/models/counted/predict"
    reply = predict_path.post(path, json={"instances": [row, {**row, "age": None, "port": None}]})
    assert (reply.status_code, counted()) == (200, {})
    rows = [{**row, "sex": "x", "port": "y"}, {**row, "sex": None, "alive": None}]
    reply = predict_path.post(path, json={"instances": [*rows, rows[0]]})
    assert (reply.status_code, counted()) == (200, {"unseen": 4.0, "missing": 2.0})
    reply = predict_path.post(path, json={"instances": [rows[0], {"sex": "x"}]})
    assert (reply.status_code, counted()) == (422, {"unseen": 4.0, "missing": 2.0})
    cells = written(ROW, "text")[0]
    cells[1] = "x"
    reply = predict_path.post(
        f"{path}?outputs=explanation", content=csv_of([cells]), headers={"Content-Type": "text/csv"}
    )
    assert (reply.status_code, counted()) == (200, {"unseen": 5.0, "missing": 2.0})


def test_an_explanation_has_one_term_a_column(
    predict_path: PredictPath, registered: RegisteredModels
) -> None:
    """The terms sum to the score exactly; a cell that training did not know has the term 0."""
    registered.add("passengers", FITTED, columns=NAMES)
    rows = [objects(ROW)[0], {**objects(ROW)[0], "sex": "x", "alive": None}]
    body = {"instances": rows, "outputs": ["decision", "explanation"]}
    reply = predict_path.post(PATH, json=body)
    assert reply.status_code == 200, reply.text
    for decision, (one,) in zip(reply.json()["decision"], reply.json()["explanation"], strict=True):
        assert list(one["terms"]) == NAMES
        assert math.fsum([*one["terms"].values(), one["intercept"], one["rounding"]]) == decision
    terms = reply.json()["explanation"][1][0]["terms"]
    assert (terms["sex"], terms["alive"]) == (0.0, 0.0)


@pytest.mark.parametrize(
    "features", [Square(), Interactions(), Nystroem(n_components=20), RandomFourier()], ids=str
)
def test_explanations_of_feature_maps_sum_to_the_score(
    predict_path: PredictPath, registered: RegisteredModels, features: Any
) -> None:
    """One term for each column if that is possible, else for each product of outputs."""
    fitted = fitted_table(features=features)
    registered.add("mapped", fitted, columns=NAMES)
    body = {"instances": objects(raw_rows(3)), "outputs": ["decision", "explanation"]}
    reply = predict_path.post("/v1/models/mapped/predict", json=body)
    assert reply.status_code == 200, reply.text
    for decision, (one,) in zip(reply.json()["decision"], reply.json()["explanation"], strict=True):
        rest = "error" if "baseline" in one else "rounding"
        parts = [*one["terms"].values(), one["intercept"], one[rest], one.get("baseline", 0.0)]
        assert math.fsum(parts) == decision
        if isinstance(features, Interactions):
            assert "sex: male*age" in one["terms"] or "age*sex: male" in one["terms"]
        else:
            assert list(one["terms"]) == NAMES


def npy(X: Values) -> bytes:
    import io

    file = io.BytesIO()
    np.save(file, X)
    return file.getvalue()


def test_a_header_may_be_recognized_without_numbers() -> None:
    """A first line is a row if one of its cells is a value of its column."""
    cells = written(ROW, "text")[0]
    assert len(decoded("text/csv", csv_of([cells, cells], None))) == 2
    error = refused("text/csv", csv_of([cells], [f"{name}!" for name in NAMES]))
    assert (error.code, error.extra["missing"]) == ("feature-mismatch", NAMES)


def test_missing_and_unknown_are_what_the_contract_says() -> None:
    """NaN, and -1; a level counts before a word for missing cells."""
    row = {**objects(ROW)[0], "sex": "SEX", "port": "NA", "age": None, "size": 10, "class: é": 4}
    X = decoded("application/json", json_body(row))[0].tolist()
    values = dict(zip(NAMES, X, strict=True))
    assert (values["sex"], values["port"], values["size"]) == (UNKNOWN, 0.0, 2.0)
    assert (values["class: é"], np.isnan(values["age"])) == (UNKNOWN, True)
    missing = dict.fromkeys(NAMES)
    assert np.isnan(decoded("application/json", json_body(missing))).all()


def test_rows_of_other_widths_are_refused() -> None:
    """With what is expected, as those of numbers are."""
    for media_type, body in (
        ("application/json", json_body([1, "male"])),
        ("text/csv", b"1,male\n"),
    ):
        error = refused(media_type, body)
        assert isinstance(error, InvalidContent)
        assert error.code == "feature-mismatch"
        assert error.extra["expected"] == 8


def test_a_short_row_beside_an_object() -> None:
    """The object has more names than the model, so that not all rows are of one width."""
    [row] = objects(ROW)
    error = refused("application/json", json_body({**row, "more": 1}, [1, "male"]))
    assert isinstance(error, InvalidContent)
    assert error.faults[0].row == 2
