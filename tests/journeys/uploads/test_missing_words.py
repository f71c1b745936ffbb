"""Words for missing cells that the training file had, in rows to predict."""

from __future__ import annotations

import io
import json
from math import nan
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

from service.errors import InvalidContent
from service.predictions.inference.wire_format import InferenceExchange
from service.predictions.loaded_models import LoadedModel
from service.rows.cell_texts.reading import Reading
from service.rows.table.writers import MISSING_CODE
from service.settings import Limits
from svm.data.columns import Column
from svm.encoding.encoder import Encoding
from svm.model.pipeline import Pipeline
from svm.solvers import Newton
from svm.training.training import Training
from tests.service.predictions.test_bodies import decode_as
from tests.service.rows.reading import Result, upload

Values: TypeAlias = npt.NDArray[np.float64]
Rows: TypeAlias = list[list[Any]]

NUMBERS = "a,b,label\n" + "".join(
    f"{i},{-999 if i % 3 == 0 else i / 8},{'x' if i % 2 else 'y'}\n" for i in range(12)
)
MIXED = "n,alive,born,port,label\n" + "".join(
    f"{'-999' if i % 3 == 0 else i},{('true', 'false', '9')[i % 3]},"
    f"{'1900-01-01' if i % 4 == 0 else f'2024-05-{i + 1:02}'},{'QS9'[i % 3]},{'xy'[i % 2]}\n"
    for i in range(24)
)
GERMAN = "n;m;label\n" + "".join(
    f"{'1.000,5' if i % 3 == 0 else f'{i},25'};{i};{'xy'[i % 2]}\n" for i in range(24)
)


def raw(result: Result) -> Values:
    """The raw values of what was uploaded."""
    table = result.parsed.table
    X = np.empty((result.parsed.n_samples, result.parsed.n_features))
    kinds = ["number"] * X.shape[1] if table is None else [column["kind"] for column in table]
    categories = [j for j, kind in enumerate(kinds) if kind == "category"]
    if categories:
        codes = result.arrays["codes"].astype(np.float64)
        X[:, categories] = np.where(codes == MISSING_CODE, nan, codes)
    X[:, [j for j in range(X.shape[1]) if j not in categories]] = result.arrays["X"]
    return X


def trained(text: str, *words: str, encoding: Encoding | None = None) -> LoadedModel:
    """A model of a file whose `missing` are these words."""
    result = upload(text, missing=list(words))
    X, table = raw(result), result.parsed.table
    columns = tuple(Column(c["name"], c["kind"], tuple(c["levels"])) for c in table or ()) or None
    pipeline = Pipeline(solver=Newton(C=1.0), encoding=encoding or Encoding())
    training = Training(pipeline, X, np.array(result.rows_of_labels), seed=0, columns=columns)
    for _ in training:
        pass
    fitted = training.result().fitted
    return LoadedModel(
        *("key", "m", 1, "digest", fitted.classes.tolist(), result.parsed.columns, X.shape[1]),
        *(fitted, fitted.nbytes, Reading.of(result.parsed.reading)),
    )


def predicted(model: LoadedModel, media_type: str, body: bytes) -> Values:
    """The rows of a body, dense."""
    X = decode_as(media_type, body, model, Limits()).X
    assert isinstance(X, np.ndarray)
    return X


def infer(model: LoadedModel, rows: Rows, datatype: str = "FP64") -> Values:
    """The rows as a tensor of the Open Inference Protocol, once as JSON and once in binary."""
    tensor = {"name": "x", "shape": [len(rows), len(rows[0])], "datatype": datatype}
    head = json.dumps({"inputs": [tensor]}).encode()
    values = np.array(rows, np.float64 if datatype == "FP64" else np.float32)
    length = [(b"inference-header-content-length", str(len(head)).encode())]
    read: list[Values] = []
    for headers, body in (
        ([], json.dumps({"inputs": [{**tensor, "data": rows}]}).encode()),
        (length, head + values.tobytes()),
    ):
        X = InferenceExchange(headers, Limits(), {}).read(body, model).X
        assert isinstance(X, np.ndarray)
        read.append(X)
    assert np.array_equal(read[0], read[1], equal_nan=True)
    return read[0]


def npy(X: Values) -> bytes:
    file = io.BytesIO()
    np.save(file, X)
    return file.getvalue()


def bodies(names: list[str], rows: Rows, texts: list[list[str]]) -> dict[str, bytes]:
    """The same rows in every format of texts: `rows` in JSON."""
    objects = [dict(zip(names, row, strict=True)) for row in rows]
    lines = [names, *texts]
    return {
        "application/json": json.dumps({"instances": rows}).encode(),
        "application/json; objects": json.dumps({"instances": objects}).encode(),
        "application/x-ndjson": "\n".join(map(json.dumps, rows)).encode(),
        "application/x-ndjson; objects": "\n".join(map(json.dumps, objects)).encode(),
        "text/csv": "\n".join(map(",".join, lines)).encode(),
        "text/csv; no header": "\n".join(map(",".join, texts)).encode(),
        "text/csv; turned": "\n".join(",".join(line[::-1]) for line in lines).encode(),
        "text/tab-separated-values": "\n".join(map("\t".join, lines)).encode(),
    }


@pytest.mark.parametrize("spelling", ["-999", "-999.0", " -9.99e2"])
def test_a_number_may_be_a_word_for_missing_cells(spelling: str) -> None:
    """By its value, in every format: the same bits as an empty cell."""
    model = trained(NUMBERS, "-999")
    rows: Rows = [[2.0, -999.0], [-999, 0.5], [1, 0]]
    expected = np.array([[2.0, nan], [nan, 0.5], [1.0, 0.0]])
    texts = [["2", spelling], [spelling, ".5"], ["1", "0"]]
    read = {
        name: predicted(model, name.partition(";")[0], body)
        for name, body in bodies(["a", "b"], rows, texts).items()
    }
    read["NPY"] = predicted(model, "application/x-npy", npy(np.array(rows)))
    read["LIBSVM"] = predicted(
        model, "text/x-libsvm", f"1:2 2:{spelling.strip()}\n1:-999 2:.5\n1:1\n".encode()
    )
    read["FP64"], read["FP32"] = infer(model, rows), infer(model, rows, "FP32")
    scores = model.fitted.scores_of_checked(expected).tobytes()
    for name, X in read.items():
        assert np.array_equal(X, expected, equal_nan=True), name
        assert model.fitted.scores_of_checked(X).tobytes() == scores, name


def test_columns_of_other_kinds_have_such_words() -> None:
    """Booleans, dates and categories, in every format that can have them."""
    model = trained(MIXED, "-999", "9", "1900-01-01")
    names = ["n", "alive", "born", "port"]
    texts = [["-999", "9", "1900-01-01", "9"], ["1", "true", "2024-05-02", "Q"]]
    expected = np.array([[nan, nan, nan, nan], [1.0, 1.0, 19845.0, 0.0]])
    for nine in (9, 9.0, "9"):
        rows: Rows = [[-999, nine, "1900-01-01T00:00:00Z", nine], [1, True, "2024-05-02", "Q"]]
        for name, body in bodies(names, rows, texts).items():
            X = predicted(model, name.partition(";")[0], body)
            assert np.array_equal(X, expected, equal_nan=True), (name, nine)


def test_words_are_read_as_the_file_writes_numbers() -> None:
    """With its decimal comma; in JSON the value alone counts."""
    model = trained(GERMAN, "1.000,5")
    for media_type, body in (
        ("text/csv", b"n;m\n1.000,5;1\n"),
        ("text/csv", b"n,m\n1000.5,1\n"),
        ("application/json", b'{"instances": [[1000.5, 1]]}'),
    ):
        X = predicted(model, media_type, body)
        assert np.array_equal(X, [[nan, 1.0]], equal_nan=True), body


def test_other_spellings_of_a_number_are_missing_in_an_upload_too() -> None:
    """So a training file that is predicted has the rows that were trained."""
    texts = ["-999", "-999.0", "-9.99E+2", "3"]
    text = "a,b,label\n" + "".join(f"{texts[i % 4]},{i},{'xy'[i % 2]}\n" for i in range(40))
    for words in (["-999"], ["-999.0"]):
        result = upload(text, missing=words)
        assert [column["missing"] for column in result.parsed.table] == [30, 0]
        assert np.array_equal(np.isnan(raw(result)[:, 0]), np.arange(40) % 4 < 3)
    result = upload(GERMAN.replace("1.000,5;0", "1000,50;0"), missing=["1.000,5"])
    assert np.isnan(raw(result)[:, 0]).sum() == 8


def test_such_a_word_is_refused_where_missing_cells_are() -> None:
    """By a model of finite numbers, and by one that refuses missing cells."""
    model = trained("a,b,label\n1,2,x\n2,3,y\n3,4,x\n4,1,y\n", "-999")
    rows: Rows = [[1.0, 2.0], [2.0, -999.0]]
    texts = [["1", "2"], ["2", "-999"]]
    some = bodies(["a", "b"], rows, texts)
    some["application/x-npy"] = npy(np.array(rows))
    some["text/x-libsvm"] = b"1:1 2:2\n1:2 2:-999\n"
    for name, body in some.items():
        assert refused(model, name, body) == ("missing-value", 2, "b"), name
    full = MIXED.replace("-999", "7").replace(",9,", ",true,").replace("1900", "2025")
    model = trained(full, "-999", encoding=Encoding(missing="refuse"))
    some = bodies(
        ["n", "alive", "born", "port"],
        [[-999, True, "2024-05-02", "Q"]],
        [["-999", "true", "2024-05-02", "Q"]],
    )
    for name, body in some.items():
        assert refused(model, name, body) == ("missing-value", 1, "n"), name


def refused(model: LoadedModel, name: str, body: bytes) -> tuple[Any, ...]:
    """The code and the place of the only fault."""
    with pytest.raises(InvalidContent) as caught:
        decode_as(name.partition(";")[0], body, model, Limits())
    (fault,) = caught.value.faults
    assert fault.hint
    return fault.code, fault.row, fault.column
