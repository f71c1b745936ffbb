"""The matrix digest: the same for the same data, whatever the format."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import hypothesis
import numpy as np
import numpy.typing as npt
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from service.rows.cell_texts.number_text import MISSING_TEXTS, NUMBER
from service.rows.format_table import FORMATS
from service.rows.parser import Parser
from service.rows.spec import (
    ARROW,
    CSV,
    JSON,
    LIBSVM,
    NDJSON,
    NPY,
    NPZ,
    ODS,
    PARQUET,
    TSV,
    XLS,
    XLSX,
    ZIP,
)
from svm.data.texts import StoredTexts
from tests.seeds import seed_from
from tests.service.rows.arrays import arrow, npy, parquet
from tests.service.rows.reading import Result, make_spec, upload
from tests.service.rows.workbooks import workbook, zipped

matrices = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, max_side=6),
    elements=st.floats(allow_nan=False, allow_infinity=False),
)
words = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), min_size=1
).filter(
    lambda text: text == text.strip() and text not in MISSING_TEXTS and not NUMBER.fullmatch(text)
)
numbers = st.integers(1 - 2**53, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)


def table(rows: Sequence[Sequence[Any]], delimiter: str) -> str:
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter, lineterminator="\r\n").writerows(rows)
    return file.getvalue()


@dataclass(frozen=True)
class File:
    """An upload and its options."""

    content: str | bytes
    media_type: str
    options: dict[str, Any] = field(default_factory=dict)


def files(X: npt.NDArray[np.float64], labels: list[Any]) -> list[File]:
    """The same data in every way that can express them."""
    cells = [[*map(repr, row), label] for row, label in zip(X.tolist(), labels, strict=True)]
    body = json.dumps({"rows": X.tolist(), "labels": labels}, ensure_ascii=False)
    names = [*map(str, range(X.shape[1])), "label"]
    objects = "".join(
        json.dumps(dict(zip(names, (*row, label), strict=True))) + "\n"
        for row, label in zip(X.tolist(), labels, strict=True)
    )
    archive = io.BytesIO()
    np.savez_compressed(archive, X=X, y=np.array(labels))
    columns = {f"c{i}": column for i, column in enumerate(X.T)}
    columns["label"] = np.array(labels, dtype=object if isinstance(labels[0], str) else None)
    bare = {"header": "absent"}
    own = {"labels": table([[label] for label in labels], ","), **bare}
    return [
        File(parquet(columns), PARQUET),
        File(arrow(pyarrow.table(columns), rows=5), ARROW),
        File(archive.getvalue(), NPZ),
        File(table(cells, ","), CSV, bare),
        File(table(cells, "\t"), TSV, bare),
        File(body, JSON),
        File(objects, NDJSON),
        File(npy(X), NPY, own),
        File(npy(np.asfortranarray(X.astype(">f8"))), NPY, own),
    ]


@hypothesis.settings(max_examples=30)
@given(X=matrices, data=st.data())
def test_formats_agree_to_the_bit(X: npt.NDArray[np.float64], data: st.DataObject) -> None:
    """Every float64 survives every format; so do labels, and the digest is one."""
    kind = data.draw(st.sampled_from([words, numbers]))
    labels = data.draw(st.lists(kind, min_size=len(X), max_size=len(X)))
    results = [upload(file.content, file.media_type, **file.options) for file in files(X, labels)]
    for result in results:
        assert np.array_equal(result.arrays["X"].view(np.uint64), (X + 0.0).view(np.uint64))
        assert result.rows_of_labels == labels
    assert len({result.parsed.matrix_digest for result in results}) == 1


def test_every_format_is_compared() -> None:
    """Fuzzing damages these files, too. LIBSVM is sparse, and workbooks are made of cells."""
    compared = {file.media_type for file in files(np.ones((1, 1)), ["a"])}
    assert compared | {LIBSVM, XLS, XLSX, ODS} == FORMATS.keys()


def random_labels(rng: np.random.Generator, count: int) -> list[Any]:
    kind = rng.integers(3)
    if kind == 0:
        return list(rng.choice(["a", "b c", 'd"e', "é,ü", "1st"], count).tolist())
    values = rng.integers(-(2**53) + 1, 2**53, 5) if kind == 1 else rng.standard_normal(5)
    return list(rng.choice(values, count).tolist())


def random_matrix(rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Any float64: random bits, whole numbers, decimal fractions, or the numbers at the limits."""
    shape = (int(rng.integers(1, 60)), int(rng.integers(1, 14)))
    kind = rng.integers(4)
    if kind == 0:
        X = rng.integers(0, 2**64, shape, dtype=np.uint64).view(np.float64)
        return np.where(np.isfinite(X), X, 0.0)
    if kind == 1:
        return rng.integers(-(2**53), 2**53, shape).astype(np.float64)
    if kind == 2:
        return np.round(rng.standard_normal(shape) * 100, int(rng.integers(6)))
    limits = [5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, -0.0, 0.1, 1e22, 1e23]
    return rng.choice(limits, shape)


@pytest.mark.fuzz
@pytest.mark.timeout(3600)
def test_two_thousand_matrices(tmp_path: Path) -> None:
    """As the service reads them, in the parsing process."""
    parser = Parser()
    rng = np.random.default_rng(seed_from("FUZZ_SEED"))

    async def digest(file: File) -> str:
        folder = Path(tempfile.mkdtemp(dir=tmp_path))
        spec = make_spec(folder, file.content, file.media_type, **file.options)
        parsed = await parser.parse(spec)
        shutil.rmtree(folder)
        return parsed.matrix_digest

    async def main() -> None:
        for number in range(int(os.environ.get("FUZZ_MATRICES", "2000"))):
            X = random_matrix(rng)
            labels = random_labels(rng, len(X))
            found = {await digest(file) for file in files(X, labels)}
            assert len(found) == 1, number

    anyio.run(main)
    parser.close()


BASE = "a,b,k\n1,2,x\n3,4,y\n"


@pytest.mark.parametrize(
    "other",
    [
        "a,b,k\n1,2,x\n3,5,y\n",
        "a,b,k\n3,4,y\n1,2,x\n",
        "a,b,k\n1,2,y\n3,4,x\n",
        "a,b,k\n1,2,x\n3,4,z\n",
        "a,b,c,k\n1,2,0,x\n3,4,0,y\n",
    ],
    ids=["value", "order", "labels", "class", "shape"],
)
def test_other_data_another_digest(other: str) -> None:
    """Values, their order, labels and classes all count."""
    assert upload(other).parsed.matrix_digest != upload(BASE).parsed.matrix_digest


def test_names_do_not_count() -> None:
    """The digest is that of the matrix and its labels."""
    renamed = upload(BASE.replace("a,b,k", "p,q,r")).parsed
    assert renamed.matrix_digest == upload(BASE).parsed.matrix_digest


def test_minus_zero_is_zero() -> None:
    """They are equal numbers."""
    digest = upload("-0.0,5,x\n2,3,y\n").parsed.matrix_digest
    assert upload("0,5,x\n2,3,y\n").parsed.matrix_digest == digest


def test_labels_and_no_labels_differ() -> None:
    """Of the same features."""
    without = upload("1,2\n3,4\n", target="none").parsed.matrix_digest
    assert upload("1,2\n3,4\n", labels="0\n1\n").parsed.matrix_digest != without


def test_digest_is_that_of_the_golden_data() -> None:
    """It is stored in rows and model versions, so it must never change."""
    dense, sparse = upload(BASE).parsed, upload("1 1:1 3:2\n-1 2:3\n", LIBSVM, dense="never").parsed
    assert dense.matrix_digest == "873d4aec35ef2e72865cd67b1cccafd3dac495eff472b52781af63ad8a6d054d"
    assert (
        sparse.matrix_digest == "f75cb968a8b174c6a5e776c32557ffd1dfe0a2d6529fb60e1b260a736fb30663"
    )


SAYINGS = [
    *("the café is closed", "cafe\u0301 and naïve", "Ελλάδα η χώρα", "Москва слезам не верит"),
    *("שלום לכולם", "مرحبا بالعالم \u200fRTL", "नमस्ते दुनिया", "வணக்கம் உலகம்", "สวัสดีชาวโลก"),
    *("你好，世界", "こんにちは世界", "안녕하세요 세계", "გამარჯობა", "Բարեւ աշխարհ", "ሰላም ለዓለም"),
    *(
        "ສະບາຍດີ",
        "👩‍👩‍👧 🇫🇷 👍🏽",
        "\u0130stanbul ß ﬁ",
        "\U0001d518\U0001d52b",
        "\ufeffmark inside \ufeff",
    ),
    *('he said, "no"', '"quoted"', "two\nlines", "windows\r\nlines", "mac\rlines", "a;b\tc|d"),
    *(
        "  blanks around  ",
        "\ttab before",
        "\u00a0no-break\u00a0",
        "# comment",
        '="0123"',
        'a, "b"',
    ),
    *(
        "NA",
        "None",
        "?",
        "5",
        "1.50",
        "true",
        "2024-01-31",
        "x" * 5000,
        "ab " * 9000,
        "\\N",
        "\x7f\x01",
    ),
]
BLANK = ["", " ", "\n", "\u3000", None]


def text_files(rows: list[tuple[Any, ...]]) -> list[File]:
    """Two columns of texts, a number and a label in every format that has them."""
    names = ["subject", "message", "x", "k"]
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    records = [dict(zip(names, row, strict=True)) for row in rows]
    body = {"columns": names, "rows": rows}
    arrays = {name: np.array(cells, dtype=object) for name, cells in columns.items()}
    arrays["x"] = np.array(columns["x"], dtype=np.float64)
    asked = {"target": "k", "schema": {name: {"kind": "text"} for name in names[:2]}}
    delimited = [(",", CSV), ("\t", TSV), (";", CSV)]
    return [
        *(File(table([names, *rows], mark), kind, asked) for mark, kind in delimited),
        File(table([names, *rows], ",").encode("utf-16"), CSV, asked),
        File(json.dumps(records), JSON, asked),
        File(json.dumps(columns, ensure_ascii=False), JSON, asked),
        File(json.dumps(body), JSON, asked),
        File("".join(json.dumps(one) + "\n" for one in records), NDJSON, asked),
        File(parquet(arrays), PARQUET, asked),
        File(arrow(pyarrow.table(arrays)), ARROW, asked),
        File(zipped({"a.csv": table([names, *rows], ",").encode()}), ZIP, asked),
    ]


def texts_in(result: Result) -> list[list[str | None]]:
    """The columns of texts, cell by cell."""
    ends = result.arrays["text_ends"]
    texts = StoredTexts(result.arrays["texts"], ends).take(range(len(ends)))
    cells = [*texts, None]  # at the position -1, too
    return [[cells[code] for code in column] for column in result.arrays["codes"].T.tolist()]


def rows_of_texts() -> list[tuple[Any, ...]]:
    n = len(SAYINGS)
    blank = [SAYINGS[i] if i % 5 else BLANK[i // 5 % len(BLANK)] for i in range(n)]
    return [(blank[i], SAYINGS[-1 - i], i / 2, "pq"[i % 2]) for i in range(n)]


def test_texts_in_every_format() -> None:
    """They are kept as they came, of 15 scripts and with any mark in them; blank ones are
    missing."""
    rows = rows_of_texts()
    columns = list(zip(*rows, strict=True))[:2]
    expected = [[cell if cell and cell.strip() else None for cell in one] for one in columns]
    results = [upload(file.content, file.media_type, **file.options) for file in text_files(rows)]
    for result in results:
        assert texts_in(result) == expected
    assert len({result.parsed.matrix_digest for result in results}) == 1
    [found] = {json.dumps(result.parsed.statistics["texts"]) for result in results}
    assert json.loads(found)["message"]["characters_max"] == 27_000


def test_texts_of_a_workbook() -> None:
    """As those of the same texts in JSON; a category has no blanks around it."""
    kept = [text for text in SAYINGS if "\r" not in text and "\x01" not in text]
    rows = [(text, f" {'uv'[i % 2]} ", "pq"[i % 2]) for i, text in enumerate(kept)]
    content = workbook({"s": [["m", "c", "k"], *rows]})
    schema = {"m": {"kind": "text"}}
    result = upload(content, XLSX, schema=schema)
    records = [{"m": m, "c": c, "k": k} for m, c, k in rows]
    other = upload(json.dumps(records), JSON, schema=schema, target="k")
    assert result.parsed.table[1]["levels"] == ["u", "v"]
    assert result.parsed.matrix_digest == other.parsed.matrix_digest
