"""Whether the first record is a header."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.rows.reading import places, refusal, upload


@pytest.mark.parametrize(
    ("text", "options", "columns"),
    [
        ("a,b,k\n1,2,x\n", {}, ["a", "b"]),
        ("5.1,3.5,setosa\n4.9,3.0,virginica\n", {}, None),
        ("5.1,3.5,0\n4.9,3.0,1\n", {}, None),
        ("1,2,x\n3,4,y\n5,6,x\n", {}, None),
        ("2019,2020,k\n1,2,x\n", {"target": "k"}, ["2019", "2020"]),
        ("0,1,2,k\n1,2,3,x\n", {"header": "present"}, ["0", "1", "2"]),
        ("0,1,2,k\n1,2,3,x\n", {"header": "absent"}, None),
        ("k,a\nx,1\ny,2\n", {"target": "0"}, ["a"]),
        ("x,1\ny,2\n", {"target": "0"}, None),
        ("1,2\n3,4\n", {"target": "none"}, None),
        ("a\n1\n", {"target": "none"}, ["a"]),
    ],
)
def test_header_is_found(text: str, options: dict[str, Any], columns: list[str] | None) -> None:
    """Names are words above features; a target's name needs a header; the caller may say it."""
    result = upload(text, **options)
    assert result.parsed.columns == columns
    assert result.parsed.n_samples == text.count("\n") - (columns is not None)


def test_word_among_numbers_is_a_mistake_not_a_header() -> None:
    """The first row's wrong cell is named, and how to say that it is a header."""
    error = refusal("1.5,oops,x\n1,2,y\n")
    assert places(error) == [("not-a-number", 1, 1, "oops")]
    assert "header=present" in error.detail


@pytest.mark.parametrize("text", ["0,1,2,species\n5,6,7,x\n", "1,2,species\n5,6,x\n"])
def test_numbered_columns_may_be_either(text: str) -> None:
    """The numbers 0, 1, 2, … above a label that comes once: the caller has to say it."""
    error = refusal(text)
    assert error.code == "bad-column-name"
    assert "header=present or header=absent" in error.detail


def test_data_taken_as_a_header_do_not_vanish() -> None:
    """Words in the first record of a file without header end in an error with a hint."""
    error = refusal("NA,NA,x\n1,2,y\n")
    assert error.code == "bad-column-name"
    assert "header=absent" in error.detail


def test_index_column_is_ignored() -> None:
    """Pandas writes its index under an empty name; a warning says that it is not kept."""
    parsed = upload(",a,k\n0,1,x\n1,2,y\n").parsed
    assert parsed.columns == ["a"]
    assert parsed.ignored == [{"name": "", "reason": "it has no name"}]
    assert parsed.warnings[0]["code"] == "ignored-column"


@pytest.mark.parametrize(
    ("header", "names", "told"),
    [
        ("a,,k", ["a", "column 2"], "'column 2'"),
        ("a,a ,k", ["a", "a.1"], "'a.1'"),
        ("k,k,k", ["k", "k.1"], "'k.1', 'k.2'"),
        ("a.1,a,a", ["a.1", "a"], "'a.2'"),
        ("column 2,,k", ["column 2", "column 3"], "'column 3'"),
    ],
)
def test_names_that_are_given_twice_or_not_at_all(header: str, names: list[str], told: str) -> None:
    """The first free number, or the position from 1, in a warning."""
    parsed = upload(f"{header}\n0,1.5,x\n1,2.5,y\n0.5,1.5,x\n").parsed
    assert parsed.columns == names
    (warning,) = (one for one in parsed.warnings if one["code"] == "renamed-columns")
    assert warning["message"].endswith(told)


def test_a_table_whose_columns_are_all_ignored_is_refused() -> None:
    """With each of them, and why."""
    ignored = {"role": "ignored"}
    error = refusal("a,b\n1,2\n3,4\n", schema={"a": ignored, "b": ignored})
    assert error.code == "empty-data"
    assert "'a' (the caller asks for it), 'b'" in error.detail


def test_messages_count_columns_without_names_from_1() -> None:
    """Rows are counted so, too. A hint about `schema` has the name that it uses, from 0."""
    rows = "".join(f"{i},{i % 7}.5,{'xy'[i % 2]}\n" for i in range(40))
    error = refusal(f"1,oops,x\n1,1;2,y\n{rows}", odd_cells="refuse", header="absent")
    assert error.detail.startswith("row 1, column 2: 'oops' is not a number")
    assert 'say so in `schema`, where its name is "1"' in (error.faults[1].hint or "")
    (warning,) = [
        one
        for one in upload("1,same,5,x\n2,same,7,y\n3,same,8,y\n", header="absent").parsed.warnings
        if one["code"] == "ignored-column"
    ]
    assert warning["message"].startswith("the column 2 is ignored: constant")
    assert warning["columns"] == ["1"]
    error = refusal("same,x\nsame,y\n", header="absent")
    assert "all are ignored: 1 (constant" in error.detail
    error = refusal("1,0,x\n2,0,y\n", header="absent", schema={"1": {"role": "weight"}})
    assert error.detail.startswith("column 2: every weight is 0")
