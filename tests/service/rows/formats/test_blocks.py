"""Blocks without quotes are read at once: the result is that of cells read one by one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import ServiceError
from service.rows.cell_texts.text import SLICE_BYTES
from service.rows.kinds.blocks import Cells, Coder
from service.rows.kinds.gathering import Lookup
from tests.service.rows.reading import upload

WORDS = ["a", "b", "Zürich", "x" * 8, "x" * 9, "y" * 16, "long level " * 8, "007", "-", "50 €"]
MISSING = ["", "NA", " ", "?", "null"]
NUMBERS = ["0", "1", "-2", "12", "3.5", "-0.25", "1e5", "4.450", "+7", ".5", "1234", " 8", "true"]
LABELS = ["yes", "no", "yes ", "1", ""]
COLUMNS = [
    st.sampled_from(NUMBERS[:4]),
    st.sampled_from(NUMBERS[4:7]),
    st.sampled_from(NUMBERS),
    st.sampled_from(NUMBERS[:7] + MISSING),
    st.sampled_from(WORDS[:2]),
    st.sampled_from(WORDS),
    st.sampled_from(WORDS + MISSING),
    st.sampled_from(["2024-01-31", "1999-12-01", ""]),
    st.floats(-1e6, 1e6).map(repr),
    st.datetimes().map(str),
    st.dates().map("{:%d.%m.%Y}".format),
    st.integers(-(10**7), 10**7).map(lambda cents: f"${cents / 100:,.2f}".replace("$-", "-$")),
    st.sampled_from(["$1.50", "$20", "", "NA", "-$0.75", "$1'250"]),
]


@dataclass(frozen=True)
class Dialect:
    delimiter: str
    decimal: str
    line_end: str
    encoding: str
    filling: str
    """A first cell of all rows: with a long one there are few rows in a block."""


DIALECTS = st.builds(
    Dialect,
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    decimal=st.sampled_from([".", ","]),
    line_end=st.sampled_from(["\n", "\r\n"]),
    encoding=st.sampled_from(["utf-8", "windows-1252"]),
    filling=st.sampled_from([400 * "z", 200 * "ü", 100 * "z ", "z"]),
).filter(lambda dialect: dialect.delimiter != "|" or dialect.encoding == "utf-8")
"""`|` is half of a letter in some encodings: a guess is made of whole lines, with quotes."""


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[list[str]], list[list[str]]]:
    """Records that repeat until there are two blocks, and others at the end of the last one."""
    columns = draw(st.lists(st.sampled_from(COLUMNS), min_size=2, max_size=5))
    row = st.tuples(*columns, st.sampled_from(LABELS[:4])).map(list)
    first = draw(st.lists(row, min_size=1, max_size=12))
    others = [*COLUMNS, st.just("late"), st.just("12,5"), st.just("1 2"), st.just("[1]")]
    strange = st.tuples(*[st.one_of(others)] * len(columns), st.sampled_from(LABELS)).map(list)
    blank = st.just([""] * (len(columns) + 1))
    last = draw(st.lists(st.one_of(row, strange, blank, row.map(lambda r: r[1:])), max_size=3))
    return first, last


def written(
    first: list[list[str]], last: list[list[str]], dialect: Dialect, *, quoted: bool
) -> bytes:
    """The table as a file. Cells are the same with quotes as without."""
    n_bytes = sum(len(";".join([dialect.filling, *cells])) + 1 for cells in first)
    table = first * (5 * SLICE_BYTES // (4 * n_bytes) + 1) + last
    mark, quote = dialect.delimiter, '"' if quoted else ""
    rows = [["filling", *(f"x{i}" for i in range(len(table[0]) - 1)), "y"]]
    rows += [[dialect.filling if any(cells) else "", *cells] for cells in table]
    if dialect.decimal == "," != mark:
        rows = [[cell.replace(".", ",") for cell in row] for row in rows]
    lines = [mark.join(quote + cell.replace(mark, "") + quote for cell in row) for row in rows]
    return (dialect.line_end.join(lines) + dialect.line_end).encode(dialect.encoding)


def outcome(content: bytes) -> Any:
    """What an upload gives: its description and the bytes of its arrays, or its error."""
    try:
        result = upload(content)
    except ServiceError as error:
        return type(error), error.code, error.detail, getattr(error, "faults", None)
    return asdict(result.parsed), {name: one.tobytes() for name, one in result.arrays.items()}


@settings(max_examples=15, deadline=None)
@given(tables(), DIALECTS)
def test_blocks_are_read_as_cells_one_by_one(
    table: tuple[list[list[str]], list[list[str]]], dialect: Dialect
) -> None:
    """Arrays, digest, kinds, `reading`, warnings and errors are equal to the bit."""
    at_once = outcome(written(*table, dialect, quoted=False))
    assert at_once == outcome(written(*table, dialect, quoted=True))


TEXTS = st.text(st.characters(exclude_characters=',"\n\r\0', codec="utf-8"), max_size=70)


@settings(deadline=None)
@given(st.lists(st.lists(st.tuples(TEXTS, st.sampled_from(WORDS)), min_size=1), max_size=4))
def test_codes_are_those_of_a_dictionary(blocks: list[list[tuple[str, str]]]) -> None:
    """Whatever the lengths of the texts, in whatever block they come first."""
    lookups, expected = [Lookup(), Lookup()], [Lookup(), Lookup()]
    coder = Coder(lookups)
    for rows in blocks:
        text = "".join(f"{a},{b}\n" for a, b in rows)
        cells = Cells.of(text, ",", 2)
        if cells is None:  # a row may be blank
            continue
        codes = coder.codes(cells, [0, 1], [0, 1])
        assert codes.tolist() == [[expected[j][row[j]] for j in (0, 1)] for row in rows]
        assert cells.texts([0, 1]) == {0: [a for a, _ in rows], 1: [b for _, b in rows]}
    assert lookups == expected
