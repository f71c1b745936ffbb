"""The digits of texts that have one shape: what reads one of them reads all at once.

A shape is a text with a 9 for each digit: `$1.50` and `$7.25` have the shape `$9.99`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

Digits: TypeAlias = npt.NDArray[np.uint8]
"""(texts, digits of each), from 0 to 9."""
Numbers: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = npt.NDArray[np.float64]

NINES = str.maketrans("012345678", "9" * 9)
NINES_OF_BYTES = bytes.maketrans(b"012345678", b"9" * 9)
MOST_DIGITS = 15
"""Of a number that float64 holds whatever they are."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Reads all texts of a shape."""

    shape: str
    read: Callable[[Digits], Values]
    """The values of texts, NaN for one that has to be read alone."""


class Form(Protocol):
    """How the texts of a column are written."""

    def value(self, text: str, /) -> float | None:
        """The value of a text; None if it is not written so."""

    def plan(self, shape: str, /) -> Plan | None:
        """What reads all texts of a shape; None if each is read alone."""


def number_of(digits: Digits) -> Numbers:
    """The whole numbers that digits make, the first one being the highest."""
    powers = 10 ** np.arange(digits.shape[1] - 1, -1, -1, dtype=np.int64)
    number: Numbers = digits @ powers
    return number
