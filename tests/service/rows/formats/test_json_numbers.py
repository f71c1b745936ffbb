"""Numbers in JSON: every reader gives Python's bits, or gives up."""

from __future__ import annotations

import json
import random
import struct

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.rows.columns import Columns
from service.rows.json_reading.numbers import (
    PIECE_BYTES,
    read_any_document,
    read_any_lines,
    read_document,
    read_list,
    read_lists,
)

DIGITS = st.text("0123456789", min_size=1, max_size=24)
NAMES = ["a", "b:c"]


def python_bits(text: str) -> bytes:
    """JSON's whole numbers are integers, of which -0 is 0."""
    whole = text.lstrip("-").isdigit()
    return struct.pack("d", float(int(text)) if whole else float(text))


def check(texts: list[str]) -> None:
    """Both readers give these numbers Python's bits."""
    expected = b"".join(map(python_bits, texts))
    rows = f"[[{','.join(texts)}]]".encode()
    X = read_lists(rows, len(texts))
    assert X is not None
    assert X.tobytes() == expected
    found = read_any_document(b'{"instances": %b}' % rows, Columns(len(texts)))
    assert found is not None
    assert found[0].tobytes() == expected


def test_numbers_have_their_bits() -> None:
    """Random bits, numbers of 17 digits, and numbers in the middle between two neighbors."""
    generator = random.Random(1)
    texts = []
    for _ in range(20_000):
        exponent, sign = generator.randrange(1, 2046), generator.getrandbits(1)
        bits = sign << 63 | exponent << 52 | generator.getrandbits(52)
        texts.append(repr(struct.unpack("d", struct.pack("Q", bits))[0]))
        digits = generator.randrange(10**16, 10**17)
        texts.append(f"{digits}e{generator.randrange(-300, 290)}")
        middle = (generator.getrandbits(53) | 1 << 52) * 2 + 1
        texts += [f"{(middle << generator.randrange(9)) + offset}.0" for offset in (-1, 0, 1)]
        texts.append(f"{middle}e-{generator.randrange(1, 24)}")
        texts.append(str(generator.getrandbits(64)))
    check(texts)


@given(DIGITS, st.none() | DIGITS, st.none() | st.integers(-345, 345), st.booleans())
@settings(max_examples=500, deadline=None)
@example("0", None, None, True)
@example("0", "0", None, True)
@example("0", "0000000000000000000000000012345678901234567", -5, True)
@example("9007199254740993", None, None, False)
@example("18446744073709551615", None, None, False)
@example("123456789012345678901", None, None, False)
@example("1", "7976931348623157", 308, False)
@example("4", "9", -324, False)
def test_any_number_has_the_bits_of_python_or_is_given_up(
    whole: str, fraction: str | None, power: int | None, negative: bool
) -> None:
    text = ("-" if negative else "") + whole
    text += "" if fraction is None else f".{fraction}"
    text += "" if power is None else f"e{power:+d}"
    rows = f"[[{text}]]".encode()
    for X in (
        read_lists(rows, 1),
        (read_any_document(b'{"instances": %b}' % rows, Columns(1)) or [None])[0],
    ):
        if X is not None:
            assert len(whole) == 1 or whole[0] != "0"  # is not a number in JSON
            assert X.tobytes() == python_bits(text)


@pytest.mark.parametrize(
    "row",
    [
        *("", "+1", "1.", ".5", "01", "-", "1e", "1e+", "1_0", "0x1", "NaN", "Infinity", "null"),
        *("1 2", "1e400", "-1e309", '"1"', "1,2", "[1]", "1.5.2", "--1", '{"a": 1}', "[]", "1]"),
    ],
)
def test_a_row_of_anything_else_is_given_up(row: str) -> None:
    """Nothing but one number is a row of one feature."""
    assert read_lists(f"[[{row}]]".encode(), 1) is None
    assert read_any_document(b'{"instances": [[%b]]}' % row.encode(), Columns(1)) is None


@pytest.mark.parametrize(
    "rows",
    ["[[1,[2]],[3,4]]", "[[1,2,3],[4]]", "[[1,[]],[3,[4,5]]]", "[1,2]", "[]", "[[]]", '["ab"]'],
)
def test_lists_of_another_shape_are_given_up(rows: str) -> None:
    """As many numbers as there should be are not enough."""
    for text in (rows, f'{{"instances": {rows}}}'):
        assert read_lists(text.encode(), 2) is None
        assert read_document(text.encode(), 2) is None
        assert read_any_document(text.encode(), Columns(2)) is None


@pytest.mark.parametrize(
    "body",
    [
        b'{"instances": [[1, 2]], "instances": [[1, 2]]}',
        b'{"instances": [[1, 2]], "outputs": [], "outputs": []}',
        b'{"instances": [[1, 2]], "in\\u0073tances": [[1, 2]]}',
        b'{"instances": [{"a": 1, "a": 1, "b:c": 2}]}',
        b'{"instances": [{"a": 1, "b:c": 2, "b\\u003ac": 2}]}',
        b'{"instances": [{"a": 1, "b": 2}]}',
        b'{"instances": [{"a": 1}]}',
        b'{"instances": [{"a": 1, "b:c": null}]}',
    ],
    ids=str,
)
def test_names_that_come_twice_or_are_others_are_given_up(body: bytes) -> None:
    """The first or the last value would win."""
    assert read_document(body, 2) is None
    assert read_any_document(body, Columns(2, NAMES)) is None


def test_objects_and_booleans_are_read() -> None:
    """In any order, and among lists; true is 1."""
    rows = [{"b:c": 2, "a": 1}, [3, True], {"a": False, "b:c": 1e300}]
    expected = [[1, 2], [3, 1], [0, 1e300]]
    found = read_any_document(
        json.dumps({"outputs": [], "instances": rows}).encode(), Columns(2, NAMES)
    )
    assert found is not None
    assert found[0].dtype == np.float64
    assert (found[0].tolist(), found[1]) == (expected, {"outputs": []})
    X = read_any_lines([json.dumps(row).encode() for row in rows], Columns(2, NAMES))
    assert X is not None
    assert X[0].tolist() == expected


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("first", [True, False])
def test_long_texts_are_read_in_pieces(indent: int | None, first: bool) -> None:
    """The other members may be in front or behind."""
    values = np.random.default_rng(0).normal(size=(3 * PIECE_BYTES // 60, 3))
    document = {"instances": values.tolist()}
    outputs = {"outputs": ["label"]}
    body = json.dumps(outputs | document if first else document | outputs, indent=indent).encode()
    found = read_document(body, 3)
    assert found is not None
    assert found[1] == outputs
    assert found[0].tobytes() == values.tobytes()
    text = json.dumps(document["instances"], indent=indent).encode()
    X = read_lists(text, 3)
    assert X is not None
    assert X.tobytes() == values.tobytes()
    flat = read_list(json.dumps(values.ravel().tolist(), indent=indent).encode())
    assert flat is not None
    assert flat.tobytes() == values.tobytes()


@pytest.mark.parametrize(
    "tail",
    [
        b', "instances": [[1, 2, 3]]}',
        b', "outputs": ["label"], "outputs": ["label"]}',
        b"]}",
        b"",
        b', "outputs": [[1, 2, 3]]}',
        b"} x",
    ],
)
def test_a_long_text_is_one_document(tail: bytes) -> None:
    """What no piece shows alone is given up, too: names that come twice, or a wrong end."""
    rows = b",".join([b"[0.1234567890123456, 2, 3]"] * (PIECE_BYTES // 20))
    assert read_document(b'{"instances": [%b]}' % rows, 3) is not None
    assert read_document(b'{"outputs": [], "instances": [%b]%b' % (rows, tail), 3) is None


@pytest.mark.parametrize("first", [True, False])
def test_long_texts_of_objects_are_read_in_pieces(first: bool) -> None:
    """Among lists; names that are not of features are those of all pieces, in their order."""
    values = np.random.default_rng(0).normal(size=(PIECE_BYTES // 20, 2)).tolist()
    rows = [{"b:c": b, "x": "[,]", "a": a} if i % 2 else [a, b] for i, (a, b) in enumerate(values)]
    rows[-1] = {"y": None, "a": values[-1][0], "b:c": values[-1][1]}
    document, outputs = {"instances": rows}, {"outputs": ["label"]}
    body = json.dumps(outputs | document if first else document | outputs).encode()
    assert len(body) > 2 * PIECE_BYTES
    read = read_any_document(body, Columns(2, NAMES))
    assert read is not None
    assert (read[0].tolist(), read[1], read[2]) == (values, outputs, ("x", "y"))
    lines = read_any_lines([json.dumps(row).encode() for row in rows], Columns(2, NAMES))
    assert lines is not None
    assert (lines[0].tolist(), lines[1]) == (values, ("x", "y"))


@pytest.mark.parametrize(
    "tail",
    [
        b', "instances": [{"a": 1, "b:c": 2}]}',
        b', "outputs": ["label"], "outputs": ["label"]}',
        b', "outputs": ["label"]}',
        b"]}",
        b"",
        b"} x",
    ],
)
def test_a_long_text_of_objects_is_one_document(tail: bytes) -> None:
    """Names that come twice, in one piece or in two, and a wrong end are given up."""
    rows = b",".join([b'{"a": 0.1234567890123456, "b:c": 2}'] * (PIECE_BYTES // 20))
    columns = Columns(2, NAMES)
    assert read_any_document(b'{"instances": [%b]}' % rows, columns) is not None
    assert read_any_document(b'{"outputs": [], "instances": [%b]%b' % (rows, tail), columns) is None


def test_the_parser_is_free_after_what_is_given_up() -> None:
    """It refuses a text as long as anything refers to the one before."""
    for _ in range(3):
        assert read_document(b'{"instances": [[1, "x"]]}', 2) is None
        assert read_document(b'{"instances": [[1, 2]], "x": {}}', 2) is None
        assert read_document(b'{"instances": [[1, 2]]}', 2) is not None
