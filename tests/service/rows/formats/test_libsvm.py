"""LIBSVM text."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from service.errors import InvalidContent, TooLarge
from service.rows.columns import Columns
from service.rows.faults import Faults
from service.rows.formats.libsvm import LINES_AT_ONCE, Careful, IndexRange, lines_of, read_rows
from service.rows.spec import LIBSVM, NPY, RowLimits
from tests.service.rows.arrays import npy
from tests.service.rows.reading import Result, places, refusal, upload
from tests.svm.cases.strategies import PROPERTY


def dense(result: Result) -> list[list[float]]:
    arrays = result.arrays
    if not result.parsed.sparse:
        return arrays["X"].tolist()  # type: ignore[no-any-return]
    parts = (arrays["data"], arrays["indices"], arrays["indptr"])
    shape = (result.parsed.n_samples, result.parsed.n_features)
    matrix: list[list[float]] = csr_array(parts, shape=shape).toarray().tolist()
    return matrix


def test_lines_become_sparse_rows() -> None:
    """Indices begin at 1; the highest one gives the number of features."""
    result = upload("+1 1:0.5 3:2\n-1 2:-1e-3\n+1\n", LIBSVM)
    assert result.parsed.sparse
    assert dense(result) == [[0.5, 0, 2], [0, -0.001, 0], [0, 0, 0]]
    assert result.rows_of_labels == [1, -1, 1]
    assert {array: values.dtype.str for array, values in result.arrays.items()} == {
        "data": "<f8",
        "indices": "<i4",
        "indptr": "<i4",
        "y": "<i4",
    }


@pytest.mark.parametrize(
    "text",
    [
        "1 1:1 2:2\r\n2 2:3\r\n",
        "1 1:1 2:2\n\n2 2:3",
        "\ufeff1 1:1 2:2\n2 2:3\n",
        " 1\t1:1  2:2 \n2 2:3\t\n",
        "# two rows\n1 1:1 2:2 # the first\n2 2:3\n",
        "1.0 1:1e0 2:+2.\n2 1:0 2:3\n",
        "1 01:1 2:2\n2 2:3\n",
    ],
    ids=["crlf", "blank-line", "bom", "blanks", "comments", "zero-stored", "leading-zero"],
)
def test_ways_to_write_the_same(text: str) -> None:
    """Blanks, comments and stored zeros say nothing: the digest is the same."""
    expected = upload("1 1:1 2:2\n2 2:3\n", LIBSVM).parsed.matrix_digest
    assert upload(text, LIBSVM).parsed.matrix_digest == expected


@PROPERTY
@given(
    st.lists(
        st.one_of(
            st.floats(allow_nan=False, allow_infinity=False).map(repr),
            st.integers(-(10**25), 10**25).map(str),
            st.sampled_from(["-0", "+0.5", ".5", "5.", "007", "1E5", "1e-0", "-0.0", "+1e+3"]),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_numbers_have_the_bits_of_python(texts: list[str]) -> None:
    """However they are written: as in JSON or not."""
    line = " ".join(f"{j}:{text}" for j, text in enumerate(texts, 1))
    columns, limits = Columns(len(texts)), RowLimits(10, 10**6, 10**6)
    expected = struct.pack(f"{len(texts)}d", *map(float, texts))
    for label in ("", "+1 ", "1 ", "-0 "):
        X: Any = read_rows(f"{label}{line}\n".encode(), columns, limits).X
        assert X.data.tobytes() == expected


_TOKENS = ("1", "-1", "+1", "0", "-0", "1:1", "2:2.5", "2:-0", "3:1e2", "1e2:1", "1.0:1", "01:2")
_ODD = (
    "+-1",
    "1:+-2",
    "",
    " ",
    "#",
    "2:",
    ":1",
    "1:1:1",
    "1:1-2",
    "x",
    "qid:1",
    "\t",
    "\r",
    "1:[2]",
    "1:null",
)


@PROPERTY
@given(st.lists(st.lists(st.sampled_from(_TOKENS + _ODD), max_size=4), max_size=4))
def test_lines_read_at_once_are_those_read_closely(rows: list[list[str]]) -> None:
    """Whatever the fast reader takes, the one that says what is wrong reads to the same bits."""
    text = "\n".join(map(" ".join, rows))
    allowed, faults = IndexRange(1, 100, ""), Faults()
    soon = allowed.at_once(text)
    if soon is not None:
        lines = lines_of(text)
        if not len(soon.labels):
            lines = [f"0 {line}" for line in lines]
        slow = Careful(allowed, faults).read(lines, 1)
        assert not faults.total
        for name in ("lengths", "indices", "values"):
            assert getattr(soon, name).tobytes() == getattr(slow, name).tobytes()
        assert not len(soon.labels) or soon.labels.tobytes() == slow.labels.tobytes()


@pytest.mark.parametrize("label", ["", "1 ", "+1 ", "-1.5 "])
def test_usual_lines_are_read_at_once(label: str) -> None:
    """They need no closer look, which takes many times as long."""
    lines = [f"{label}1:0.25 7:-1e-05 20:{i}" for i in range(3)]
    for text in ("\n".join(lines), "\n".join([*lines, ""])):
        assert IndexRange(1, 20, "").at_once(text) is not None


def test_many_lines_of_a_body() -> None:
    """They are read in parts; rows of faults are counted in the whole body."""
    columns, limits = Columns(3), RowLimits(10**5, 10**6, 10**6)
    lines = [f"1:{i} 3:0.5" for i in range(2 * LINES_AT_ONCE + 7)]
    X: Any = read_rows("\n".join(lines).encode(), columns, limits).X
    assert X.toarray().tolist() == [[i, 0, 0.5] for i in range(len(lines))]
    row = LINES_AT_ONCE + 3
    lines[row - 1] = "1.0:5"
    with pytest.raises(InvalidContent) as caught:
        read_rows("\n".join(lines).encode(), columns, limits)
    assert [fault.row for fault in caught.value.faults] == [row]


def test_index_base_zero() -> None:
    """Columns may be counted from 0 if the caller asks for it."""
    result = upload("1 0:5 2:6\n2 1:7\n", LIBSVM, index_base=0)
    assert dense(result) == [[5, 0, 6], [0, 7, 0]]


def test_number_of_features_is_given() -> None:
    """The last columns may be zero in all rows of a file."""
    result = upload("1 1:5\n2 2:7\n", LIBSVM, n_features=4)
    assert dense(result) == [[5, 0, 0, 0], [0, 7, 0, 0]]
    assert refusal("1 1:5\n2 2:7\n", LIBSVM, n_features=1).code == "libsvm-index"


def test_labels_may_be_left_out_of_account() -> None:
    """With target=none the labels are read and dropped."""
    assert upload("0 1:5\n0 2:7\n", LIBSVM, target="none").parsed.classes is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("1 0:1", ("libsvm-index", 2, None, "0:1")),
        ("1 2:1 2:2", ("libsvm-index", 2, None, "2:2")),
        ("1 3:1 2:2", ("libsvm-index", 2, None, "2:2")),
        ("1 2:1 x:2", ("libsvm-index", 2, None, "x:2")),
        ("1 2:1 3", ("libsvm-index", 2, None, "3")),
        ("1 -2:1", ("libsvm-index", 2, None, "-2:1")),
        ("1 1.5:1", ("libsvm-index", 2, None, "1.5:1")),
        ("1 1e0:1", ("libsvm-index", 2, None, "1e0:1")),
        ("1 sid:3 1:1", ("libsvm-index", 2, None, "sid:3")),
        ("1 qid:1 qid:2 1:1", ("libsvm-index", 2, None, "qid:2")),
        ("1 qid: qid:2 1:1", ("libsvm-index", 2, None, "qid:2")),
        ("1 cost:2 qid:1 cost:2 1:1", ("libsvm-index", 2, None, "cost:2")),
        ("1:1 2:2", ("missing-value", 2, None, "1:1")),
        ("x 1:1", ("not-a-number", 2, None, "x")),
        ("1,2 1:1", ("not-a-number", 2, None, "1,2")),
        ("nan 1:1", ("non-finite-value", 2, None, "nan")),
        ("1 2:x", ("not-a-number", 2, 1, "x")),
        ("1 2:", ("not-a-number", 2, 1, "")),
        ("1 2:1:1", ("not-a-number", 2, 1, "1:1")),
        ("1 2:3-4", ("not-a-number", 2, 1, "3-4")),
        ("1 1: 2:3-4", ("not-a-number", 2, 0, "")),
        ("1 2:nan", ("non-finite-value", 2, 1, "nan")),
        ("1 2:1e999", ("non-finite-value", 2, 1, "1e999")),
        ("+-1 2:1", ("not-a-number", 2, None, "+-1")),
        ("1 2:+-1", ("not-a-number", 2, 1, "+-1")),
        ("1 2:1_0", ("not-a-number", 2, 1, "1_0")),
        ("1 2:0x10", ("not-a-number", 2, 1, "0x10")),
        ("1 2:١", ("not-a-number", 2, 1, "١")),
    ],
)
def test_faults_have_their_place(line: str, expected: tuple[Any, ...]) -> None:
    """The row counts lines with data; of values the column, of indices the pair is named."""
    error = refusal(f"# comment\n1 1:1\n\n{line}\n1 1:1\n", LIBSVM)
    assert isinstance(error, InvalidContent)
    assert expected in places(error)
    assert error.code == places(error)[0][0]


@pytest.mark.parametrize(
    ("text", "limits", "code"),
    [
        ("1 11:1\n", {"sparse_columns": 10}, "too-many-columns"),
        ("1 99999999999999999999:1\n", {}, "too-many-columns"),
        ("1 1:1\n1 1:1\n1 1:1\n", {"rows": 2}, "too-many-rows"),
        ("1 1:1 2:1\n1 1:1\n", {"stored_values": 2}, "too-many-values"),
    ],
)
def test_limits(text: str, limits: dict[str, int], code: str) -> None:
    """Sizes are checked as they grow."""
    error = refusal(text, LIBSVM, limits=limits)
    assert isinstance(error, TooLarge)
    assert error.code == code


@pytest.mark.parametrize("text", ["", "\n# nothing\n", "1\n-1\n"])
def test_empty_files(text: str) -> None:
    """Neither no lines nor lines without features are data."""
    assert refusal(text, LIBSVM).code == "empty-data"


def test_labels_come_with_the_lines() -> None:
    """Or in a file of their own; a column cannot hold them."""
    assert refusal("1 1:1\n", LIBSVM, target="a").code == "invalid-parameter"
    for lines in ("1 1:1\n1 9:1\n", "1:1\n9:1\n"):  # with labels that do not count, or none
        result = upload(lines, LIBSVM, labels="ham\nspam\n", target="none")
        assert result.rows_of_labels == ["ham", "spam"]
        assert result.arrays["indices"].tolist() == [0, 8]
    error = refusal("1 1:1\n", LIBSVM, labels=npy(np.array([1, 2])), labels_media_type=NPY)
    assert error.code == "label-count"


def test_labels_that_are_texts() -> None:
    """If the first one is; the rows are those of numbers."""
    numbers = upload("1 1:1 3:2\n2 2:1\n1 3:4\n", LIBSVM)
    texts = upload("ham 1:1 3:2\nspam 2:1\nham 3:4\n", LIBSVM)
    assert texts.rows_of_labels == ["ham", "spam", "ham"]
    for name in ("data", "indices", "indptr", "y"):
        assert np.array_equal(texts.arrays[name], numbers.arrays[name])
    more = upload("spam 1:1\n7 3:1\n", LIBSVM, onto=texts)
    assert more.rows_of_labels == ["ham", "spam", "ham", "spam", "7"]
    assert "'x'" in refusal("1 1:1\nx 2:1\n", LIBSVM).detail


def test_weights_of_rows() -> None:
    """As SVMlight writes them; 1 where there is none. They are in a download, too."""
    result = upload("1 1:1\n-1 cost:2.5 2:1\n1 cost:0 1:3\n-1\n", LIBSVM)
    assert result.arrays["weights"].tolist() == [1, 2.5, 0, 1]
    assert result.parsed.weight == "weight"
    assert result.arrays["indices"].tolist() == [0, 1, 0]
    error = refusal("1 1:1\n-1 cost:x 2:1\n", LIBSVM)
    assert places(error)[0][:3] == ("not-a-number", 2, "weight")


def test_rows_to_predict_say_their_width() -> None:
    """In a comment, as the client writes it: what is missing at the end is not 0."""
    columns = Columns(8, None)
    limits = RowLimits(10, 4096, 4096)
    assert read_rows(b"# 8 features\n0 1:1\n", columns, limits).X.shape == (1, 8)
    with pytest.raises(InvalidContent, match="each row has 5 numbers, 8 are expected"):
        read_rows(b"# 5 features\n0 1:1\n", columns, limits)


def test_large_file_in_slices_is_read_whole() -> None:
    """Rows on both sides of the cut between two slices keep their order and values."""
    n = 200_000
    text = "".join(f"{i % 2} 1:{i} {2 + i % 7}:0.25000000\n" for i in range(1, n + 1))
    assert len(text) > 4 * 2**20
    result = upload(text, LIBSVM)
    data = result.arrays["data"].reshape(n, 2)
    assert np.array_equal(data[:, 0], np.arange(1, n + 1))
    assert np.array_equal(result.arrays["indices"].reshape(n, 2)[:, 1], 1 + np.arange(1, n + 1) % 7)
    assert np.array_equal(result.arrays["y"], np.arange(1, n + 1) % 2)


@pytest.mark.parametrize(
    ("text", "option", "sparse"),
    [
        ("1 1:1 2:2\n2 2:3\n1\n", "auto", False),
        ("1 1:1 2:2\n2 2:3 3:0\n1\n", "auto", True),
        ("1 1:1 2:2\n2 2:3\n1\n", "never", True),
        ("1 1:1 2:2\n2 2:3 9:0\n1\n", "always", False),
    ],
)
def test_nearly_full_data_are_dense(text: str, option: Any, sparse: bool) -> None:
    """If half of the values are not 0, unless the caller wants it otherwise; it is in `reading`."""
    result = upload(text, LIBSVM, dense=option)
    assert result.parsed.sparse == sparse
    assert (result.parsed.reading or {})["layout"] == ("sparse" if sparse else "dense")
    assert dense(result)[0][:2] == [1, 2]
    if not sparse:
        assert set(result.arrays) == {"X", "y"}


def test_auto_stays_within_the_limits() -> None:
    """A matrix that is too wide to be dense stays sparse; `always` is refused."""
    text = "1 1:1 2:2\n2 1:3 2:4\n"
    for limits in ({"columns": 1}, {"stored_values": 4, "columns": 1}):
        assert upload(text, LIBSVM, limits=limits).parsed.sparse
        assert isinstance(refusal(text, LIBSVM, limits=limits, dense="always"), TooLarge)


def test_many_rows_become_dense() -> None:
    """In several blocks: the same values as from an array."""
    X = np.random.default_rng(3).integers(0, 4, (600, 4000)) / 3
    text = "".join(
        "1 " + " ".join(f"{j}:{value!r}" for j, value in enumerate(row, 1)) + "\n"
        for row in X.tolist()
    )
    result = upload(text, LIBSVM, target="none")
    expected = upload(npy(X), NPY, target="none")
    assert result.parsed.matrix_digest == expected.parsed.matrix_digest


def test_rows_are_appended_as_the_dataset_is() -> None:
    """To dense data densely, to sparse data sparsely."""
    full, few = "1 1:1 2:2\n2 1:3 2:4\n", "1 1:5\n2\n2\n2\n2\n"
    for dense_option in ("always", "never"):
        first = upload(full, LIBSVM, dense=dense_option)
        both = upload(few, LIBSVM, onto=first)
        whole = upload(full + few, LIBSVM, dense=dense_option)
        assert both.parsed.matrix_digest == whole.parsed.matrix_digest
        other = "never" if dense_option == "always" else "always"
        assert refusal(few, LIBSVM, onto=first, dense=other).code == "feature-mismatch"
    wider = refusal("1 3:1\n", LIBSVM, onto=upload(full, LIBSVM))
    assert wider.code == "libsvm-index"
