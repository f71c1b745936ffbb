"""CSV and TSV."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.errors import InvalidContent, TooLarge, UnsupportedFormat
from service.rows.spec import TSV
from tests.service.rows.reading import places, refusal, upload


def test_header_names_features_and_target() -> None:
    """The last column holds the labels, the others are the features by their names."""
    result = upload("a,b,kind\n1,2,x\n3,4.5,y\n-5,6e-1,x\n")
    assert result.parsed.columns == ["a", "b"]
    assert result.parsed.target == "kind"
    assert result.arrays["X"].tolist() == [[1, 2], [3, 4.5], [-5, 0.6]]
    assert result.arrays["X"].dtype == np.float64
    assert result.rows_of_labels == ["x", "y", "x"]
    assert result.parsed.class_counts == [2, 1]


@pytest.mark.parametrize("target", ["b", "0", "1"])
def test_target_by_name_or_position(target: str) -> None:
    """A name is looked for first; a position counts from 0."""
    result = upload("c,b\n7,1\n8,2\n", target=target)
    taken = {"b": "b", "0": "c", "1": "b"}[target]
    assert result.parsed.target == taken
    assert result.parsed.columns == [{"b": "c", "c": "b"}[taken]]
    assert result.rows_of_labels == ([7, 8] if taken == "c" else [1, 2])


def test_target_in_the_middle() -> None:
    """Its neighbors on both sides are features."""
    result = upload("a,kind,b,c\n1,x,2,3\n4,y,5,6\n", target="kind")
    assert result.parsed.columns == ["a", "b", "c"]
    assert result.arrays["X"].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert result.rows_of_labels == ["x", "y"]


def test_no_target() -> None:
    """With `none` every column is a feature."""
    result = upload("a,b\n1,2\n", target="none")
    assert result.parsed.columns == ["a", "b"]
    assert result.parsed.classes is None
    assert result.parsed.arrays == ["X"]


def test_unknown_target_names_similar_columns() -> None:
    """A misspelled target gets the columns to choose from."""
    error = refusal("sepal,species\n1,x\n", target="specie")
    assert error.code == "target-missing"
    assert "species" in error.detail


@pytest.mark.parametrize(
    "text",
    [
        "a,b,k\r\n1,2,x\r\n3,4,y\r\n",
        "\ufeffa,b,k\n1,2,x\n3,4,y\n",
        "a,b,k\n1,2,x\n3,4,y",
        "a,b,k\r1,2,x\r3,4,y\r",
        "\n\na,b,k\n\n1,2,x\n\n3,4,y\n\n",
        'a,"b",k\n"1",2,"x"\n3,"4",y\n',
        " a , b, k\n 1 ,\t2, x\n3, 4 ,y \n",
    ],
    ids=["crlf", "bom", "no-line-end", "cr", "blank-lines", "quotes", "blanks"],
)
def test_ways_to_write_the_same(text: str) -> None:
    """Line ends, a byte order mark, blank lines, quotes and blanks around cells say nothing."""
    result = upload(text)
    assert result.parsed.columns == ["a", "b"]
    assert result.arrays["X"].tolist() == [[1, 2], [3, 4]]
    assert result.rows_of_labels == ["x", "y"]


def test_quoted_cells_hold_anything() -> None:
    """Quoted labels and names may hold delimiters, line ends and doubled quotes."""
    result = upload('"a\nname",k\n1,"x,\n""y"""\n2,z\n')
    assert result.parsed.columns == ["a\nname"]
    assert result.rows_of_labels == ['x,\n"y"', "z"]


def test_tsv_and_other_delimiters() -> None:
    """TSV has tabs; any mark can be named as delimiter."""
    expected = upload("a,k\n1,x\n2,y\n").parsed.matrix_digest
    assert upload("a\tk\n1\tx\n2\ty\n", TSV).parsed.matrix_digest == expected
    assert upload("a;k\n1;x\n2;y\n", delimiter=";").parsed.matrix_digest == expected


@pytest.mark.parametrize("options", [{}, {"delimiter": ","}])
def test_one_column_may_have_any_name(options: Any) -> None:
    """In quotes, or where the delimiter is given."""
    name = "a;b" if options else '"a,b"'
    result = upload(f"{name}\n1\n2\n", target="none", header="present", **options)
    assert result.parsed.columns == [name.strip('"')]


@pytest.mark.parametrize("delimiter", [";", "\t", "|", " "])
def test_other_delimiters_are_found(delimiter: str) -> None:
    """The one that gives all records the same number of cells; the reply says which."""
    parsed = upload("a,b,k\n1,2,x\n3,4,y\n".replace(",", delimiter)).parsed
    assert parsed.columns == ["a", "b"]
    assert (parsed.reading or {})["delimiter"] == delimiter


def test_every_fault_is_listed_with_its_place() -> None:
    """Row numbers count records below the header; blank lines and line ends in quotes do not."""
    error = refusal(
        "\n".join(
            [
                "a,b,k",
                '1,2,"x\ny"',
                "",
                "oops,2,x",
                "1,,x",
                "1,2",
                "1,2,x,9",
                "nan,2,x",
                "1,-inf,x",
                "1,2,",
                *["1,2,x"] * 20,
            ]
        ),
        odd_cells="refuse",
    )
    assert isinstance(error, InvalidContent)
    assert sorted(places(error), key=lambda place: (place[1] or 0, str(place[2]))) == [
        ("not-a-number", 2, "a", "oops"),
        ("ragged-row", 4, None, None),
        ("ragged-row", 5, None, None),
        ("non-finite-value", 7, "b", "-inf"),
    ]
    assert error.faults_total == 4


@pytest.mark.parametrize("cell", ["١", "\xa01", "1d", "--1", "1 2", "yes", "1e", "e5", "+", "1_0"])
def test_what_is_no_number(cell: str) -> None:
    """Neither Python's nor DuckDB's notion of a number widens ours."""
    error = refusal(f"a,b,k\n1,2,x\n3,{cell},y\n")
    assert places(error) == [("not-a-number", 2, "b", cell)]


@pytest.mark.parametrize(
    ("cell", "value"),
    [("+1", 1.0), (".5", 0.5), ("5.", 5.0), ("1E+2", 100.0), ("007", 7.0), ("1e-400", 0.0)],
)
def test_what_is_a_number(cell: str, value: float) -> None:
    """Usual ways of writing numbers, beyond those of JSON."""
    assert upload(f"a,b,k\n1,2,x\n3,{cell},y\n").arrays["X"][1, 1] == value


@pytest.mark.parametrize("first", ["1,2,x", '"1",2,x'])
@pytest.mark.parametrize("target", [None, "0", "1"])
def test_row_that_lacks_its_label(first: str, target: str | None) -> None:
    """A short row is never taken for one without label, whichever column has the label."""
    error = refusal(f"a,b,k\n{first}\n3,4\n", target=target)
    assert ("ragged-row", 2, None, None) in places(error)


def test_hundred_faults_and_their_total() -> None:
    """More faults than a reply lists are counted, over all slices of the file."""
    rows = "".join(f"{i},x{i},k\n" for i in range(250))
    error = refusal("a,b,k\n" + rows, schema={"b": {"kind": "number"}})
    assert len(error.faults) == 100
    assert error.faults_total == 250
    assert "and 249 more" in error.detail


def test_word_far_into_a_large_file() -> None:
    """Record 70,000 lies in a later slice; row, column and value are named."""
    rows = ["1.25,-3.5e-2,123456.789012345,4,5,6,7,8,9,0.123456789012345678,yes"] * 80_000
    rows[69_999] = rows[69_999].replace("123456.789012345", "oops")
    header = ",".join([*(f"f{i}" for i in range(10)), "label"])
    assert sum(map(len, rows[:69_999])) > 4 * 2**20
    text = "\n".join([header, *rows])
    error = refusal(text, odd_cells="refuse")
    assert places(error) == [("not-a-number", 70_000, "f2", "oops")]
    table = upload(text).parsed.table
    assert table is not None
    assert table[2]["missing"] == 1


def test_large_file_in_slices_is_read_whole() -> None:
    """Rows on both sides of the cut between two slices keep their order and values."""
    n = 150_000
    text = "a,b,k\n" + "".join(f"{i}.5,{-i}e-3,{'odd' if i % 2 else 'even'}\n" for i in range(n))
    result = upload(text.replace("odd\n", '"odd"\n'))
    assert np.array_equal(result.arrays["X"][:, 0], np.arange(n) + 0.5)
    assert np.array_equal(result.arrays["X"][:, 1], [float(f"{-i}e-3") for i in range(n)])
    assert np.array_equal(result.arrays["y"], np.arange(n) % 2)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "empty-data"),
        ("\n\n", "empty-data"),
        ("a,b\n", "empty-data"),
        ("k\n1\n2\n", "empty-data"),
        ('a,k\n1,"x\n2,y,3\n', "csv-unterminated-quote"),
        ('a,k\n1,"x"y\n', "csv-unterminated-quote"),
        ("a,k\n1," + 5000 * "x" + "\n", "csv-cell-too-large"),
        ("a,k\n0." + 5000 * "1" + ",x\n", "csv-cell-too-large"),
        ("a,k\n" + 2**20 * "1" + "1,x\n", "csv-cell-too-large"),
        ("a,k\n" + 2**22 * "1", "csv-cell-too-large"),
        ("a,k\n" + '1,"x\n' + 2**20 * "1,x,y\n", "csv-unterminated-quote"),
    ],
)
def test_files_that_cannot_be_read(text: str, code: str) -> None:
    """Each gets the code of the contract."""
    assert refusal(text).code == code


@pytest.mark.parametrize(
    ("content", "looks_like"),
    [
        (b"\x1f\x8b\x08\0", "gzip"),
        (b"PK\x03\x04", "zip"),
        (b"PAR1", "parquet"),
        (b"\x93NUMPY\x01\0", "npy"),
        (b'{"rows": [[1]]}', "json"),
        (b"+1 1:0.5 3:2\n-1 2:1\n", "libsvm"),
    ],
)
def test_other_formats_are_recognized(content: bytes, looks_like: str) -> None:
    """A body that plainly is something else gets 415, not a list of wrong cells."""
    error = refusal(content)
    assert isinstance(error, UnsupportedFormat)
    assert error.code == "format-mismatch"
    assert looks_like in error.detail


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"rows": 2}, "too-many-rows"),
        ({"columns": 1}, "too-many-columns"),
        ({"stored_values": 5}, "too-many-values"),
    ],
)
def test_limits(limits: dict[str, int], code: str) -> None:
    """What is over a limit is refused with the limit."""
    text = "a,b,k\n1,2,x\n3,4,y\n5,6,y\n"
    error = refusal(text, limits=limits)
    assert isinstance(error, TooLarge)
    assert error.code == code
    assert error.extra == {"limit": next(iter(limits.values()))}
    assert upload(text, limits={"rows": 3, "columns": 2, "stored_values": 6}).arrays["X"].shape == (
        3,
        2,
    )


def test_expected_number_of_features() -> None:
    """`n_features` is a check where the file says how many there are."""
    assert upload("a,b,k\n1,2,x\n", n_features=2).parsed.n_features == 2
    error = refusal("a,b,k\n1,2,x\n", n_features=3)
    assert error.code == "feature-mismatch"
    assert error.extra == {"expected": 3, "got": 2}


def test_wide_file() -> None:
    """Columns by the thousand are read as fast as rows."""
    n = 20_000
    text = ",".join(map(str, range(n))) + ",k\n" + ",".join(["0.5"] * n) + ",x\n"
    result = upload(text, header="present")
    assert result.arrays["X"].shape == (1, n)
    assert result.parsed.columns is not None
    assert result.parsed.columns[-1] == str(n - 1)


def test_options_of_other_formats_are_refused() -> None:
    """An option that would do nothing is an error."""
    assert refusal("a,k\n1,x\n", index_base=0).code == "invalid-parameter"
