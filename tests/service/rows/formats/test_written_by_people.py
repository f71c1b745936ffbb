"""One table in the ways in which people and their programs write it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from service.errors import InvalidContent
from service.rows.cell_texts.dates import COMPACT, FORMS, ISO, MIXED, MONTHS_ONLY
from service.rows.cell_texts.reading import Reading
from service.rows.columns import Columns
from service.rows.format_table import FORMATS
from service.rows.spec import (
    CSV,
    JSON,
    NDJSON,
    PARQUET,
    TSV,
    XLSX,
    ConvertSpec,
    ReadLimits,
    RowLimits,
    SentFile,
)
from service.rows.table.writers import coded_positions, raw_values
from svm.data.columns import Column
from tests.service.rows.arrays import parquet
from tests.service.rows.reading import LIMITS, Result, refusal, upload
from tests.service.rows.workbooks import workbook

NAMES = ["city", "balance", "day", "kind"]
ROWS = [
    (
        ("Köln", "Ulm", "Bonn")[i % 3],
        (-1) ** i * (1234567 * i + 0.25),
        date(2024, 1, 1) + timedelta(days=17 * i),
        "uv"[i % 4 == 0],
    )
    for i in range(1, 25)
]


def written(
    separator: str = ",",
    *,
    number: Callable[[float], str] = str,
    day: Callable[[date], str] = str,
    end: str = "",
    quote: str = "",
) -> str:
    """The table with its header."""
    rows = [NAMES, *([city, number(x), day(d), kind] for city, x, d, kind in ROWS)]
    lines = (separator.join(f"{quote}{cell}{quote}" for cell in row) + end for row in rows)
    return "\n".join(lines) + "\n"


def german(value: float) -> str:
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))


def indian(value: float) -> str:
    whole, fraction = f"{abs(value):.2f}".split(".")
    groups = [whole[-3:]]
    while whole := whole[:-3] if len(groups) == 1 else whole[:-2]:
        groups.insert(0, whole[-2:])
    return "-" * (value < 0) + ",".join(groups) + "." + fraction


PLAIN = written()
BLANK = ",,,\n"
WAYS = {
    "parentheses": written(number=lambda x: f"({-x})" if x < 0 else str(x)),
    "dollars in parentheses": written(number=lambda x: f"(${-x})" if x < 0 else f"${x}"),
    "minus sign": written(number=lambda x: str(x).replace("-", "\u2212")),
    "German": written(";", number=german, day=lambda d: d.strftime("%d.%m.%Y")),
    "German exponents": written(";", number=lambda x: f"{x:.9E}".replace(".", ",")),
    "Indian": written(number=indian, quote='"'),
    "separator in the first line": "sep=;\n" + written(";"),
    "quoted separator in the first line": '"sep=;"\n' + written(";"),
    "empty columns": written(";", end=";;;"),
    "blank rows": f"{BLANK}{PLAIN}{BLANK}{BLANK}",
    "a blank row in the middle": PLAIN.replace("\nBonn", f"\n{BLANK}Bonn", 1),
    "blanks before quotes": "\n".join(f'"{line}"' for line in written('", "').splitlines()),
    "spaces after commas": written(", "),
    "a comment and a blank line": f"# of Monday\n\n{PLAIN}# end\n",
    "a time at midnight": written(day=lambda d: d.strftime("%m/%d/%Y 12:00:00 AM")),
    "a month name in capitals": written(day=lambda d: d.strftime("%d-%b-%y").upper()),
    "a dotted month": written(";", day=lambda d: d.strftime("%d. %B %Y")),
    "a zone in words": written(day=lambda d: d.strftime("%Y-%m-%d 00:00:00 UTC")),
    "a zone of hours": written(day=lambda d: d.strftime("%Y-%m-%d 02:00:00.000000+02")),
    "basic ISO": written(day=lambda d: d.strftime("%Y%m%dT000000Z")),
    "a mail": written(";", day=lambda d: d.strftime("%a, %d %b %Y 00:00:00 +0000")),
    "a web log": written(day=lambda d: d.strftime("%d/%b/%Y:00:00:00 +0000")),
    "an ordinal day": written(";", day=lambda d: f"{d:%B} {d.day}th, {d:%Y}"),
    "years of two and four digits": written(
        day=lambda d: d.strftime("%m/%d/%Y" if d.day % 2 else "%m/%d/%y")
    ),
    "a unit": written(number=lambda x: f"{x} km"),
    "Brazilian money": written(";", number=lambda x: f"R$ {german(x)}".replace("R$ -", "-R$ ")),
    "thousands": written(number=lambda x: f"{x / 1000!r}K"),
    "a minus behind": written(number=lambda x: f"{-x}-" if x < 0 else str(x)),
}
CODES = {"YYYY": "%Y", "YY": "%y", "MM": "%m", "DD": "%d", "Mon": "%b"}


def in_form(form: str) -> Callable[[date], str]:
    for name, code in CODES.items():
        form = form.replace(name, code)
    return lambda day: day.strftime(form)


TIMED = "YYYYMMDDThhmmss"
WAYS |= {
    form: written(";", day=in_form(form))
    for form in FORMS
    if form not in (ISO, COMPACT, TIMED, *MIXED, *MONTHS_ONLY)
}


def raw(result: Result) -> Any:
    """The stored raw values."""
    arrays = [result.arrays[name] for name in ("X", "codes") if name in result.arrays]
    return raw_values(arrays, coded_positions(result.parsed.table))


def rows_to_predict(result: Result, text: str | bytes, media_type: str = CSV) -> Any:
    """The raw values of a text, read by what the upload says of its columns."""
    table = result.parsed.table
    columns = tuple(Column(c["name"], c["kind"], tuple(c["levels"])) for c in table)
    known = Columns(
        len(columns),
        result.parsed.columns,
        columns,
        reading=Reading.of(json.loads(json.dumps(result.parsed.reading))),
    )
    read = FORMATS[media_type].read_rows
    assert read is not None
    body = text if isinstance(text, bytes) else text.encode()
    return known.marked(read(body, known, RowLimits(1000, 4096, 1 << 20)).X)


@pytest.mark.parametrize("text", WAYS.values(), ids=WAYS.keys())
def test_one_table_has_one_digest(text: str) -> None:
    """However it is written; and the file itself can be sent to predict."""
    result = upload(text)
    assert result.parsed.columns == NAMES[:-1]
    assert result.parsed.matrix_digest == upload(PLAIN).parsed.matrix_digest
    read = rows_to_predict(result, text)
    kept = read[~np.isnan(read).all(axis=1)]  # blank rows are rows to predict
    np.testing.assert_array_equal(kept, raw(result))


@pytest.mark.parametrize("end", [";;\n;;\n", "; ;\n\n;;", "\t\t\n\t\t\n"])
def test_blank_rows_below_a_table_are_counted(end: str) -> None:
    """As Excel writes them. The file itself can be sent to predict."""
    text = "a;b;k\n" + "".join(f"{i};{i / 4};{'xy'[i % 2]}\n" for i in range(1, 21))
    text = text.replace(";", end[0])
    result = upload(text + end)
    assert (result.parsed.n_samples, result.parsed.table) == (20, [])
    assert result.parsed.reading is not None
    assert result.parsed.reading["blank_rows"] == 2
    assert "blank_rows" not in (upload(text).parsed.reading or {})
    reading = Reading.of(json.loads(json.dumps(result.parsed.reading)))
    known = Columns(2, ["a", "b"], reading=reading)
    read = FORMATS[CSV].read_rows
    assert read is not None
    for body in (text + end, text.replace(";", ",") + end.replace(";", ",")):
        rows = read(body.encode(), known, RowLimits(1000, 4096, 1 << 20))
        np.testing.assert_array_equal(rows.X, result.arrays["X"])
    with pytest.raises(InvalidContent, match="row 2"):
        read(b"a;b\n1;2\n;\n3;4\n", known, RowLimits(1000, 4096, 1 << 20))


@pytest.mark.parametrize("delimiter", [";", "\t", "|", " "])
def test_rows_to_predict_may_have_another_delimiter(delimiter: str) -> None:
    """If the first line has the names of the features between it."""
    text = "k,b,a\n1,2,3\n4,5,6\n".replace(",", delimiter)
    table = (Column("a"), Column("b", "category", ("2", "5")))
    read = FORMATS[CSV].read_rows
    assert read is not None
    for columns in (Columns(2, ["a", "b"]), Columns(2, ["a", "b"], table)):
        rows = read(text.encode(), columns, RowLimits(1000, 4096, 1 << 20))
        assert rows.ignored == ("k",)
        assert np.asarray(rows.X)[:, 0].tolist() == [3, 6]
    with pytest.raises(InvalidContent, match="lacks 'a', 'b'"):
        read(b"a;c\n1;2\n", columns, RowLimits(1000, 4096, 1 << 20))


def test_months_are_dates() -> None:
    """Of the first day."""
    result = upload("m,n,k\n" + "".join(f"20{i:02}-0{i % 9 + 1},{i},{i % 2}\n" for i in range(24)))
    assert [column["kind"] for column in result.parsed.table] == ["date", "number"]
    assert raw(result)[0].tolist() == [10957, 0]


def test_compact_dates_are_numbers_unless_said() -> None:
    """20240131 is a number; `schema` makes it a date."""
    text = "d,c,k\n" + "".join(f"202401{i:02},{'xy'[i % 2]},{i % 2}\n" for i in range(1, 25))
    numbers = upload(text).parsed.table
    dates = upload(text, schema={"d": {"kind": "date"}})
    assert numbers is not None
    assert numbers[0]["kind"] == "number"
    assert raw(dates)[0].tolist() == [19723, 1]


def test_years_beyond_two_digits() -> None:
    """69 … 99 are of the last century."""
    text = "d,k\n" + "".join(f"31.12.{year:02},{year % 2}\n" for year in range(60, 80))
    result = upload(text)
    years = (raw(result)[:, 0] / 365.2425 + 1970).astype(int)
    assert years.tolist() == [*range(2060, 2069), *range(1969, 1980)]


@pytest.mark.parametrize("hours", ["13:00 AM", "00:10 PM", "25:00"])
def test_hours_that_do_not_exist(hours: str) -> None:
    """Such a text is not a date."""
    text = "d,c,k\n" + "".join(f"2024-05-{i:02} {hours},c,{i % 2}\n" for i in range(1, 12))
    assert refusal(text, schema={"d": {"kind": "date"}}).code == "not-a-date"


@pytest.mark.parametrize(
    "first", ["city,2019,2020,label", "2019,2020,2021,label", "city,1,2020,label"]
)
def test_header_with_numbers_is_asked_about(first: str) -> None:
    """A first record whose texts come only once may be the names."""
    numbered = not first.startswith("city")
    rows = [f"{i if numbered else 'cd'[i % 2]},{i / 2},{i / 3},{'uv'[i % 2]}" for i in range(12)]
    text = "\n".join([first, *rows])
    error = refusal(text)
    assert error.code == "bad-column-name"
    assert "header=present" in error.detail
    assert upload(text, header="present").parsed.target == "label"
    assert upload(text, header="absent").parsed.n_samples == 13


def test_texts_that_come_again_are_data() -> None:
    """Rows without a header are not asked about."""
    rows = [f"{'cd'[i % 2]},{i / 2},{'uv'[i % 2]}" for i in range(12)]
    assert upload("\n".join(rows)).parsed.n_samples == 12


def test_one_fault_for_a_short_row() -> None:
    """Its other cells are not said to be wrong."""
    text = PLAIN.replace("\nBonn", "\n1,2\nBonn", 1)
    error = refusal(text)
    assert [(fault.code, fault.row) for fault in error.faults] == [("ragged-row", 2)]


def test_delimiter_in_a_text() -> None:
    """The hint says what to do."""
    error = refusal(PLAIN.replace("\nBonn", "\nBonn, am Rhein", 1))
    assert error.code == "ragged-row"
    assert "in quotes" in error.detail


@pytest.mark.parametrize("page", ["<!DOCTYPE html><html></html>", "\n<html lang=de>", "<table>"])
def test_page_instead_of_a_table(page: str) -> None:
    """As a download gives if a login is needed."""
    error = refusal(page)
    assert error.code == "format-mismatch"
    assert "HTML" in error.detail


def test_texts_that_hardly_repeat_get_a_warning() -> None:
    """They may be numbers or dates in a form that is not read."""
    cells = [f"a{i % 30},{'uv'[i % 2]}\n" for i in range(40)]
    [warning] = upload("size,k\n" + "".join(cells)).parsed.warnings[:1]
    assert warning["code"] == "many-levels"
    assert "30 different texts" in warning["message"]


def test_levels_that_differ_in_case_get_a_warning() -> None:
    """Of features and of the label: they stay different."""
    cells = [f"{('Yes', 'no', 'yes')[i % 3]},{('a b', 'c', 'A  b')[i % 3]}\n" for i in range(12)]
    result = upload("f,k\n" + "".join(cells))
    assert result.parsed.classes == ["A  b", "a b", "c"]
    messages = [w["message"] for w in result.parsed.warnings if w["code"] == "similar-levels"]
    assert ["'Yes' and 'yes'" in messages[0], "'A  b' and 'a b'" in messages[1]] == [True, True]


@pytest.mark.parametrize(
    ("name", "ignored"),
    [
        *(("customer_id", True), ("OrderNo", True), ("Kunden-Nr.", True), ("userID", True)),
        *(("paid", False), ("piano", False), ("number", False)),
    ],
)
@pytest.mark.parametrize("others", ["0.5,1.5", "c,"])
def test_numbers_that_name_rows_are_ignored(name: str, ignored: bool, others: str) -> None:
    """Whole numbers that are all different, under a name for that; `schema` brings them back."""
    cells = [f"{i * 7919 % 1009},{others},{i % 2}\n" for i in range(12)]
    text = f"{name},b,c,k\n{''.join(cells)}".replace("c,,", "c,d,", 5)
    reasons = {one["name"]: one["reason"] for one in upload(text).parsed.ignored}
    assert (name in reasons) == ignored
    if ignored:
        assert reasons[name] == "an identifier: every number is different"
    kept = upload(text, schema={name: {"role": "feature"}}).parsed.columns
    assert kept is not None
    assert name in kept


def test_numbers_that_repeat_are_a_feature() -> None:
    """Such as the number of a room."""
    cells = [f"{i % 11},{i / 2},{i % 2}\n" for i in range(12)]
    assert upload("room_no,b,k\n" + "".join(cells)).parsed.columns == ["room_no", "b"]


FORMED = (
    "pay,when,long,n,k\n"
    + "".join(f"$1.{i}K,{i + 13}/01/2024,0{i}:30,{i},{'xy'[i % 2]}\n" for i in range(10)) * 20
    + "$2,14/02/2024,1:00,NUH,x\n"
)


@pytest.mark.parametrize("media_type", [CSV, JSON])
def test_rows_to_predict_have_the_forms_of_the_training_file(media_type: str) -> None:
    """Also in JSON, where a number may come as a number, too; and the odd words of a column."""
    result = upload(FORMED)
    cells = ["$1.5K", "31/01/2024", "00:02:30", "NUH"]
    plain: list[Any] = [1500, "2024-01-31", 150, None]
    if media_type == CSV:
        bodies = [",".join(cells), "1500,2024-01-31,150,"]
    else:
        bodies = [json.dumps({"instances": [row]}) for row in (cells, plain)]
    for body in bodies:
        read = rows_to_predict(result, body, media_type)
        np.testing.assert_array_equal(read, [[1500.0, 19753.0, 150.0, np.nan]])


def test_text_with_two_readings_is_refused_in_json() -> None:
    """A decimal comma in the training file does not say how a client of JSON writes numbers."""
    result = upload("a;b;k\n" + "".join(f"{i},5;{i or ''};{'xy'[i % 2]}\n" for i in range(10)))
    body = '{"instances": [["1,5", "2"]]}'
    np.testing.assert_array_equal(rows_to_predict(result, body, JSON), [[1.5, 2.0]])
    with pytest.raises(InvalidContent, match=r"'1\.500' may be 1\.5 or 1500"):
        rows_to_predict(result, body.replace("1,5", "1.500"), JSON)


@pytest.mark.parametrize(("day_first", "month"), [(True, 2), (False, 1)])
def test_caller_decides_what_comes_first(day_first: bool, month: int) -> None:
    text = "d,k\n" + "".join(f"0{1 + i % 2}/02/2024,{'xy'[i % 2]}\n" for i in range(10))
    assert upload(text).parsed.warnings[0]["code"] == "undecided-dates"
    result = upload(text, dayfirst=day_first)
    assert raw(result)[0, 0] == (date(2024, month, 3 - month) - date(1970, 1, 1)).days


CELLS = {
    "plain": ["1.5", "-3e2", " 4 ", "+5", ".5", "6.", "007"],
    "gaps": ["1", "", "NA", "None", "-", "2.5", "n.a."],
    "comma": ["1,5", "2,25", "-3", "1.234,5", "", "4,0"],
    "thousands": ["1,234.5", "2,000,000", "3", "12.5"],
    "blanks": ["1 234,5", "2\u00a0000", "12,5", "1'000"],
    "currency": ["$1.50", "$1,000.00", "$ 3", "-$4.5", "($5)"],
    "percent": ["10%", "5.5 %", "-3%"],
    "scaled": ["1K", "2.5M", "3B", "4"],
    "unit": ["5 kg", "6.5 kg", "7kg", "8 kgs"],
    "minus": ["(1.5)", "2", "\u22123", "4-"],
    "wide": ["\uff11\uff12", "3", "\uff14\uff0e\uff15"],
    "iso": ["2024-05-01", "2024-05-02T12:30:00Z", "2024-05-03 10:00", ""],
    "german": ["01.05.2024", "2.5.2024", "14.05.2024 10:30"],
    "american": ["12/31/2024", "1/13/2024"],
    "months": ["1 May 2024", "2 Jun 2023", "14 December 2022"],
    "time": ["10:30", "11:45:30", "00:00"],
    "duration": ["1h 30m", "2h", "45m"],
    "boolean": ["true", "false", "", "True", "FALSE"],
    "category": ["red", "green", "", " red ", "NA", "None"],
    "numbers and words": ["a1", "1", "2.0", "b"],
    "of Excel": ['="1"', '="002"', '="3"'],
    "words": ["1", "-999", "-999.0", "2"],
    "odd": ["1", *["2", "3.5"] * 60, "Unknown"],
}
"""Columns as they may be written: a cell of a row to predict means what it means in an upload."""


def converted(body: bytes, media_type: str, folder: Path, names: list[str]) -> bytes:
    """What the parsing process makes of rows to predict."""
    (folder / "body").write_bytes(body)
    sent, limits = SentFile(str(folder / "body"), media_type), ReadLimits(**LIMITS)
    spec = ConvertSpec(file=sent, out=str(folder / "out"), limits=limits, columns=names)
    FORMATS[media_type].as_csv(spec)
    return (folder / "out").read_bytes()


@pytest.mark.parametrize(
    "way", ["csv", "no header", "tsv", "utf-16", "lists", "objects", "lines", "xlsx", "parquet"]
)
def test_cells_mean_what_they_mean_in_the_upload(way: str, tmp_path: Path) -> None:
    """By the same function, in every format: numbers in any style, dates, words, blanks."""
    names = list(CELLS)
    n_rows = max(map(len, CELLS.values()))
    rows = [[cells[i % len(cells)] for cells in CELLS.values()] for i in range(n_rows)]
    body = io.StringIO()
    labeled = [[*row, "xy"[i % 2]] for i, row in enumerate(rows)]
    csv.writer(body).writerows([[*names, "k"], *labeled])
    result = upload(body.getvalue(), missing=["-999"])
    assert result.parsed.columns == names
    media_type = {"tsv": TSV, "lists": JSON, "objects": JSON, "lines": NDJSON}.get(way, CSV)
    text = io.StringIO()
    given = rows if way == "no header" else [names, *rows]
    csv.writer(text, delimiter="\t" if way == "tsv" else ",").writerows(given)
    objects = [dict(zip(map("{} ".format, names), row, strict=True)) for row in rows]
    sent: bytes | str = text.getvalue()
    if way == "utf-16":
        sent = text.getvalue().encode("utf-16")
    elif media_type == JSON:
        sent = json.dumps({"instances": rows if way == "lists" else objects})
    elif way == "lines":
        sent = "\n".join(map(json.dumps, rows))
    elif way == "xlsx":
        sent = converted(workbook({"S": [names, *rows]}), XLSX, tmp_path, names)
    elif way == "parquet":
        columns = zip(*rows, strict=True)
        arrays = {name: np.array(c, object) for name, c in zip(names, columns, strict=True)}
        sent = converted(parquet(arrays), PARQUET, tmp_path, names)
    read = rows_to_predict(result, sent, media_type)
    for j, name in enumerate(names):
        np.testing.assert_array_equal(read[:, j], raw(result)[:, j], name)
