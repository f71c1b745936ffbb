"""Tables of callers: frames with categories, booleans, dates and gaps, records, columns."""

from __future__ import annotations

import datetime
import io
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pandas
import pytest
from scipy import sparse

from service.client import Client
from service.client.rows import ARROW, predict_body, read_output, upload_body
from svm import SVMClassifier, SVMRegressor

N = 60
RANDOM = np.random.default_rng(0)
AGES = [None if i % 7 == 0 else float(i % 40) + 0.5 for i in range(N)]
SEXES = [("female", "male")[i % 3 == 0] for i in range(N)]
ROOMS = [None if i % 11 == 0 else i % 4 for i in range(N)]
ALONE = [None if i % 13 == 0 else i % 2 == 0 for i in range(N)]
BORN = [None if i % 5 == 0 else datetime.date(1990, 1, 1 + i % 28) for i in range(N)]
SIZES = [1 + i % 3 for i in range(N)]
LABELS = ["yes" if i % 3 == 0 or (i % 40) > 30 else "no" for i in range(N)]
COLUMNS: dict[str, list[Any]] = {
    "age": AGES,
    "sex": SEXES,
    "rooms": ROOMS,
    "alone": ALONE,
    "born": BORN,
    "size": SIZES,
}


def frame_of() -> pandas.DataFrame:
    """With nullable, categorical and datetime types."""
    return pandas.DataFrame(
        {
            "age": pandas.Series(AGES, dtype="Float64"),
            "sex": pandas.Series(SEXES, dtype="category"),
            "rooms": pandas.Series(ROOMS, dtype="Int64"),
            "alone": pandas.Series(ALONE, dtype="boolean"),
            "born": pandas.to_datetime(pandas.Series(BORN)),
            "size": pandas.Series(SIZES, dtype="category"),
        }
    )


def records() -> list[dict[str, Any]]:
    return [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]


def tables() -> dict[str, Any]:
    """The same rows in every form that is installed."""
    forms: dict[str, Any] = {"frame": frame_of(), "columns": COLUMNS, "records": records()}
    for name, make in (("polars", "DataFrame"), ("pyarrow", "table")):
        if find_spec(name) is not None:
            forms[name] = getattr(import_module(name), make)(COLUMNS)
    return forms


SCHEMA = json.dumps({"size": {"kind": "category"}})


def test_tables_are_the_same_dataset_and_the_same_predictions(client: Client) -> None:
    """Frames, records and dictionaries of columns; a category of numbers stays a category."""
    forms = tables()
    dataset = client.upload(forms["frame"], LABELS, name="people")
    kinds = {column["name"]: column["kind"] for column in dataset.data["columns"]}
    assert kinds == {
        "age": "number",
        "sex": "category",
        "rooms": "number",
        "alone": "boolean",
        "born": "date",
        "size": "category",
    }
    for form, data in forms.items():
        other = client.upload(data, LABELS, schema=SCHEMA)
        assert other.data["matrix_digest"] == dataset.data["matrix_digest"], form
    client.train(dataset, "people", seed=1).wait(60)
    expected = client.predict("people", forms["frame"], outputs="decision")
    for form, data in forms.items():
        values = client.predict("people", data, outputs="decision")
        assert values.tobytes() == expected.tobytes(), form
    labeled = frame_of().assign(label=LABELS)
    reply = client.predict("people", labeled, outputs=["label", "decision"])
    assert reply["ignored_columns"] == ["label"]
    assert np.array_equal(reply["decision"], expected)
    whole = client.upload(labeled)
    assert whole.data["matrix_digest"] == dataset.data["matrix_digest"]


def test_texts_are_predicted_in_every_form(client: Client) -> None:
    """A frame, records, lists, and texts alone for a model of one column of texts."""
    words = ["free", "entry", "win", "see", "you", "later"]
    texts = [f"{words[i % 6]} {words[(i + i // 6) % 6]}: number {i}" for i in range(N)]
    schema = json.dumps({"message": {"kind": "text"}})
    dataset = client.upload(pandas.DataFrame({"message": texts}), LABELS, schema=schema)
    client.train(dataset, "messages", seed=1).wait(60)
    expected = client.predict("messages", {"message": texts}, outputs="decision")
    for rows in (
        pandas.DataFrame({"message": texts}),
        [{"message": text} for text in texts],
        [[text] for text in texts],
        texts,
        tuple(texts),
        iter(texts),
        pandas.Series(texts, dtype="string"),
        np.array(texts),
    ):
        values = client.predict("messages", rows, outputs="decision")
        assert values.tobytes() == expected.tobytes(), type(rows)
    first = client.predict("messages", np.array([texts[0], None]), outputs="decision")
    assert first[0] == expected[0]
    same_length = client.predict("messages", ["free win", "see free"], outputs=["label"])
    assert len(same_length["label"]) == 2


def test_texts_alone_are_a_column_of_texts(client: Client) -> None:
    """In every form that has texts in one dimension, also short ones, which could be levels."""
    texts = ["good", "bad, really", None, "good"] * (N // 4)
    table: dict[str, Any] = {"text": texts}
    schema = {"text": {"kind": "text"}}
    expected = client.upload(table, LABELS, schema=schema)
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    forms = [
        texts,
        iter(texts),
        np.array(texts),
        pandas.Series(texts, name="k"),
        polars.Series("k", texts),
        pyarrow.array(texts),
    ]
    for data in forms:
        assert client.upload(data, LABELS).id == expected.id, type(data)
    named = client.upload(texts, LABELS, columns=["message"])
    assert [(one["name"], one["kind"]) for one in named.columns or []] == [("message", "text")]
    weighted = client.upload(texts, LABELS, weights=[1.0, 2.0] * (N // 2))
    assert (weighted.columns or [])[0]["kind"] == "text"
    assert weighted.data["weight"] == "weight"
    levels = client.upload(texts, LABELS, schema={"text": {"kind": "category"}})
    assert (levels.columns or [])[0]["kind"] == "category"
    unlabeled = client.upload(texts, name="unlabeled")
    assert (unlabeled.n_features, unlabeled.classes) == (1, None)
    with pytest.raises(ValueError, match="2 names for one column of texts"):
        client.upload(texts, LABELS, columns=["a", "b"])


def _forms(library: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Rows and labels of a library that need not be installed."""
    module = pytest.importorskip(library)
    columns = {"age": AGES, "sex": SEXES}
    if library == "polars":
        lazy = module.LazyFrame(columns)
        labels = {"series": module.Series(LABELS), "lazy": module.LazyFrame({"k": LABELS})}
        return {"lazy": lazy}, labels
    table = module.table(columns)
    labels = {"array": module.array(LABELS), "chunked": module.chunked_array([LABELS])}
    return {"table": table, "batch": table.to_batches()[0], "reader": table.to_reader()}, labels


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_frames_that_are_not_in_memory_are_read(library: str) -> None:
    """A lazy frame, a batch, a reader; labels as a series, an array or a frame of one column."""
    expected = upload_body({"age": AGES, "sex": SEXES}, LABELS, None, None)
    forms, labels = _forms(library)
    for form, data in forms.items():
        assert upload_body(data, LABELS, None, None) == expected, form
    for form, some in labels.items():
        body = upload_body({"age": AGES, "sex": SEXES}, some, None, None)
        assert body == expected, form


def test_arrays_of_other_kinds() -> None:
    """Structured arrays are tables; masked values are missing; an iterator gives rows."""
    structured = np.array([(1.5, "a"), (2.5, "b")], dtype=[("x", "f8"), ("k", "U1")])
    table = {"x": [1.5, 2.5], "k": ["a", "b"]}
    assert upload_body(structured, None, None, None) == upload_body(table, None, None, None)
    masked = np.ma.masked_greater(np.array([[1, 2], [3, 9]]), 8)
    sent = read_output(cast(bytes, predict_body(masked).content), None)
    assert np.isnan(sent).tolist() == [[False, False], [False, True]]
    assert predict_body(iter([[1.0], [2.0]])) == predict_body([[1.0], [2.0]])
    column = pandas.DataFrame({"k": [0, 1]})
    X = [[1.0], [2.0]]
    assert upload_body(X, column, None, None) == upload_body(X, [0, 1], None, None)
    for kind in (sparse.csr_matrix, sparse.coo_array, sparse.dok_array, sparse.csc_array):
        body = predict_body(kind(np.eye(3)))
        assert body.content == b"# 3 features\n0 1:1.0\n0 2:1.0\n0 3:1.0\n", kind


@pytest.mark.parametrize(
    ("data", "advice"),
    [
        (pandas.Series([1.0, 2.0]), r"pandas.Series is not sent: .*`.to_frame\(\)`"),
        (pandas.Index([1, 2]), "to_frame"),
        (np.ones(3), r"X.reshape\(1, -1\) if it is one row"),
        ([1.0, 2.0], r"X.reshape\(1, -1\) if it is one row"),
        (np.ones((2, 2, 2)), "3 dimensions"),
        (np.ones((2, 2), dtype=complex), "give real numbers"),
        (np.ones((2, 2), dtype="M8[D]"), "a frame if they are dates"),
        (None, "NoneType is not sent"),
        (7, "int is not sent: give rows"),
        ({1, 2}, "set is not sent"),
        (io.BytesIO(b"a,b"), "give the path"),
        (object(), "object is not sent"),
        (np.array([["a", "b"]]), "give texts in a frame"),
        (np.ones((0, 3)), "no rows"),
    ],
)
def test_errors_say_what_to_give_instead(data: Any, advice: str) -> None:
    """Before anything is sent."""
    with pytest.raises(ValueError, match=advice):
        predict_body(data)
    with pytest.raises(ValueError, match=advice):
        upload_body(data, None, None, None)


@pytest.mark.parametrize(
    ("labels", "advice"),
    [
        (np.ones((2, 2)), r"shape \(2, 2\): give one column"),
        (sparse.csr_array([[1], [0]]), "labels are not sparse"),
    ],
)
def test_labels_are_one_column(labels: Any, advice: str) -> None:
    with pytest.raises(ValueError, match=advice):
        upload_body([[1.0], [2.0]], labels, None, None)


def test_weights_are_a_column_of_their_own(client: Client) -> None:
    """Beside the features, with the role weight."""
    weights = RANDOM.uniform(1, 3, size=N)
    dataset = client.upload(frame_of(), LABELS, weights=weights)
    assert dataset.n_features == 6
    assert dataset.data["weight"] == "weight"
    with pytest.raises(ValueError, match="weights"):
        client.upload(np.ones((3, 2)), ["a", "b", "a"], weights=[1, 2, 3])
    with pytest.raises(ValueError, match="2 weights for 60 rows"):
        client.upload(frame_of(), LABELS, weights=[1, 2])


def test_roles_of_columns(client: Client) -> None:
    """By their names, also if the column is a category of pandas, or the last one."""
    people = frame_of().assign(day=pandas.date_range("2024-01-01", periods=N), k=LABELS)
    people["patient"] = pandas.Series([f"p{i // 5}" for i in range(N)], dtype="category")
    dataset = client.upload(people, group="patient", time="day")
    assert (dataset.data["group"], dataset.data["time"]) == ("patient", "day")
    assert (dataset.data["target"], dataset.n_features) == ("k", 6)
    job = client.train(dataset, "people", {"name": "dual-coordinate-descent"}).wait()
    assert job.state == "succeeded"
    labels = client.predict("people", people.drop(columns="k"))
    assert len(labels) == N
    assert client.predict("people", frame_of()).tolist() == labels.tolist()
    assert client.evaluate("people", dataset).wait().state == "succeeded"


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ({"a": 1}, "one cell"),
        ({"a": "xy"}, "one cell"),
        ({"a": [1], "b": [1, 2]}, "several lengths"),
        (pandas.DataFrame([[1, 2]], columns=["a", "a"]), "twice"),
    ],
)
def test_what_is_not_a_table_is_an_error(data: Any, what: str) -> None:
    """Before anything is sent."""
    with pytest.raises(ValueError, match=what):
        predict_body(data)
    with pytest.raises(ValueError, match=what):
        upload_body(data, None, None, None)


@pytest.mark.parametrize("labels", [[True, False], ["1", "2"], ["NA", "US"], ["true", "no"]])
def test_texts_and_labels_keep_their_types(client: Client, labels: list[Any]) -> None:
    """A text that looks like a number, a boolean or a missing cell is a level."""
    frame = pandas.DataFrame(
        {"n": range(N), "k": ["NA", "?", "1", "true"] * (N // 4), "d": ["1", "2"] * (N // 2)}
    )
    dataset = client.upload(frame, labels * (N // 2))
    assert dataset.classes == sorted(labels)
    levels = {one["name"]: (one["levels"], one["missing"]) for one in dataset.columns or []}
    assert levels["k"] == (["1", "?", "NA", "true"], 0)
    assert levels["d"] == (["1", "2"], 0)


def test_category_of_numbers_alone(client: Client) -> None:
    """The type of the caller's library counts if no other column has texts."""
    sizes = pandas.Categorical([1, 2, 3] * (N // 3))
    frame = pandas.DataFrame({"n": range(N), "size": sizes})
    dataset = client.upload(frame, LABELS)
    assert [one["kind"] for one in dataset.columns or []] == ["number", "category"]


def test_cells_of_other_types(client: Client) -> None:
    """Are refused with the column and the type."""
    frame = pandas.DataFrame({"n": range(N), "span": pandas.cut(pandas.Series(range(N)), 3)})
    with pytest.raises(ValueError, match="the column 'span' has cells of the type Interval"):
        client.upload(frame, LABELS)


def test_frames_are_sent_as_arrow() -> None:
    """With the names of their columns, and with the schema of JSON; what JSON refuses or has as
    another thing, as before."""
    for form, data in tables().items():
        kind = "application/json" if form in ("columns", "records") else ARROW
        body, plain = (upload_body(data, None, None, None, arrow=one) for one in (True, False))
        assert (body.media_type, body.params) == (kind, plain.params), form
        assert predict_body(data, arrow=True).media_type == kind, form
    mixed = pandas.DataFrame({"a": [1, "x"], "b": [1, 2]})
    assert upload_body(mixed, None, None, None, arrow=True).media_type == "application/json"
    assert predict_body(mixed, arrow=True).media_type == "application/json"
    spans = pandas.DataFrame({"a": [datetime.timedelta(1)], "b": [1]})
    with pytest.raises(ValueError, match="cells of the type Timedelta"):
        predict_body(spans, arrow=True)
    twice = pandas.DataFrame([[1, 2]], columns=["a", "a"])
    with pytest.raises(ValueError, match="'a' comes twice"):
        predict_body(twice, arrow=True)


class _WithoutArrow(BaseHTTPRequestHandler):
    """A service that reads no Arrow."""

    received: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        kind = self.headers["Content-Type"]
        self.rfile.read(int(self.headers["Content-Length"]))
        self.received.append(kind)
        self.send_response(415 if kind == ARROW else 200)
        content = b'{"code": "unsupported-format"}' if kind == ARROW else b'{"label": []}'
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_a_service_that_reads_no_arrow_gets_what_it_reads() -> None:
    """The client asks once."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _WithoutArrow) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with Client(f"http://127.0.0.1:{server.server_port}") as client:
                for _ in range(2):
                    client.predict("m", frame_of(), outputs=["label"])
        finally:
            server.shutdown()
            thread.join()
    assert _WithoutArrow.received == [ARROW, "application/json", "application/json"]


@pytest.mark.parametrize("solver", ["newton", "dual-coordinate-descent", "pegasos", "smo"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_estimators_give_the_bits_of_the_service(client: Client, solver: str) -> None:
    """`SVMClassifier` and `SVMRegressor`, with the same seed, on the frame that is uploaded here;
    in this process loops are compiled or loaded one by one, in a worker all at once."""
    frame = frame_of()
    targets = [0.5 * (age or 30) + size for age, size in zip(AGES, SIZES, strict=True)]
    for name, y in (("twin", LABELS), ("twin-numbers", targets)):
        given: dict[str, Any] = {"name": solver, "C": 1.0}
        options: dict[str, Any] = {"scaling": "standardize", "seed": 5}
        client.train(client.upload(frame, y), name, given, **options).wait(60)
    same: dict[str, Any] = {"C": 1.0, "scaling": "standardize", "random_state": 5}
    classifier = SVMClassifier(solver, **same).fit(frame, LABELS)
    decision = client.predict("twin", frame, "decision")
    assert classifier.decision_function(frame).tobytes() == decision.tobytes()
    assert classifier.predict(frame).tolist() == client.predict("twin", frame).tolist()
    regressor = SVMRegressor(solver, **same).fit(frame, targets)
    assert regressor.predict(frame).tobytes() == client.predict("twin-numbers", frame).tobytes()


def test_estimator_encodes_as_the_service_does(client: Client, tmp_path: Path) -> None:
    """Its columns, and the bits of encoding and scaling, are those of the exported model. Levels
    that are codes of digits are in the order of numbers."""
    frame = frame_of().assign(code=["2", "010", "011"] * (N // 3))
    newton = {"name": "newton", "C": 1.0}
    client.train(client.upload(frame, LABELS), "coded", newton, scaling="standardize").wait(60)
    fitted: Any = SVMClassifier("newton", C=1.0, scaling="standardize").fit(frame, LABELS).fitted_
    with np.load(client.model("coded").version(1).export(tmp_path / "coded.npz")) as served:
        columns = json.loads(str(served["columns"]))
        assert [(one.name, one.kind, list(one.levels)) for one in fitted.columns] == [
            (one["name"], one["kind"], one["levels"]) for one in columns
        ]
        for name, ours in (
            ("encoder_missing", fitted.encoder.missing),
            ("encoder_counts", fitted.encoder.counts),
            ("encoder_fills", fitted.encoder.fills),
            ("scaling_offset", fitted.scaling.offset),
            ("scaling_scale", fitted.scaling.scale),
        ):
            assert served[name].tobytes() == ours.tobytes(), name
