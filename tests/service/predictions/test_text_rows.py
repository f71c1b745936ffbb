"""Rows of tables with columns of texts."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import fsum, nan
from typing import Any

import numpy as np
import pytest

from service.errors import InvalidContent, ServiceError
from service.predictions.batcher import INLINE_WORK, Batcher, Prediction, score_rows
from service.rows.cell_texts.reading import Reading
from service.rows.columns import Columns
from service.rows.format_table import FORMATS
from service.rows.spec import CSV, JSON, NDJSON, PARQUET, TSV, XLSX, RowLimits
from svm.data.columns import Column
from svm.data.matrices import Vector
from svm.data.texts import texts_of
from svm.encoding.encoder import Encoding
from svm.encoding.fitting import fit_encoder
from svm.encoding.tokens import canonical
from svm.transforms.features import FeatureMap, Identity
from tests.service.models.registered_models import RegisteredModels
from tests.service.predictions.predict_paths import PredictPath, predict_path
from tests.service.predictions.test_explanations import loaded
from tests.service.predictions.text_rows import (
    MESSAGE,
    TEXTS,
    TICKET,
    fitted_texts,
    messages,
    raw,
    tickets,
)
from tests.service.rows.arrays import parquet
from tests.service.rows.workbooks import workbook

__all__ = ["predict_path"]

pytestmark = pytest.mark.one_application()

LIMITS = RowLimits(100_000, 4096, 1 << 20)
ONE = Columns(1, ["message"], MESSAGE)
NAMES = [column.name for column in TICKET]
SEVERAL = Columns(len(TICKET), NAMES, TICKET)


def read(media_type: str, body: bytes, columns: Columns) -> Vector:
    reader = FORMATS[media_type].read_rows
    assert reader is not None
    X = reader(body, columns, LIMITS).X
    assert isinstance(X, np.ndarray)
    return X


def cells(X: Vector, column: int) -> list[str | None]:
    """The texts of a column, None for missing ones."""
    texts = texts_of(X)
    return [None if cell != cell else texts.take([int(cell)])[0] for cell in X[:, column].tolist()]


def delimited(rows: Sequence[Sequence[Any]], delimiter: str) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def bodies(names: list[str], rows: list[list[Any]]) -> dict[str, tuple[str, bytes]]:
    """The rows in every format that is a text."""
    objects = [dict(zip(names, row, strict=True)) for row in rows]
    return {
        "lists": (JSON, json.dumps({"instances": rows}).encode()),
        "objects": (JSON, json.dumps({"instances": objects}, ensure_ascii=False).encode()),
        "records": (JSON, json.dumps(objects).encode()),
        "columns": (
            JSON,
            json.dumps({name: [row[name] for row in objects] for name in names}).encode(),
        ),
        "lines": (NDJSON, "\n".join(map(json.dumps, objects)).encode()),
        "csv": (CSV, delimited([names, *rows], ",")),
        "tsv": (TSV, delimited([names, *rows], "\t")),
    }


def test_texts_are_read_as_they_came() -> None:
    """In every format: words for missing cells, marks and scripts of all kinds are texts."""
    for name, (media_type, body) in bodies(["message"], [[text] for text in TEXTS]).items():
        assert cells(read(media_type, body, ONE), 0) == TEXTS, name


def test_texts_beside_other_columns() -> None:
    """Each of several text columns has its own texts."""
    rows: list[list[Any]] = [
        [i / 2, text, text[::-1], True, "card"] for i, text in enumerate(TEXTS)
    ]
    rows[3][0] = None
    for name, (media_type, body) in bodies(NAMES, rows).items():
        X = read(media_type, body, SEVERAL)
        assert cells(X, 1) == TEXTS, name
        assert cells(X, 2) == [text[::-1] for text in TEXTS], name
        assert np.array_equal(X[:, 0], [nan if r[0] is None else r[0] for r in rows], True), name


@pytest.mark.parametrize("n", [1, 5000])
def test_rows_keep_their_order_in_long_bodies(n: int) -> None:
    """They are read in pieces, with missing cells between them."""
    texts = [None if i % 7 == 3 else f"text {i}: \u00e9 " + "x" * (i % 200) for i in range(n)]
    for name, (media_type, body) in bodies(["message"], [[text] for text in texts]).items():
        assert cells(read(media_type, body, ONE), 0) == texts, name


@pytest.mark.parametrize("blank", [None, "", " ", " \t\n", "\u00a0\u3000"])
def test_blank_cells_are_missing(blank: str | None) -> None:
    """Null, empty, or blanks of any kind only."""
    for name, (media_type, body) in bodies(["message"], [["x"], [blank], ["y"]]).items():
        assert cells(read(media_type, body, ONE), 0) == ["x", None, "y"], name


def test_words_for_missing_cells_are_those_of_the_caller() -> None:
    """Named when the training file was uploaded."""
    columns = Columns(1, ["message"], MESSAGE, reading=Reading(missing=frozenset({"leer"})))
    X = read(JSON, b'{"instances": [["leer"], [" leer "], ["NA"], ["leerer"]]}', columns)
    assert cells(X, 0) == [None, None, "NA", "leerer"]


def test_numbers_and_booleans_count_as_their_texts() -> None:
    """As those of levels do."""
    X = read(JSON, b'{"instances": [[5], [1.0], [1.50], [true], [-0.25]]}', ONE)
    assert cells(X, 0) == ["5", "1", "1.5", "true", "-0.25"]


@pytest.mark.parametrize("n", [1, 100_000])
def test_rows_of_one_column_may_be_texts_alone(n: int) -> None:
    """In JSON and NDJSON, beside lists and objects; not if there are other columns."""
    texts = TEXTS[:n] * (1 + n // 20_000)
    rows: list[Any] = [*texts, ["a list"], {"message": "an object"}]
    expected = [*texts, "a list", "an object"]
    assert cells(read(JSON, json.dumps({"instances": rows}).encode(), ONE), 0) == expected
    assert cells(read(NDJSON, "\n".join(map(json.dumps, rows)).encode(), ONE), 0) == expected
    with pytest.raises(InvalidContent, match="row 1: the row is 'free'"):
        read(JSON, b'{"instances": ["free"]}', SEVERAL)
    with pytest.raises(InvalidContent, match="row 1: the row is 5, not a text") as refused:
        read(JSON, b'{"instances": [5]}', ONE)
    hint = "a row may be the text itself, a list of it, or an object"
    assert refused.value.faults[0].hint == hint
    with pytest.raises(InvalidContent):  # not each of its letters
        read(JSON, b'{"instances": "hello"}', ONE)


@pytest.mark.parametrize("cell", [[], ["a"], {}, {"a": 1}])
@pytest.mark.parametrize("named", [False, True])
def test_lists_and_objects_are_no_texts(cell: Any, named: bool) -> None:
    """The error names row and column."""
    rows = [["x"], [cell]]
    body = json.dumps({"instances": [{"message": row[0]} for row in rows] if named else rows})
    with pytest.raises(InvalidContent) as caught:
        read(JSON, body.encode(), ONE)
    (fault,) = caught.value.faults
    assert (fault.row, fault.column, fault.code) == (2, "message", "invalid-field")


def test_a_lone_surrogate_is_refused() -> None:
    """It is an error; in NDJSON with its row."""
    for media_type, body in (
        (JSON, b'{"instances": [["x"], ["\\ud800"]]}'),
        (NDJSON, b'["x"]\n["\\ud800"]'),
    ):
        with pytest.raises(ServiceError, match="lone surrogate") as caught:
            read(media_type, body, ONE)
    assert caught.value.faults[0].row == 2


def test_a_nul_is_refused_as_in_uploads() -> None:
    """With its row, in every format that can have one."""
    for media_type, body in (
        (JSON, b'{"instances": ["x", "a\\u0000b"]}'),
        (NDJSON, b'"x"\n["\\u0000b"]'),
    ):
        with pytest.raises(InvalidContent, match=r"row 2, column 'message': .*NUL"):
            read(media_type, body, ONE)


def test_a_csv_of_texts_needs_its_header() -> None:
    """Any text may be a row: a first line without names would be taken for them silently."""
    with pytest.raises(InvalidContent, match="the header lacks 'message'") as refused:
        read(CSV, b"msg\nhello\n", ONE)
    hint = refused.value.faults[0].hint or ""
    assert hint.startswith("the first line must hold the names of the columns; send every")
    X = read(CSV, b"2,hello,you,true,card\n", SEVERAL)  # no header has a number
    assert cells(X, 1) == ["hello"]


def test_missing_numbers_keep_the_texts_of_their_rows() -> None:
    """A number that means a missing cell is replaced in a copy."""
    columns = replace(SEVERAL, reading=Reading(missing=frozenset({"-999"})))
    X = read(JSON, b'{"instances": [[-999, "a", "b", true, "card"]]}', columns)
    marked = columns.marked(X)
    assert isinstance(marked, np.ndarray)
    assert np.isnan(marked[0, 0])
    assert cells(marked, 2) == ["b"]


TYPES = {"number": "FP64", "boolean": "BOOL", "text": "BYTES", "category": "BYTES"}


def tensors(rows: list[list[Any]], columns: Sequence[Column], *, binary: bool = False) -> Any:
    """The rows as tensors, one for each column, and the bytes behind the JSON part."""
    described: list[dict[str, Any]] = []
    tail = b""
    for j, column in enumerate(columns):
        cells = [row[j] for row in rows]
        one: dict[str, Any] = {"name": column.name, "datatype": TYPES[column.kind]}
        one["shape"] = [len(rows), 1] if binary else [len(rows)]
        if binary:
            packs: dict[str, Callable[[list[Any]], bytes]] = {"number": _floats, "boolean": bytes}
            part = packs.get(column.kind, _bytes)(cells)
            one["parameters"] = {"binary_data_size": len(part)}
            tail += part
        else:
            one["data"] = cells
        described.append(one)
    return described, tail


def _floats(cells: list[Any]) -> bytes:
    return np.array(cells, "<f8").tobytes()


def _bytes(cells: list[Any]) -> bytes:
    texts = ["" if cell is None else cell for cell in cells]
    return b"".join(struct.pack("<I", len(text.encode())) + text.encode() for text in texts)


def infer(
    client: PredictPath, name: str, inputs: Any, tail: bytes = b"", status: int = 200
) -> dict[str, Any]:
    head = json.dumps({"inputs": inputs}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))} if tail else {}
    reply = client.post(f"/v2/models/{name}/infer", content=head + tail, headers=headers)
    assert reply.status_code == status, reply.text
    answer: dict[str, Any] = reply.json()
    return answer


def output(answer: dict[str, Any], name: str) -> Any:
    return next(one["data"] for one in answer["outputs"] if one["name"] == name)


@pytest.mark.parametrize("table", [MESSAGE, TICKET], ids=["message", "ticket"])
def test_every_format_gives_the_same_bits(
    predict_path: PredictPath, registered: RegisteredModels, table: tuple[Column, ...]
) -> None:
    """JSON, NDJSON, CSV, TSV, Parquet, XLSX and tensors, of a model of texts alone and another."""
    fitted = fitted_texts(table)
    names = [column.name for column in table]
    name = f"of-{len(names)}"
    registered.add(name, fitted, columns=names)
    rows = [[text] for text in messages(30, 5)] if table is MESSAGE else tickets(30, 5)
    expected = fitted.decision_function(raw(rows, table)).tolist()
    arrays = {
        one.name: np.ma.masked_array(
            [row[j] or "" if one.kind in ("text", "category") else row[j] or 0 for row in rows],
            mask=[row[j] is None for row in rows],
            dtype={"number": float, "boolean": bool}.get(one.kind, object),
        )
        for j, one in enumerate(table)
    }
    sent = bodies(names, rows)
    sent["parquet"] = PARQUET, parquet(arrays)
    sent["xlsx"] = XLSX, workbook({"rows": [names, *rows]})
    for form, (media_type, body) in sent.items():
        headers = {"Content-Type": media_type}
        path = f"/v1/models/{name}/predict?outputs=decision"
        reply = predict_path.post(path, content=body, headers=headers)
        assert reply.status_code == 200, (form, reply.text)
        assert reply.json()["decision"] == expected, form
    full = [row for row in rows if None not in row]
    expected = fitted.decision_function(raw(full, table)).tolist()
    assert output(infer(predict_path, name, tensors(full, table)[0]), "decision") == expected
    turned = tensors(full, table)[0][::-1]
    assert output(infer(predict_path, name, turned), "decision") == expected
    binary = infer(predict_path, name, *tensors(full, table, binary=True))
    assert output(binary, "decision") == expected


def test_rows_of_several_requests_keep_their_texts() -> None:
    """Each request alone has the bits that it has among others."""
    fitted = fitted_texts(n_classes=4)
    texts = messages(20, 9)
    model = loaded(fitted, ["message"])
    parts = [raw([[text] for text in texts[i : i + 5]], MESSAGE) for i in range(0, 20, 5)]
    answers: list[Prediction | Exception] = []

    async def send() -> None:
        batcher = Batcher()
        for part in parts:
            batcher.submit(model, part, answers.append)
        await asyncio.sleep(0)

    asyncio.run(send())
    assert len(answers) == 4
    together = fitted.problem_scores(raw([[text] for text in texts], MESSAGE))
    for i, answer in enumerate(answers):
        assert isinstance(answer, Prediction)
        assert answer.scores.tobytes() == together[5 * i : 5 * i + 5].tobytes()
        alone = fitted.problem_scores(raw([[texts[5 * i]]], MESSAGE))
        assert answer.scores[:1].tobytes() == alone.tobytes()


def test_unknown_words_are_counted(predict_path: PredictPath, registered: RegisteredModels) -> None:
    """In every reply; a text is never an unknown cell, not even a missing one."""
    registered.add("ticket", fitted_texts(TICKET), columns=NAMES)
    path = "/v1/models/ticket/predict"
    rows: list[list[Any]] = [
        [1.0, "free entry", "my card", True, "card"],
        [1.0, None, "zebra quagga card", True, "card"],
        [1.0, "okapi", "card", True, "card"],
    ]
    body = {"instances": rows, "outputs": ["label"]}
    answer = predict_path.post(path, json=body).json()
    assert answer["unknown_words"] == {"count": 3, "rows": [[2, 2], [3, 1]]}
    assert "unknown" not in answer
    known = predict_path.post(path, json={"instances": rows[:1]}).json()
    assert "unknown_words" not in known
    reply = predict_path.post(path, json=body, headers={"Accept": "text/csv"})
    assert reply.headers["X-Unknown-Words"] == "3;2:2,3:1"
    rows[1][1], rows[0][4] = "free", "bond"
    answer = predict_path.post(path, json={"instances": rows}).json()
    assert answer["unknown"]["cells"] == [{"row": 1, "column": "product", "value": "bond"}]
    inferred = infer(predict_path, "ticket", tensors(rows, TICKET)[0])
    assert inferred["parameters"]["unknown_words"] == answer["unknown_words"]
    assert inferred["parameters"]["unknown"] == answer["unknown"]


def test_a_model_lists_its_columns_as_tensors(
    predict_path: PredictPath, registered: RegisteredModels
) -> None:
    """Of a model of one column the tensor may have any name."""
    fitted = fitted_texts()
    version = registered.add("sms", fitted, columns=["message"])
    table = {"columns": [{"name": "message", "kind": "text"}]}
    registered.set_result(version, {**version.result, "table": table})
    listed = predict_path.get("/v2/models/sms").json()["inputs"]
    assert listed == [{"name": "message", "datatype": "BYTES", "shape": [-1]}]
    expected = fitted.decision_function(raw([["free entry"], ["lost"]], MESSAGE)).tolist()
    for shape, data in (([2], ["free entry", "lost"]), ([2, 1], [["free entry"], ["lost"]])):
        one = {"name": "text_input", "datatype": "BYTES", "shape": shape, "data": data}
        assert output(infer(predict_path, "sms", [one]), "decision") == expected
    plain = {"name": "x", "datatype": "BYTES", "shape": [2]}
    answer = infer(predict_path, "sms", [plain], _bytes(["free entry", "lost"]))
    assert output(answer, "decision") == expected


BYTES = {"name": "message", "datatype": "BYTES", "shape": [2], "data": ["a", "b"]}
BAD_TENSORS: dict[str, tuple[Any, bytes, str]] = {
    "a shape": ([BYTES | {"shape": [1, 2]}], b"", "give [rows] or [rows, 1]"),
    "no shape": ([BYTES | {"shape": None}], b"", "give a list of whole numbers"),
    "no rows": ([BYTES | {"shape": [0], "data": []}], b"", "holds no row"),
    "too few texts": ([BYTES | {"shape": [3]}], b"", "give a list of 3 cells"),
    "a list": ([BYTES | {"data": ["a", ["b"]]}], b"", "row 2, column 'message'"),
    "a type": ([BYTES | {"datatype": "TEXT"}], b"", "give one of BYTES, FP64"),
    "two tensors": ([BYTES, BYTES], b"", "the list of inputs repeats 'message'"),
    "no tensor": ([], b"", "give a list of tensors"),
    "a truth": ([BYTES | {"datatype": "BOOL"}], b"", "is not of type BOOL"),
    "bytes that end": (
        [{**BYTES, "parameters": {"binary_data_size": 5}} | {"data": ...}],
        b"\x01\0\0\0a",
        "row 2 of 'message' ends too early",
    ),
    "bytes too many": (
        [{**BYTES, "parameters": {"binary_data_size": 11}} | {"data": ...}],
        _bytes(["a", "b"]) + b"x",
        "bytes behind the 2 texts",
    ),
    "other bytes": ([BYTES], b"x", "no tensor claims"),
    "NUL": ([BYTES | {"data": ["a", "b\0"]}], b"", "row 2, column 'message': 'b\\x00' has a NUL"),
    "another size": (
        [{**BYTES, "parameters": {"binary_data_size": 99}} | {"data": ...}],
        b"x",
        "there are 1 bytes left",
    ),
    "Latin-1": (
        [{**BYTES, "parameters": {"binary_data_size": 10}} | {"data": ...}],
        b"\x01\0\0\0a\x01\0\0\0\xe9",
        "row 2, column 'message': is not UTF-8 text",
    ),
}


def test_bad_tensors_are_refused(predict_path: PredictPath, registered: RegisteredModels) -> None:
    """With their place."""
    registered.add("sms", fitted_texts(), columns=["message"])
    for name, (inputs, tail, message) in BAD_TENSORS.items():
        sent = [{k: v for k, v in one.items() if v is not ...} for one in inputs]
        head = json.dumps({"inputs": sent}).encode()
        headers = {"Inference-Header-Content-Length": str(len(head))} if tail else {}
        reply = predict_path.post("/v2/models/sms/infer", content=head + tail, headers=headers)
        assert reply.status_code in (400, 422), (name, reply.text)
        assert message in reply.json()["error"], (name, reply.text)


def test_a_very_long_text_is_refused(
    predict_path: PredictPath, registered: RegisteredModels
) -> None:
    """In every format; tokens of a longer one would take much memory."""
    registered.add("sms", fitted_texts(), columns=["message"])
    text = "lost card " * 60_000
    forms = {name: bodies(["message"], [["a"], [text]])[name] for name in ("lists", "lines", "csv")}
    forms["parquet"] = PARQUET, parquet({"message": np.array(["a", text], dtype=object)})
    forms["csv of lines"] = CSV, delimited([["message"], ["a"], [text.replace(" ", "\n")]], ",")
    for form, (media_type, body) in forms.items():
        headers = {"Content-Type": media_type}
        reply = predict_path.post("/v1/models/sms/predict", content=body, headers=headers)
        assert reply.status_code in (400, 422), (form, reply.text[:200])
        assert "row 2, column 'message'" in reply.json()["detail"], form
        assert "has more than 524,288 bytes" in reply.json()["detail"], form
    answer = infer(predict_path, "sms", tensors([["a"], [text]], MESSAGE)[0], status=422)
    assert "row 2, column 'message'" in answer["error"]


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("tokens", ["words", "characters", "both"])
def test_explanations_name_words(n_classes: int, tokens: Any) -> None:
    """Terms sum to the score exactly, tokens and the rest to the term of their column; each mark is
    at a word of the text."""
    fitted = fitted_texts(TICKET, n_classes, tokens=tokens)
    rows = tickets(12, 3)
    rows[0][2] = "Lost: my CARD, my card 👩‍👩‍👧 " * 40
    X = raw(rows, TICKET)
    model = loaded(fitted, NAMES)
    answer = score_rows(model, X)
    for i, problems in enumerate(answer.explanation):
        for k, one in enumerate(problems):
            terms = [*one["terms"].values(), one["intercept"], one["rounding"]]
            assert fsum(terms) == one["score"] == answer.scores[i, k]
            if answer.label[i] not in one["classes"]:
                assert "texts" not in one
                continue
            assert len(one.get("texts", ())) == sum(row is not None for row in rows[i][1:3])
            for text in one.get("texts", ()):
                listed = [token["term"] for token in text["tokens"]]
                assert abs(fsum([*listed, text["others"], -one["terms"][text["column"]]])) < 1e-12
                assert len(listed) <= 20
                assert sorted(listed, key=abs, reverse=True) == listed
                sent = rows[i][NAMES.index(text["column"])]
                assert text["marks"] == sorted(text["marks"])
                for start, end, _ in text["marks"]:
                    assert re.fullmatch(r"\w+", canonical(sent[start:end]))


def test_marks_share_the_terms_of_their_words() -> None:
    """Each place of a word has its share, with the characters inside it; pairs have none."""
    fitted = fitted_texts(tokens="both")
    text = "lost a lost"
    ((problem,),) = score_rows(loaded(fitted, ["message"]), raw([[text]], MESSAGE)).explanation
    (explained,) = problem["texts"]
    marks = explained["marks"]
    assert [mark[:2] for mark in marks] == [(0, 4), (5, 6), (7, 11)]
    assert marks[0] == (0, 4, marks[2][2])
    tokens = explained["tokens"]
    assert len(tokens) < 20
    assert explained["others"] == pytest.approx(0.0, abs=1e-12)
    inside = [token["term"] for token in tokens if token["token"] != "lost lost"]
    assert fsum(mark[2] for mark in marks) == pytest.approx(fsum(inside), abs=1e-12)


def test_marks_in_scripts_without_blanks_are_characters() -> None:
    """Each has its share of the runs; a word in another script is one mark."""
    texts = ["很好的商品 Card", "商品很差 Card"] * 4
    encoder, scaling = fit_encoder(
        Encoding(tokens="characters"), "none", raw([[text] for text in texts], MESSAGE), MESSAGE
    )
    fitted = replace(
        fitted_texts(),
        encoder=encoder,
        scaling=scaling,
        features=FeatureMap(Identity(), encoder.n_outputs),
        coefficients=np.random.default_rng(0).normal(size=(1, encoder.n_outputs)),
    )
    sent = raw([["很好的商品 Card"]], MESSAGE)
    ((problem,),) = score_rows(loaded(fitted, ["message"]), sent).explanation
    (explained,) = problem["texts"]
    marks = explained["marks"]
    assert [mark[:2] for mark in marks] == [*((i, i + 1) for i in range(5)), (6, 10)]
    assert fsum(mark[2] for mark in marks) == pytest.approx(problem["terms"]["message"], abs=1e-12)


def test_work_is_that_of_the_characters() -> None:
    """Many texts, or a long one, are scored in a thread; a message is not, of whatever model."""
    model = loaded(fitted_texts(n_classes=40), ["message"])
    message = raw([["my card was lost " * 12]], MESSAGE)
    assert 10_000 < model.work(message) < INLINE_WORK / 10
    assert model.work(raw([["my card was lost " * 1200]], MESSAGE)) > INLINE_WORK
    assert model.work(raw([["my card was lost " * 12]] * 100, MESSAGE)) > INLINE_WORK
    assert model.reply_work(("explanation",)) > INLINE_WORK
    assert model.reply_work(("label",)) < 1000
