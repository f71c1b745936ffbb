"""Labels become sorted classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from service.errors import InvalidContent
from service.rows.spec import JSON, LIBSVM, NDJSON, NPY, NPZ, PARQUET
from tests.service.rows.arrays import npy, parquet
from tests.service.rows.formats.test_npz import npz
from tests.service.rows.reading import places, refusal, upload


def csv(labels: list[str]) -> str:
    return "a,k\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels))


@pytest.mark.parametrize(
    ("texts", "classes", "rows"),
    [
        (["10", "9", "10"], [9, 10], [10, 9, 10]),
        (["5", "5.0", "6", "+5"], [5, 6], [5, 5, 6, 5]),
        (["b", "a", "B"], ["B", "a", "b"], ["b", "a", "B"]),
        (["10", "9", "x"], ["10", "9", "x"], ["10", "9", "x"]),
        (["true", "false"], ["false", "true"], ["true", "false"]),
        (["ä", "z"], ["z", "ä"], ["ä", "z"]),
        (["-0", "0"], [0], [0, 0]),
        (["9007199254740993", "1"], [1, 9007199254740993], [9007199254740993, 1]),
    ],
)
def test_texts_of_a_file(texts: list[str], classes: list[Any], rows: list[Any]) -> None:
    """Numbers throughout are numbers, sorted as such; anything else is sorted by code point."""
    result = upload(csv(texts))
    assert result.parsed.classes == classes
    assert [type(label) for label in result.parsed.classes or ()] == [type(x) for x in classes]
    assert result.rows_of_labels == rows
    assert result.arrays["y"].dtype == np.int32


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ('["5", "6"]', ["5", "6"]),
        ("[6, 5.0]", [5, 6]),
        ("[true, false]", [False, True]),
    ],
)
def test_labels_of_json_keep_their_type(labels: str, classes: list[Any]) -> None:
    """A text stays a text even where it looks like a number."""
    result = upload(f'{{"rows": [[1], [2]], "labels": {labels}}}', JSON)
    assert result.parsed.classes == classes
    assert [type(label) for label in result.parsed.classes or ()] == [type(x) for x in classes]


@pytest.mark.parametrize("labels", ['["x", 1]', "[true, 1]", '[true, "x"]'])
def test_kinds_of_labels_do_not_mix(labels: str) -> None:
    """In JSON there is no need to guess what was meant."""
    assert refusal(f'{{"rows": [[1], [2]], "labels": {labels}}}', JSON).code == "invalid-field"


@pytest.mark.parametrize("gap", ["NaN", "NA", "?", "null", "none", ""])
def test_gaps_among_numbers_are_no_class(gap: str) -> None:
    """A word that only says that a number is missing is no label; the row is left out."""
    result = upload(csv(["1", "2", gap, "1", gap]))
    assert result.rows_of_labels == [1, 2, 1]
    assert result.arrays["X"].tolist() == [[0], [1], [3]]
    reading = result.parsed.reading or {}
    assert reading["unlabeled"] == {"count": 2, "words": {gap: 2}, "rows": [3, 5]}
    (warning,) = (one for one in result.parsed.warnings if one["code"] == "missing-labels")
    assert f"'{gap}' 2 times" in warning["message"] or not gap


def test_infinite_labels_are_refused() -> None:
    """They are neither numbers that are compared nor missing."""
    error = refusal(csv(["1", "2", "inf", "1"]))
    assert places(error) == [("non-finite-value", 3, "k", "inf")]


@pytest.mark.parametrize(
    ("labels", "options", "said"),
    [
        (["a", "", "b"], {"missing_labels": "refuse"}, "1 row has no label (empty once)"),
        (
            ["a", "", "", "b", "NA"],
            {},
            "more than half, 3 of 5 rows, have no label (empty 2 times, 'NA' once)",
        ),
        (["a", "a", ""], {}, "the others have fewer than two classes"),
        (["", ""], {"missing_labels": "drop"}, "2 rows have no label"),
    ],
)
def test_rows_without_a_label_that_are_refused(
    labels: list[str], options: dict[str, Any], said: str
) -> None:
    """If they are most of the rows, too few classes remain, or the caller refuses them."""
    error = refusal(csv(labels), target="k", **options)
    assert error.code == "missing-value"
    assert said in error.detail
    assert [fault.row for fault in error.faults] == [
        row for row, label in enumerate(labels, 1) if label in ("", "NA")
    ]


def test_most_rows_may_be_left_out_on_demand() -> None:
    """However many they are; of every kind of table, with its weights."""
    rows = "".join(f"{i},{'xyz'[i % 3]},{i + 1},{'ab'[i % 2] if i > 6 else ''}\n" for i in range(9))
    schema = {"w": {"role": "weight"}}
    result = upload("a,c,w,k\n" + rows, target="k", schema=schema, missing_labels="drop")
    assert result.rows_of_labels == ["b", "a"]
    assert result.arrays["X"].tolist() == [[7], [8]]
    assert result.arrays["codes"].tolist() == [[1], [2]]
    assert result.arrays["weights"].tolist() == [8, 9]
    sparse = upload("1 1:1\n0 3:2\n", LIBSVM, labels=None)
    assert sparse.parsed.n_samples == 2


def test_appended_rows_need_no_second_class() -> None:
    """Their labels are those of the dataset, a word among them too."""
    onto = upload(csv(["NA", "b", "NA"]), schema={"k": {"kind": "category"}})
    assert onto.rows_of_labels == ["NA", "b", "NA"]
    result = upload(csv(["NA", ""]), onto=onto)
    assert result.rows_of_labels == ["NA", "b", "NA", "NA"]


@pytest.mark.parametrize("texts", [["007", "042"], ["01", "1"], ["1", "123456789012345678901"]])
def test_digits_that_would_change_stay_texts(texts: list[str]) -> None:
    """Unless the caller says that they are numbers."""
    result = upload(csv(texts))
    assert result.parsed.classes == sorted(texts)
    codes = {warning["code"] for warning in result.parsed.warnings}
    assert codes & {"leading-zeros", "long-numbers"}
    numbers = upload(csv(texts), schema={"k": {"kind": "number"}}).parsed
    assert numbers.target_kind == "numbers"
    said = upload(csv(texts), schema={"k": {"kind": "category"}}).parsed
    assert said.classes == sorted(texts)
    assert not codes & {warning["code"] for warning in said.warnings}


@pytest.mark.parametrize(
    ("texts", "warned"),
    [(["0,5", "1,5", "2"], True), (["0,5", "NA", "1,5"], True), (["1,2", "x"], False)],
)
def test_labels_with_a_decimal_comma_stay_texts(texts: list[str], warned: bool) -> None:
    """A warning has one of them, and an error has the way to write it."""
    content = "\n".join(["x;k", *(f"{i},5;{text}" for i in range(9) for text in texts)])
    parsed = upload(content).parsed
    assert parsed.classes == sorted(set(texts) - {"NA"})
    messages = [one["message"] for one in parsed.warnings if one["code"] == "nearly-read"]
    assert (
        messages
        == [
            "the labels stay texts, such as '0,5'; if they are numbers, write a "
            "decimal point instead of the comma, or say decimal=,"
        ]
        * warned
    )
    said = upload(content, schema={"k": {"kind": "category"}}).parsed.warnings
    assert "nearly-read" not in {one["code"] for one in said}
    if warned:
        demanded = upload(content, schema={"k": {"kind": "number"}})
        assert demanded.rows_of_labels[0] == 0.5
    numbers = upload(content, decimal=",").parsed
    assert numbers.target_kind == ("numbers" if warned else "classes")


def test_numbers_with_an_odd_text_stay_texts() -> None:
    """A warning and a refusal say which text it is, and how to read the others as numbers."""
    labels = [f"{i}.5" for i in range(60)]
    labels[3] = "call us"
    content = "\n".join(["x,price", *(f"{i},{label}" for i, label in enumerate(labels))])
    parsed = upload(content, target="price").parsed
    assert parsed.target_kind == "classes"
    said = "the labels stay texts, since 'call us' is not a number as most are"
    assert any(one["message"].startswith(said) for one in parsed.warnings)
    assert said in refusal(content).detail
    numbers = upload(content, missing=["call us"]).parsed
    assert (numbers.target_kind, numbers.n_samples) == ("numbers", 59)


@pytest.mark.parametrize("n", [60, 1200])
@pytest.mark.parametrize(
    ("written", "decimal"),
    [
        (lambda v: f"${v:,}", None),
        (lambda v: f"{v:,}".replace(",", ".") + ",50 €", None),
        (lambda v: f"{v},25", None),
        (lambda v: f"USD {v // 1000:,}", "."),
        (lambda v: f"{v} %", None),
    ],
)
def test_many_labels_in_one_style_are_numbers(
    n: int, written: Callable[[int], str], decimal: str | None
) -> None:
    """Prices as people write them; a warning shows one."""
    labels = [written(2_000_000 + 1000 * i) for i in range(n)]
    content = "\n".join(["x;k", *(f"{i};{label}" for i, label in enumerate(labels))])
    result = upload(content, target="k", decimal=decimal)
    assert result.parsed.target_kind == "numbers"
    assert result.parsed.n_distinct_labels == n
    values = result.rows_of_labels
    assert values[0] == {"$": 2e6, "U": 2e3}.get(labels[0][0], values[0])
    assert values[1] - values[0] == (1 if labels[0][0] == "U" else 1000)
    said = [one["message"] for one in result.parsed.warnings]
    assert any("read as numbers with a decimal" in message for message in said)
    if n < 1000:
        texts = upload(content, schema={"k": {"kind": "category"}}).parsed
        assert texts.classes == sorted(labels)


def test_labels_with_two_readings_stay_texts() -> None:
    """A warning and an error name the parameter that decides."""
    content = "\n".join(["x;k", *(f"{i};${200 + i},000" for i in range(60))])
    (said,) = (
        one["message"]
        for one in upload(content, target="k").parsed.warnings
        if one["code"] == "nearly-read"
    )
    assert "say decimal=, or decimal=." in said
    error = refusal(content, schema={"k": {"kind": "number"}})
    assert "say decimal=, or decimal=." in str(error.faults[0].hint)
    assert upload(content, target="k", decimal=".").rows_of_labels[:2] == [200_000, 201_000]


def test_labels_of_their_own_file_have_the_decimal_mark_of_the_caller() -> None:
    """As the features have it."""
    labels = upload("1;2\n3;4\n", labels="0,5\n1\n", decimal=",", delimiter=";")
    assert labels.rows_of_labels == [0.5, 1.0]


def test_kind_of_the_label_that_does_not_fit() -> None:
    """A word is not a number, and a label is not a date."""
    error = refusal(csv(["1", "x", "2"]), schema={"k": {"kind": "number"}})
    assert places(error) == [("not-a-number", 2, "k", "x")]
    assert refusal(csv(["1", "2"]), schema={"k": {"kind": "date"}}).code == "invalid-parameter"


def test_similar_classes_are_named() -> None:
    """In a table of numbers, too."""
    assert "similar-levels" in [one["code"] for one in upload(csv(["Yes", "yes"])).parsed.warnings]


def test_numeric_target_is_described() -> None:
    """Every bit of it is kept; the reply has where it lies instead of thousands of classes."""
    values = np.random.default_rng(0).normal(size=3000)
    result = upload(csv([repr(float(value)) for value in values]))
    assert (result.parsed.classes, result.parsed.target_kind) == (None, "numbers")
    assert result.parsed.arrays == ["X", "values"]
    assert np.array_equal(result.arrays["values"], values)
    described = {
        "distinct": 3000,
        "continuous": True,
        "min": values.min(),
        "max": values.max(),
        "mean": pytest.approx(values.mean()),
        "std": pytest.approx(values.std()),
        "median": np.median(values),
    }
    assert result.parsed.target_statistics == described
    whole = upload(csv([str(i % 30) for i in range(300)])).parsed.target_statistics or {}
    assert (whole["continuous"], whole["median"]) == (False, 14.5)
    assert (whole["classes"], whole["counts"]) == ([*range(30)], [10] * 30)
    large = upload(csv(["1e308", "1.5e308", "0.5", "1.7e308"])).parsed.target_statistics or {}
    assert (large["max"], large["mean"], large["std"]) == (1.7e308, None, None)


@pytest.mark.parametrize(
    ("labels", "numbers", "warned"),
    [
        ([f"{i % 60}.25" for i in range(300)], True, True),
        ([str(i % 60) for i in range(300)], True, True),
        ([str(i % 21) for i in range(300)], True, True),
        ([f"{i % 4}.5" for i in range(300)], True, True),
        ([str(i) for i in range(1500)], True, False),
        ([str(i % 20) for i in range(300)], False, False),
        ([f"{i % 20}.0" for i in range(300)], False, False),
        ([f"n{i % 60}" for i in range(300)], False, False),
        ([f"0{i % 60}" for i in range(300)], False, False),
        ([f"2024-01-{10 + i % 20}" for i in range(300)], False, False),
    ],
)
def test_what_is_a_numeric_target(labels: list[str], numbers: bool, warned: bool) -> None:
    """More than twenty different numbers, or some that are not whole. A warning reports it if they
    were few enough to be classes, with what makes classes of them."""
    parsed = upload(csv(labels)).parsed
    assert parsed.target_kind == ("numbers" if numbers else "classes")
    said = [one["message"] for one in parsed.warnings if one["code"] == "numeric-target"]
    assert len(said) == warned
    n = len(set(labels))
    for message in said:
        assert message.startswith(f"'k' is a numeric target with {n} different values")
        assert 'schema={"k": {"kind": "category", "role": "label"}}' in message
        assert ('`loss: "hinge"`' in message) == ("." not in labels[0])


@pytest.mark.parametrize(
    ("labels", "kind", "decided"),
    [
        ([str(i % 60) for i in range(300)], "category", "classes"),
        ([f"{i % 4}.5" for i in range(300)], "category", "classes"),
        ([str(i % 3) for i in range(300)], "number", "numbers"),
        (["5"] * 9 + ["7"], "number", "numbers"),
    ],
)
def test_schema_decides_what_labels_are(labels: list[str], kind: str, decided: str) -> None:
    """In both directions and in every format that has names, without a warning."""
    schema = {"k": {"kind": kind, "role": "label"}}
    columns = {"a": np.arange(len(labels)), "k": np.array(labels, dtype=float)}
    rows = "".join(f'{{"a": {i}, "k": {label}}}\n' for i, label in enumerate(labels))
    results = [
        upload(csv(labels), schema=schema),
        upload(rows, NDJSON, schema=schema),
        upload(parquet(columns), PARQUET, schema=schema),
    ]
    assert {result.parsed.target_kind for result in results} == {decided}
    assert len({result.parsed.matrix_digest for result in results}) == 1
    codes = {one["code"] for result in results for one in result.parsed.warnings}
    assert not codes & {"numeric-target", "many-labels"}


def test_numbers_of_every_format() -> None:
    """One place decides for all of them: the same values, bit for bit, and the same digest."""
    values = [repr(i / 7) for i in range(50)]
    y = np.array(values, dtype=float)
    X = np.arange(50.0)[:, None]
    labels = "\n".join(values) + "\n"
    body = f'{{"rows": {X.tolist()}, "labels": [{", ".join(values)}]}}'
    results = [
        upload(csv(values)),
        upload(parquet({"a": X[:, 0], "k": y}), PARQUET),
        upload(body, JSON),
        upload(npz(X=X, y=y), NPZ),
        upload(npy(np.column_stack([X, y])), NPY, target="1"),
        upload(npy(X), NPY, labels=labels),
        upload(npy(X), NPY, labels=npy(y), labels_media_type=NPY),
    ]
    for result in results:
        assert result.parsed.target_kind == "numbers"
        assert np.array_equal(result.arrays["values"], y)
    assert len({result.parsed.matrix_digest for result in results}) == 1


def test_whole_labels_of_libsvm_stay_classes() -> None:
    """They say so in almost all such files; a warning says what to do if they are amounts."""

    def lines(labels: list[Any]) -> str:
        return "".join(f"{label} 1:{i}\n" for i, label in enumerate(labels))

    classes = upload(lines([i % 60 for i in range(300)]), LIBSVM)
    assert classes.parsed.classes == [*range(60)]
    (said,) = (one["message"] for one in classes.parsed.warnings if one["code"] == "many-labels")
    assert '`loss: "epsilon-insensitive"`' in said
    assert upload(lines([60, 61]), LIBSVM, onto=classes).parsed.classes == [*range(62)]
    numbers = upload(lines([f"{i % 60}.5" for i in range(300)]), LIBSVM)
    assert numbers.rows_of_labels == [i % 60 + 0.5 for i in range(300)]
    assert upload(lines([1, 2]), LIBSVM, onto=numbers).rows_of_labels[-2:] == [1, 2]


def test_rows_without_a_number_are_left_out() -> None:
    """As those without a class are."""
    result = upload(csv(["0.5", "NA", "1.5", "", "2.5"]))
    assert result.rows_of_labels == [0.5, 1.5, 2.5]
    assert result.parsed.target_statistics is not None
    assert result.parsed.target_statistics["median"] == 1.5
    assert refusal(csv(["0.5", "NA"]), missing_labels="refuse").code == "missing-value"


def test_appended_numbers_stay_numbers() -> None:
    """However few there are; a dataset of classes becomes numbers as if all had come at once."""
    schema = {"k": {"kind": "number"}}
    onto = upload(csv(["1", "2", "1"]), schema=schema)
    assert upload(csv(["2", "3"]), onto=onto).rows_of_labels == [1, 2, 1, 2, 3]
    assert refusal(csv(["x"]), onto=onto).code == "label-mismatch"
    classes = upload(csv(["1", "2", "1"]))
    assert upload(csv(["2", "3"]), onto=classes).parsed.classes == [1, 2, 3]
    more = upload(csv(["2", "3"]), onto=classes, schema=schema)
    assert more.rows_of_labels == [1.0, 2.0, 1.0, 2.0, 3.0]
    assert more.parsed.target_kind == "numbers"
    assert upload(csv(["2", "3.5"]), onto=classes).rows_of_labels == [1, 2, 1, 2, 3.5]


def test_few_numbers_written_in_many_ways_are_classes() -> None:
    """What counts is the number, not how it is written."""
    result = upload(csv([f"{i % 3}.{'0' * (i % 600)}" for i in range(3000)]))
    assert result.parsed.classes == [0, 1, 2]
    assert result.parsed.class_counts == [1000, 1000, 1000]


def test_thousands_of_texts_are_refused() -> None:
    """A column of identifiers is not the label column."""
    texts = [f"c{i}" for i in range(1001)]
    assert upload(csv(texts[:1000]), target="k").parsed.class_counts == [1] * 1000
    assert refusal(csv(texts[:1000])).code == "too-many-classes"
    error = refusal(csv(texts))
    assert isinstance(error, InvalidContent)
    assert error.code == "too-many-classes"
    assert "target" in error.detail


def test_word_after_many_measurements() -> None:
    """Once labels are measurements a word among them is a fault of its row."""
    labels = [repr(i / 7) for i in range(400_000)] + ["oops"]
    error = refusal(csv(labels))
    assert places(error) == [("not-a-number", 400_001, "k", "oops")]


def test_labels_beside_the_data() -> None:
    """A file with one label a line; all columns of the data are features then."""
    result = upload("0,1\n1,0\n1,1\n", labels="-1\n1\n-1\n")
    assert result.arrays["X"].shape == (3, 2)
    assert result.rows_of_labels == [-1, 1, -1]


@pytest.mark.parametrize(
    ("labels", "header"), [("k\n-1\n1\n", "auto"), ("k\n-1\n1\n", "present"), ("-1\n1\n", "auto")]
)
def test_header_above_labels(labels: str, header: Any) -> None:
    """One line more than there are rows is a header."""
    result = upload("a,b\n0,1\n1,0\n", labels=labels, header=header)
    assert result.parsed.columns == ["a", "b"]
    assert result.rows_of_labels == [-1, 1]


@pytest.mark.parametrize(
    ("labels", "code"),
    [
        ("-1\n", "label-count"),
        ("-1\n1\n1\n1\n", "label-count"),
        ("-1\n1,2\n", "ragged-row"),
        ('-1\n"1\n', "csv-unterminated-quote"),
        ("-1\n" + "x" * 5000 + "\n", "csv-cell-too-large"),
        ('-1\n""\n', "missing-value"),
    ],
)
def test_labels_that_do_not_fit(labels: str, code: str) -> None:
    """Each row needs one label."""
    assert refusal("0,1\n1,0\n", labels=labels).code == code


def test_labels_as_an_array() -> None:
    """An NPY vector or column, beside CSV or NPY."""
    X = np.arange(6.0).reshape(3, 2)
    for y in (np.array([2, 1, 2]), np.array([[2], [1], [2]], dtype=">f4")):
        options: dict[str, Any] = {"labels": npy(y), "labels_media_type": NPY}
        assert upload("0,1\n2,3\n4,5\n", **options).rows_of_labels == [2, 1, 2]
        assert upload(npy(X), NPY, **options).rows_of_labels == [2, 1, 2]
    error = refusal("0,1\n", labels=npy(X), labels_media_type=NPY)
    assert error.code == "npy-unsupported"


def test_two_sources_of_labels_are_refused() -> None:
    """A file of labels and a target column contradict each other."""
    assert refusal("a,b\n0,1\n", labels="1\n", target="b").code == "invalid-parameter"
