"""JSON lists of numbers to an array, each number with the bits that Python's `float` gives it.

Eisel and Lemire's algorithm (Lemire, "Number parsing at a gigabyte per second", 2021): a decimal
number w · 10^q of at most 19 digits is one product of w with 128 bits of 5^q, of which the few
cases that leave the rounding open are told. Those are given up, like everything else unusual, and
the careful readers then read the body again. Importing this module imports Numba.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from svm.loops import compiled

exactly = partial(compiled, fastmath=())
"""-0.0 is not 0.0 here."""

U = np.uint64
ONE = U(1)
MOST_DIGITS = U(19)
"""So many fit into 64 bits."""
LEAST_POWER, LARGEST_POWER = -342, 308
"""Of ten; beyond them every number of 19 digits is 0 or infinite."""


def _powers_of_five() -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The upper and the lower half of the leading 128 bits of 5^q; rounded up where q < 0."""
    values = []
    for q in range(LEAST_POWER, LARGEST_POWER + 1):
        power = 5 ** abs(q)
        bits = power.bit_length()
        if q >= 0:
            values.append(power << 128 - bits if bits <= 128 else power >> bits - 128)
        else:
            values.append((1 << bits + 127) // power + 1)
    high = np.array([value >> 64 for value in values], dtype=np.uint64)
    low = np.array([value & 2**64 - 1 for value in values], dtype=np.uint64)
    return high, low


HIGH, LOW = _powers_of_five()
TEN = 10 ** np.arange(8, dtype=np.uint64)


def _eight_bytes(_: Any, array: Any, index: Any) -> Any:
    """array[index : index + 8] of a byte array as a number, the first byte being the lowest."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.gep(data, [arguments[1]])
        value = builder.load(builder.bitcast(place, ir.IntType(64).as_pointer()))
        value.align = 1
        return value

    return types.uint64(array, types.uint64), generate


def _upper_product(_: Any, a: Any, b: Any) -> Any:
    """The upper 64 of the 128 bits of a · b."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(argument, wide) for argument in arguments))
        return builder.trunc(builder.lshr(product, wide(64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


def _leading_zeros(_: Any, a: Any) -> Any:
    """Of a number that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.IntType(1)(1))

    return types.uint64(types.uint64), generate


def _trailing_zeros(_: Any, a: Any) -> Any:
    """Of a number that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.uint64(types.uint64), generate


def _of_bits(_: Any, a: Any) -> Any:
    """The float64 with these bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.uint64), generate


eight_bytes: Any = intrinsic(_eight_bytes)
upper_product: Any = intrinsic(_upper_product)
leading_zeros: Any = intrinsic(_leading_zeros)
trailing_zeros: Any = intrinsic(_trailing_zeros)
of_bits: Any = intrinsic(_of_bits)


@exactly
def _eight_digits(v: Any) -> Any:
    """The number that eight digits are, given as eight bytes of 0 … 9: pairs, fours, all."""
    v = v * U(10) + (v >> U(8))
    upper = (v & U(0x000000FF000000FF)) * U(0x000F424000000064)
    lower = ((v >> U(16)) & U(0x000000FF000000FF)) * U(0x0000271000000001)
    return ((upper + lower) >> U(32)) & U(0xFFFFFFFF)


@exactly
def _bits(w: Any, q: Any) -> Any:
    """The bits of the float64 next to w · 10^q, for w > 0; 0 where they are not certain, or the
    float64 is not a normal one."""
    if q < LEAST_POWER or q > LARGEST_POWER:
        return U(0)
    zeros = leading_zeros(w)
    w = w << zeros
    at = U(q - LEAST_POWER)
    upper, lower = upper_product(w, HIGH[at]), w * HIGH[at]
    if upper & U(0x1FF) == U(0x1FF):
        more = lower + upper_product(w, LOW[at])
        upper += U(more < lower)
        lower = more
        if lower == U(0xFFFFFFFFFFFFFFFF) and (q < -27 or q > 55):
            return U(0)
    carry = upper >> U(63)
    fraction = upper >> (carry + U(9))
    # 217706 / 2^16 is the logarithm of 10 to base 2, exact enough in this range.
    exponent = ((217706 * q) >> 16) + 1023 + 63 + np.int64(carry) - np.int64(zeros)
    if exponent <= 0 or exponent >= 2046:
        return U(0)
    # A number in the middle between two floats goes to the even one.
    halfway = lower <= ONE and q >= -4 and q <= 23 and fraction & U(3) == ONE
    if halfway and fraction << (carry + U(9)) == upper:
        fraction &= ~ONE
    fraction = (fraction + (fraction & ONE)) >> ONE
    # The leading bit, and a carry beyond it, count in the exponent.
    return fraction + (U(exponent - 1) << U(52))


@exactly
def _significant(text: Any, at: Any, digits: Any) -> Any:
    """How many of the `digits` of a number that begins at text[at] are no leading zeros."""
    while text[at] == 48 or text[at] == 46:
        digits -= U(text[at] == 48)
        at += ONE
    return digits


@exactly
def _blank(byte: Any) -> Any:
    """Whether it is white space in JSON."""
    return byte <= 32 and (byte == 32 or byte == 10 or byte == 13 or byte == 9)


@exactly
def _fraction(text: Any, at: Any, end: Any, w: Any) -> tuple[Any, Any]:
    """w with the digits from text[at] on behind its own, and the place behind them."""
    while at + U(8) <= end:
        eight = eight_bytes(text, at) ^ U(0x3030303030303030)
        others = (eight + U(0x7676767676767676) | eight) & U(0x8080808080808080)
        if others != U(0):
            # As many of them as are digits, behind zeros: without a branch on how many.
            bits = trailing_zeros(others) & U(0x38)
            eight = (eight << U(8)) << (U(56) - bits) if bits > U(0) else U(0)
            return w * TEN[bits >> U(3)] + _eight_digits(eight), at + (bits >> U(3))
        w = w * U(100000000) + _eight_digits(eight)
        at += U(8)
    digit = U(text[at]) - U(48)
    while digit < U(10):
        w = w * U(10) + digit
        at += ONE
        digit = U(text[at]) - U(48)
    return w, at


@exactly
def _number(text: Any, at: Any, end: Any) -> tuple[float, Any]:
    """The number at text[at] and the place behind it; the place 0 if it is unusual."""
    negative = U(text[at] == 45)
    at += negative
    first = at
    w = U(text[at]) - U(48)
    if w >= U(10):
        return 0.0, U(0)
    at += ONE
    digit = U(text[at]) - U(48)
    if digit < U(10):
        if w == U(0):
            return 0.0, U(0)
        while digit < U(10):
            w = w * U(10) + digit
            at += ONE
            digit = U(text[at]) - U(48)
    digits = at - first
    q: Any = 0
    whole = True
    if text[at] == 46:
        whole = False
        point = at + ONE
        w, at = _fraction(text, point, end, w)
        if at == point:
            return 0.0, U(0)
        digits += at - point
        q = -np.int64(at - point)
    if digits > MOST_DIGITS and _significant(text, first, digits) > MOST_DIGITS:
        return 0.0, U(0)
    if text[at] | 32 == 101:
        whole = False
        at += ONE
        falling = text[at] == 45
        at += U(falling or text[at] == 43)
        digit = U(text[at]) - U(48)
        if digit >= U(10):
            return 0.0, U(0)
        power: Any = 0
        while digit < U(10):
            power = min(power * 10 + np.int64(digit), 100000)
            at += ONE
            digit = U(text[at]) - U(48)
        q += -power if falling else power
    if whole:
        value = np.float64(w)
        return (0.0 - value if negative else value), at  # -0 is the whole number 0
    if w == U(0):
        return of_bits(negative << U(63)), at
    bits = _bits(w, q)
    return of_bits(bits | negative << U(63)), (at if bits else U(0))


def read_lists(text: bytes, start: int, out: NDArray[np.float64]) -> tuple[int, int]:
    """The lists `[…], […], …` into the rows of `out`, (n, d), each of d numbers.

    They begin at text[start]; the text ends with a bracket or a brace. Returns the number of rows
    and the place behind the bracket of the last one; (0, 0) for anything unusual, such as a list
    of another length.
    """
    characters = np.frombuffer(text, np.uint8)
    if type(text) is not bytes:  # compiled code is made for each type, also for writable arrays
        characters.flags.writeable = False
    rows, end = _read_lists(characters, start, out)
    return rows, end


def warm_up() -> None:
    """Compile, or load from the cache."""
    read_lists(b"[0.5]", 0, np.empty((1, 1)))


@exactly
def _read_lists(text: Any, start: int, out: Any) -> tuple[Any, Any]:
    """As `read_lists`; nothing beyond the last byte of `text`, uint8, is looked at."""
    end = U(len(text))
    at = U(start)
    n, d = out.shape
    for row in range(n):
        if text[at] != 91:
            return 0, 0
        at += ONE
        for column in range(d):
            while _blank(text[at]):
                at += ONE
            out[row, column], at = _number(text, at, end)
            if at == U(0):
                return 0, 0
            while _blank(text[at]):
                at += ONE
            if text[at] != (44 if column < d - 1 else 93):
                return 0, 0
            at += ONE
        behind = at
        while at < end and _blank(text[at]):
            at += ONE
        if at == end or text[at] != 44:
            return row + 1, np.int64(behind)
        at += ONE
        while _blank(text[at]):
            at += ONE
        if text[at] != 91:
            return row + 1, np.int64(behind)
    return n, np.int64(behind)
