"""Booleans are a kind of their own in every table, 1 and 0; labels stay what they are."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest

from service.rows.cell_texts.number_text import BOOLEANS
from service.rows.spec import CSV, JSON, LIBSVM, NDJSON, NPY, NPZ, PARQUET, TSV
from tests.service.rows.arrays import npy, parquet
from tests.service.rows.reading import places, refusal, upload

FLAGS = np.array([[True, False], [False, False], [True, True], [True, False]])
LABELS = ["x", "y", "x", "y"]
BARE: dict[str, Any] = {"header": "absent"}


def csv(true: str, false: str, delimiter: str = ",") -> str:
    cells = [[true if flag else false for flag in row] for row in FLAGS]
    rows = zip(cells, LABELS, strict=True)
    return "".join(delimiter.join([*row, label]) + "\n" for row, label in rows)


def ndjson() -> str:
    rows = zip(FLAGS.tolist(), LABELS, strict=True)
    return "".join(json.dumps({"0": a, "1": b, "k": label}) + "\n" for (a, b), label in rows)


def npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, X=FLAGS, y=np.array(LABELS))
    return file.getvalue()


FILES: dict[str, tuple[str | bytes, str, dict[str, Any]]] = {
    "CSV, numbers": (csv("1", "0"), CSV, BARE),
    "CSV, Python": (csv("True", "False"), CSV, BARE),
    "CSV, R": (csv("TRUE", "FALSE"), CSV, BARE),
    "CSV, JSON": (csv("true", "false"), CSV, BARE),
    "CSV, mixed": (csv("True", "0.0"), CSV, BARE),
    "CSV, quoted": (csv('"True"', '"False"'), CSV, BARE),
    "CSV, blanks": (csv(" True ", "\tFalse"), CSV, BARE),
    "TSV": (csv("True", "False", "\t"), TSV, BARE),
    "JSON": (json.dumps({"rows": FLAGS.tolist(), "labels": LABELS}), JSON, {}),
    "NDJSON": (ndjson(), NDJSON, {}),
    "NPY": (npy(FLAGS), NPY, {"labels": "\n".join(LABELS)}),
    "NPZ": (npz(), NPZ, {}),
    "Parquet": (
        parquet({"a": FLAGS[:, 0], "b": FLAGS[:, 1], "k": np.array(LABELS, dtype=object)}),
        PARQUET,
        {},
    ),
}


@pytest.mark.parametrize("file", FILES)
def test_booleans_have_one_kind_in_every_table(file: str) -> None:
    """The same matrix and digest everywhere; those of the numbers where cells are numbers too, and
    in the matrices of NumPy."""
    content, media_type, options = FILES[file]
    result = upload(content, media_type, **options)
    assert result.arrays["X"].tolist() == FLAGS.astype(float).tolist()
    assert result.rows_of_labels == LABELS
    numbers = file in ("CSV, numbers", "CSV, mixed", "NPY", "NPZ")
    kinds = [one["kind"] for one in result.parsed.table]
    assert kinds == [] if numbers else kinds == ["boolean", "boolean"]
    expected = upload(FILES["CSV, numbers" if numbers else "CSV, Python"][0], **BARE)
    assert result.parsed.matrix_digest == expected.parsed.matrix_digest


def test_many_rows_of_booleans_and_numbers() -> None:
    """At once, beside cells that hold such a word without being one, in other columns or slices."""
    rows = "".join(f"{i},{bool(i % 3)},{i % 2}.5,Trueish\n" for i in range(50_000))
    result = upload("a,b,c,k\n" + rows)
    assert result.arrays["X"][:, 1].tolist() == [float(bool(i % 3)) for i in range(50_000)]
    text = "a,b,k\n" + "1,True,x\n2,False,y\n" * 25_000 + "1,Trueish,x\n2,yes,x\n"
    table = upload(text).parsed.table
    assert table is not None
    assert (table[1]["kind"], table[1]["missing"]) == ("boolean", 2)
    error = refusal(text, odd_cells="refuse")
    assert places(error) == [
        ("not-a-number", 50_001, "b", "Trueish"),
        ("not-a-number", 50_002, "b", "yes"),
    ]


@pytest.mark.parametrize("cell", ["t", "T", "yes", "y", "on", "tRUE", "True.", "true1", "-True"])
def test_other_words_are_no_booleans(cell: str) -> None:
    """Three ways of writing them are read, no others."""
    assert places(refusal(f"a,k\nTrue,x\n{cell},y\n", odd_cells="refuse")) == [
        ("not-a-number", 2, "a", cell)
    ]


def test_booleans_of_json_have_no_quotes() -> None:
    """A text is a text there."""
    error = refusal('{"rows": [[true], ["true"]], "labels": [1, 2]}', JSON)
    assert places(error) == [("not-a-number", 2, 0, "true")]
    assert error.faults[0].hint == "send numbers or booleans, without quotes"


def test_libsvm_has_numbers_only() -> None:
    """Its values are never words."""
    assert places(refusal("1 1:True\n", LIBSVM)) == [("not-a-number", 1, 0, "True")]


@pytest.mark.parametrize(
    ("content", "media_type", "options", "classes"),
    [
        ("a,k\n1,True\n2,False\n", CSV, {}, ["False", "True"]),
        ("a,k\n1,true\n2,FALSE\n", CSV, {}, ["FALSE", "true"]),
        ('{"rows": [[1], [2]], "labels": [true, false]}', JSON, {}, [False, True]),
        ('{"rows": [[1, true], [2, false]]}', JSON, {"target": "1"}, [False, True]),
        ('{"a": 1, "k": true}\n{"a": 2, "k": false}\n', NDJSON, {}, [False, True]),
        (npy(np.array([[True, True], [True, False]])), NPY, {}, [False, True]),
    ],
)
def test_labels_stay_what_they_are(
    content: str, media_type: str, options: dict[str, Any], classes: list[Any]
) -> None:
    """Booleans where the format has them, texts in text."""
    result = upload(content, media_type, **options)
    assert repr(result.parsed.classes) == repr(classes)
    assert result.rows_of_labels == classes[::-1]


@pytest.mark.parametrize(
    ("first", "options", "is_header"),
    [
        ("True,True,x", {}, False),
        ("True,3,x", {}, False),
        ("True,nan,x", {}, False),
        ("True,,x", {}, False),
        ("True,False,x", {}, None),
        ("True,age,x", {}, None),
        ("True,False,x", BARE, False),
        ("True,False,x", {"header": "present"}, True),
        ("True,False,k", {"target": "k"}, True),
    ],
)
def test_header_of_booleans(first: str, options: dict[str, Any], is_header: bool | None) -> None:
    """Columns may be called True and False, as those of `get_dummies`: the caller has to say it
    where it could be either."""
    text = f"{first}\n1,0,x\nTrue,1,y\n"
    if is_header is None:
        error = refusal(text, **options)
        assert error.code == "bad-column-name"
        assert "header=present or header=absent" in error.detail
    else:
        result = upload(text, **options)
        assert result.parsed.n_samples == 3 - is_header
        assert (result.parsed.columns is not None) is is_header


def test_every_word_for_a_boolean_counts() -> None:
    """The one table of them is what the fast reader and the careful one go by."""
    text = "a,k\n" + "".join(f"{word},x\n" for word in BOOLEANS)
    for ending in ("", '" 1",x\n'):  # quotes make the second one be looked at cell by cell
        found = upload(text + ending).arrays["X"][: len(BOOLEANS), 0].tolist()
        assert found == list(BOOLEANS.values())
