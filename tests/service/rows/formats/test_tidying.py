"""Lines that are not rows: left out if all others agree, else they are rows as any other."""

from __future__ import annotations

import pytest

from tests.service.rows.reading import refusal, upload

ROWS = [f"{i},{i % 7}.5,{'uv'[i % 2]}" for i in range(30)]
HEADER = "a,b,y"
QUOTE = '"'


def left_out(lines: list[str], **options: str) -> list[str]:
    """What warnings say of an upload that has only these rows."""
    text = "\n".join(lines) + "\n"
    parsed = upload(text, limits=None, onto=None, **options).parsed
    assert parsed.n_samples == len(ROWS)
    return [one["message"] for one in parsed.warnings if one["code"] == "left-out-lines"]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([HEADER, *ROWS, "Total,9.5,"], "total"),
        ([HEADER, *ROWS, "", "Source: a survey", ""], "note"),
        ([HEADER, "kg,m,", *ROWS], "line 2"),
        ([HEADER, "int,float,text", *ROWS], "line 2"),
        ([HEADER, "--,:--:,--", *ROWS], "line 2"),
        ([HEADER, *ROWS[:9], HEADER, *ROWS[9:20], HEADER, *ROWS[20:]], "line 11 and 1 more"),
        (["A title", "and more", HEADER, *ROWS], "line 3"),
        ([f"{HEADER},", *ROWS], "header"),
    ],
)
def test_lines_that_are_left_out(lines: list[str], said: str) -> None:
    (message,) = left_out(lines)
    assert said in message


@pytest.mark.parametrize("title", ["A title", "A title,"])
def test_titles_above_two_columns(title: str) -> None:
    """They are titles if the names below them are those of numbers."""
    (message,) = left_out([title, "b,y", *(row.partition(",")[2] for row in ROWS)])
    assert "line 2" in message


@pytest.mark.parametrize("first", ["Fiat,1.5", "Fiat,NA", "Fiat,soft"])
def test_a_name_alone_above_names_of_rows(first: str) -> None:
    """R leaves out the name of the row names: the line below has no names."""
    other = "hard" if first == "Fiat,soft" else "2"
    rows = [first, *(f"car {i},{other}" for i in range(9))]
    assert upload("\n".join(["x", *rows]), target="none").parsed.n_samples == 10


def test_the_end_of_a_file_after_a_crash() -> None:
    """NUL bytes at the end are no row."""
    content = "\n".join([HEADER, *ROWS, ""]).encode()
    assert upload(content + b"\0" * 5000).parsed == upload(content).parsed


def test_totals_of_a_long_file() -> None:
    """The end is looked at, too, if it is not in the first slice."""
    rows = ROWS * 2000
    parsed = upload("\n".join([HEADER, *rows, "Summe,1,", "Quelle: eine Umfrage", ""])).parsed
    assert parsed.n_samples == len(rows)
    assert "a total" in parsed.warnings[0]["message"]


@pytest.mark.parametrize(
    "lines",
    [
        ["a,b,c,y", *ROWS],  # a name too many
        [HEADER, *ROWS[:9], "A remark", *ROWS[9:]],
        ["1,2,3,u", *ROWS],  # an unquoted comma
    ],
)
def test_lines_that_may_be_rows(lines: list[str]) -> None:
    """They are faults as before."""
    assert refusal("\n".join(lines), odd_cells="refuse").code in ("ragged-row", "not-a-number")


def test_full_rows_are_kept() -> None:
    """Whatever they are called."""
    rows = [f"{name},{i},{'uv'[i % 2]}" for i in range(10) for name in ("North", "Total")]
    parsed = upload("\n".join(["region,n,y", *rows])).parsed
    assert parsed.n_samples == len(rows)


def test_names_of_two_lines() -> None:
    """Those above several columns are put before each."""
    parsed = upload("\n".join(["size,,y", "width,height,", *ROWS])).parsed
    assert parsed.columns == ["size / width", "size / height"]
    assert parsed.target == "y"


def test_lines_in_quotes() -> None:
    """Each line is one cell, which holds others."""
    lines = ["a;b;y", *(row.replace(",", ";") for row in ROWS)]
    quoted = "\n".join(f'"{line}"' for line in lines)
    parsed = upload(quoted).parsed
    assert parsed.n_features == 2
    assert "quoted-lines" in {one["code"] for one in parsed.warnings}


def test_quotes_left_open() -> None:
    """They are letters if all lines have as many cells then; else they are faults."""
    rows = [f"{i},{QUOTE * (i % 5 == 2)}text {i % 3},{'uv'[i % 2]}" for i in range(30)]
    result = upload("\n".join(["n,text,y", *rows]))
    assert result.parsed.n_samples == 30
    assert result.parsed.table is not None
    assert '"text 1' in result.parsed.table[1]["levels"]
    assert "open-quotes" in {one["code"] for one in result.parsed.warnings}
    rows[7] += ",1"
    assert refusal("\n".join(["n,text,y", *rows])).code == "csv-unterminated-quote"


def test_long_cells_of_a_column_that_is_not_kept() -> None:
    """They may be as long as a line; those of other columns are faults."""
    rows = [f"{i},{'word ' * 3000},{'uv'[i % 2]}" for i in range(9)]
    text = "\n".join(["n,text,y", *rows])
    assert upload(text, schema={"text": {"role": "ignored"}}).parsed.n_features == 1
    assert refusal(text).code == "csv-cell-too-large"


@pytest.mark.parametrize("first", ["2,2,x", "3,2,x", f"{'9' * 5000},2,x,y"])
def test_a_row_is_not_taken_for_a_count(first: str) -> None:
    """Of rows and columns, above a table without names."""
    rows = ["3,3,y", "5,1,y", "6,2,x"]
    text = "\n".join([first, *rows])
    if first.count(",") == 2:
        assert upload(text, header="absent").parsed.n_samples == len(rows) + 1
    else:
        refusal(text, header="absent")
