"""XLSX: sheets as people have them, and workbooks that are broken or lie."""

from __future__ import annotations

import datetime
import io
import zipfile
from typing import Any

import numpy as np
import pytest

from service.rows.spec import CSV, XLSX
from tests.service.rows.reading import places, refusal, upload
from tests.service.rows.workbooks import MAIN, sheet, workbook

DAY = datetime.date(2024, 5, 1)
PEOPLE: list[list[Any]] = [
    ["sex", "age", "day", "member", "start", "class"],
    ["f", 22.5, DAY, True, datetime.time(6), "yes"],
    ["m", None, None, False, datetime.time(12), "no"],
    [None, "NA", DAY, None, None, "yes"],
]


def changed(content: bytes, part: str, xml: bytes) -> bytes:
    """The workbook with another part."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", 8) as new:
        for name in old.namelist():
            new.writestr(name, xml if name == part else old.read(name))
    return out.getvalue()


def test_cells_of_every_kind() -> None:
    """Texts, numbers, dates, booleans, times as parts of a day, empty cells, a word for them."""
    result = upload(workbook({"People": PEOPLE}), XLSX)
    assert [(c["name"], c["kind"], c["missing"]) for c in result.parsed.table] == [
        ("sex", "category", 1),
        ("age", "number", 2),
        ("day", "date", 1),
        ("member", "boolean", 1),
        ("start", "number", 1),
    ]
    assert result.rows_of_labels == ["yes", "no", "yes"]
    np.testing.assert_array_equal(result.arrays["X"][0], [22.5, 19844, 1, 0.25])
    assert result.parsed.reading == {
        "sheet": "People",
        "range": "A1:F4",
        "header": "present",
        "decimal": ".",
        "thousands": None,
        "missing": ["", "NA"],
        "columns": {},
    }


def test_numbers_are_as_in_csv() -> None:
    """The same values, labels and names: the same digest."""
    rows: list[list[Any]] = [["a", "b", "k"], [1, 2.5, "x"], [3, 0.1, "y"]]
    text = "\n".join(",".join(map(str, row)) for row in rows)
    assert (
        upload(workbook({"S": rows}), XLSX).parsed.matrix_digest
        == upload(text, CSV).parsed.matrix_digest
    )


def test_texts_of_numbers_and_dates() -> None:
    """Cells that are texts are read as those of a text file; numbers have one reading."""
    rows: list[list[Any]] = [
        *([f"{i}.000,50 €", f"{i:02}.05.2024", i * 1.125, str(i), i % 2] for i in range(14, 30)),
        ["k.A.", None, 1.234, "7", 1],
    ]
    head: list[Any] = ["price", "day", "size", "n", "k"]
    result = upload(workbook({"S": [head, *rows]}), XLSX, missing=["k.A."])
    assert [(c["kind"], c["missing"]) for c in result.parsed.table] == [
        *(("number", 1), ("date", 1), ("number", 0), ("number", 0)),
    ]
    np.testing.assert_array_equal(result.arrays["X"][0], [14000.5, 19857, 15.75, 14])
    np.testing.assert_array_equal(result.arrays["X"][-1], [np.nan, np.nan, 1.234, 7])


def test_numbers_with_three_decimals_are_decided() -> None:
    """Also beside texts with decimal commas."""
    rows: list[list[Any]] = [[1.234 + i, f"{i},5", "xy"[i % 2]] for i in range(9)]
    result = upload(workbook({"S": [["a", "b", "k"], *rows]}), XLSX)
    np.testing.assert_array_equal(result.arrays["X"][3], [4.234, 3.5])


def test_word_among_numbers_that_comes_first() -> None:
    """It is the one that is wrong."""
    rows: list[list[Any]] = [["lots", "x"], *([i * 1.5, "xy"[i % 2]] for i in range(30))]
    error = refusal(workbook({"S": [["a", "k"], *rows]}), XLSX, odd_cells="refuse")
    assert places(error) == [("not-a-number", 1, "a", "lots")]


def test_a_sheet_by_name() -> None:
    """Another one than the first; one that is not there is refused with the names."""
    content = workbook({"A": [["a", "k"], [1, 1], [2, 2]], "B": PEOPLE, "C": []})
    result = upload(content, XLSX, sheet="B")
    assert (result.parsed.n_features, (result.parsed.reading or {})["sheet"]) == (5, "B")
    assert "it has 'A', 'B', 'C'" in refusal(content, XLSX, sheet="D").detail
    assert refusal(content, XLSX, sheet="C").code == "empty-data"


def test_sheets_without_a_table() -> None:
    """The first one with a table is read; a warning names those before it."""
    content = workbook({"C": [], "Cover": [["A report"]], "A": PEOPLE})
    result = upload(content, XLSX)
    assert (result.parsed.reading or {})["sheet"] == "A"
    (warning,) = (one for one in result.parsed.warnings if one["code"] == "left-out-cells")
    assert "'C', which has no table, the sheet 'Cover'" in warning["message"]
    assert refusal(content, XLSX, sheet="C").code == "empty-data"


TABLE: list[list[Any]] = [["a", "b", "k"], *([i, i * i, "xy"[i % 2]] for i in range(12))]


@pytest.mark.parametrize(
    ("rows", "place", "told"),
    [
        ([["A report"], [], *TABLE], "A3:C15", "a title above"),
        ([*TABLE, [], ["c", "n"], ["u", 5], ["v", 7]], "A1:C13", "another table below"),
        (
            [row + ([None, "c", "n"] if i < 3 else []) for i, row in enumerate(TABLE)],
            "A1:C13",
            "another table beside",
        ),
    ],
)
def test_one_table_of_a_sheet(rows: list[list[Any]], place: str, told: str) -> None:
    """What is near it is left out, with a warning; `reading` has the range."""
    result = upload(workbook({"S": rows}), XLSX)
    assert (result.parsed.n_samples, result.parsed.n_features) == (12, 2)
    assert (result.parsed.reading or {})["range"] == place
    (warning,) = (one for one in result.parsed.warnings if one["code"] == "left-out-cells")
    assert told in warning["message"]


@pytest.mark.parametrize(
    "rows",
    [
        [*TABLE[:5], [], *TABLE[5:]],
        [TABLE[0], [], *TABLE[1:]],
        [[*row[:2], None, row[2]] for row in TABLE],
    ],
)
def test_blank_rows_and_columns_in_a_table(rows: list[list[Any]]) -> None:
    """They part nothing."""
    result = upload(workbook({"S": rows}), XLSX)
    assert (result.parsed.n_samples, result.parsed.n_features) == (12, 2)


def test_rows_and_columns_without_cells() -> None:
    """A table that begins somewhere, with an empty row, and an index without a name."""
    rows: list[list[Any]] = [[], [None, None, "a", "k"], [None, 7, 1, "x"], [], [None, 9, 2, "y"]]
    result = upload(workbook({"S": rows}), XLSX)
    assert result.arrays["X"].tolist() == [[1], [2]]
    assert result.parsed.columns == ["a"]
    assert result.parsed.ignored == [{"name": "", "reason": "it has no name"}]


def test_cells_without_values() -> None:
    """Formulas that were never computed: the sheet is empty."""
    row = '<row r="1"><c r="A1"><f>B1</f></c><c r="B1"><f>A1</f></c></row>'
    content = workbook({"S": f"<worksheet {MAIN}><sheetData>{row}</sheetData></worksheet>"})
    assert refusal(content, XLSX).code == "empty-data"


def test_without_header() -> None:
    """A first row with a number is a row, unless the caller says otherwise."""
    content = workbook({"S": [[2020, 2030, "k"], [1, 2, "x"], [3, 4, "y"]]})
    assert upload(content, XLSX).parsed.n_samples == 3
    assert upload(content, XLSX, header="present").parsed.columns == ["2020", "2030"]


def test_faults_name_sheet_row_and_column() -> None:
    """Of each cell that does not fit its column."""
    rows: list[list[Any]] = [["a", "k"], *([i, "x"] for i in range(9)), ["lots", "y"]]
    error = refusal(workbook({"Table 1": rows}), XLSX, odd_cells="refuse")
    assert places(error) == [("not-a-number", 10, "a", "lots")]
    assert error.detail.startswith("sheet 'Table 1': row 10, column 'a': 'lots'")
    long = workbook({"S": [["a", "k"], ["x" * 5000, "x"]]})
    assert places(refusal(long, XLSX)) == [("csv-cell-too-large", 1, "a", "x" * 64)]


@pytest.mark.parametrize("part", ["xl/workbook.xml", "xl/worksheets/sheet1.xml"])
def test_damaged_parts(part: str) -> None:
    content = changed(workbook({"S": PEOPLE}), part, b"<workbook <sheetData><row><c")
    assert refusal(content, XLSX).code in ("archive-unsupported", "empty-data")


def test_damaged_archives() -> None:
    """Cut off, of something else, with an entry that comes twice."""
    content = workbook({"S": PEOPLE})
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.txt", "a")
    for broken in (content[:-30], content[:100], out.getvalue()):
        assert refusal(broken, XLSX).code == "archive-unsupported"
    assert refusal("a,b\n1,2\n", XLSX).code == "format-mismatch"
    assert "openxmlformats" in refusal(content, CSV).detail
    assert "without a password" in refusal(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" * 90, XLSX).detail


def test_a_far_cell() -> None:
    """A grid of 17 thousand million cells, two of them there."""
    xml = sheet([["a"]]).replace("</sheetData>", '<row r="1048576"><c r="XFD1048576"><v>1</v></c>')
    error = refusal(workbook({"S": xml + "</row></sheetData></worksheet>"}), XLSX)
    assert error.code in ("parsing-failed", "too-many-columns")
    far = xml.replace("XFD", "ZZ") + "</row></sheetData></worksheet>"
    assert "far outside" in refusal(workbook({"S": far}), XLSX).detail


def test_bombs() -> None:
    """What inflates beyond 100:1 is refused before it is read, whatever its directory says."""
    content = workbook({"S": PEOPLE})
    bomb = changed(content, "xl/styles.xml", b" " * 20_000_000)
    assert refusal(bomb, XLSX).code == "decompression-limit"
    limits = {"inflated_bytes": 1000}
    assert refusal(content, XLSX, limits=limits).code == "decompression-limit"
