"""Numbers in JSON lists, read by compiled code: Python's bits, or given up."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from service.rows.formats.number_lists import read_lists

DIGITS = st.text("0123456789", min_size=1, max_size=24)


def read(text: bytes, rows: int, n_features: int) -> np.ndarray | None:
    X = np.full((rows, n_features), 7.0)
    count, _ = read_lists(text, 0, X)
    return X[:count] if count else None


def bits(value: float) -> bytes:
    return struct.pack("d", value)


def check(texts: list[str], least: float) -> None:
    """Every number that is read has Python's bits; at least so large a share is read."""
    found = [read(f"[{text}]".encode(), 1, 1) for text in texts]
    taken = [(text, X[0, 0]) for text, X in zip(texts, found, strict=True) if X is not None]
    wrong = [text for text, value in taken if bits(value) != bits(float(text))]
    assert not wrong
    assert len(taken) >= least * len(texts)


def floats(generator: random.Random, count: int) -> Iterator[float]:
    """Normal float64 numbers, evenly among their bits."""
    for _ in range(count):
        exponent, sign = generator.randrange(1, 2046), generator.getrandbits(1)
        whole = sign << 63 | exponent << 52 | generator.getrandbits(52)
        yield struct.unpack("d", struct.pack("Q", whole))[0]


def test_shortest_forms_have_their_bits() -> None:
    check([repr(value) for value in floats(random.Random(1), 20_000)], 0.999)
    generator = np.random.default_rng(2)
    check([repr(value) for value in generator.normal(size=20_000).tolist()], 1.0)


def test_numbers_between_two_floats_are_rounded_as_by_python() -> None:
    """Decimal numbers right at, and beside, the middle of neighbors: 2^53 and more, odd halves."""
    generator = random.Random(3)
    texts = []
    for _ in range(5_000):
        middle = (generator.getrandbits(53) | 1 << 52) * 2 + 1
        shift = generator.randrange(0, 9)
        whole = middle << shift
        texts += [f"{whole + offset}.0" for offset in (-1, 0, 1)]
        texts += [f"{middle}e-{generator.randrange(1, 24)}", f"{middle / 4:.17g}"]
    texts = [text if "." in text or "e" in text else text + ".0" for text in texts]
    check(texts, 0.5)


@given(DIGITS, st.none() | DIGITS, st.none() | st.integers(-345, 345), st.booleans())
@settings(max_examples=500, deadline=None)
@example("0", "0000000000000000000000000012345678901234567", -5, True)
@example("9007199254740993", None, None, False)
@example("18446744073709551615", "9", None, False)
@example("1", "7976931348623157", 308, False)
@example("2", "2250738585072014", -308, False)
@example("4", "9", -324, False)
@example("0", "0", 345, True)
def test_any_number_has_the_bits_of_python_or_is_given_up(
    whole: str, fraction: str | None, power: int | None, negative: bool
) -> None:
    text = ("-" if negative else "") + whole
    text += "" if fraction is None else f".{fraction}"
    text += "" if power is None else f"e{power:+d}"
    found = read(f"[{text}]".encode(), 1, 1)
    if found is None:
        return
    assert len(whole) == 1 or whole[0] != "0"  # is no number in JSON
    # JSON's whole numbers are integers, of which -0 is 0.
    plain = fraction is None and power is None
    assert bits(found[0, 0]) == bits(float(int(text)) if plain else float(text))


@pytest.mark.parametrize(
    "text",
    [
        *("", "+1", "1.", ".5", "01", "-", "1e", "1e+", "1_0", "0x1", "NaN", "Infinity", "null"),
        *("1 2", "1e400", "-1e309", "1e-400", "true", '"1"', "1,2", "[1]", "1.5.2", "--1"),
    ],
)
def test_what_is_unusual_is_given_up(text: str) -> None:
    assert read(f"[{text}]".encode(), 1, 1) is None


def test_lists_end_where_they_end() -> None:
    text = b' [ [1,\t2.5e0 ] ,\n[-3 , 0.125]\r ] , "outputs": []}'
    X = np.empty((5, 2))
    count, end = read_lists(text, 3, X)
    assert (count, end) == (2, text.index(b"\r"))
    assert X[:2].tolist() == [[1.0, 2.5], [-3.0, 0.125]]
    # No more rows than there is room for.
    assert read_lists(text, 3, X[:1]) == (1, text.index(b" ,\n["))


@given(st.binary(max_size=60), st.integers(1, 3))
@settings(max_examples=300, deadline=None)
def test_nothing_beyond_the_text_is_read(text: bytes, n_features: int) -> None:
    """Whatever stands behind the end changes nothing."""
    whole = b"[" + text + b"}"
    outcomes = []
    for behind in (b"", b"1]", b"5", b"]", b",[1]"):
        memory = bytearray(whole + behind)
        view = memoryview(memory)[: len(whole)]
        X = np.zeros((4, n_features))
        outcomes.append((read_lists(bytes(view), 0, X), X.tobytes()))
        outcomes.append((read_lists(view, 0, X), X.tobytes()))  # type: ignore[arg-type]
    assert len(set(outcomes)) == 1
