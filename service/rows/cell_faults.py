"""What is wrong with a cell: the same words and hints in every format."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from service.rows.cell_texts.number_text import BLANKS, BOOLEANS, NUMBER, is_not_finite, number_hint
from service.rows.faults import Faults, shown

HINT = "remove the row, or give a number"
HEADER_HINT = "if the first line names the columns, say header=present"
RANGE_HINT = "numbers reach up to 1.8e308"
QUOTES_HINT = "send numbers or booleans, without quotes"
MISSING_HINT = "the model was trained without missing cells in such columns: give a value"
FREE_TEXT_HINT = "correct the text, or leave the cell empty"
NUMBERS = {int, float, bool}
"""Types of a feature in JSON: true and false are 1 and 0."""


class CellFault(NamedTuple):
    """`Faults.add` takes it, with the place."""

    code: str
    message: str
    value: str | None
    hint: str


def fault_of_text(cell: str, hint: str = HINT) -> CellFault | None:
    """What is wrong with a cell of a text file; None for a number or a boolean."""
    text = cell.strip(BLANKS)
    if not text:
        return CellFault("missing-value", "the cell is empty", None, hint)
    if text in BOOLEANS:
        return None
    if NUMBER.fullmatch(text):
        if isfinite(float(text)):
            return None
        return CellFault("non-finite-value", "is too large to be finite", cell, RANGE_HINT)
    if is_not_finite(text):
        return CellFault("non-finite-value", "is not finite", cell, hint)
    return CellFault("not-a-number", "is not a number", cell, number_hint(text) or hint)


def fault_of_free_text(text: str, longest: float = inf) -> CellFault | None:
    """What is wrong with a text of a column of texts, of at most `longest` bytes."""
    if "\0" in text:
        return CellFault("invalid-field", "has a NUL character", text, FREE_TEXT_HINT)
    if 4 * len(text) > longest and len(text.encode()) > longest:
        message = f"has more than {longest:,} bytes"
        return CellFault("csv-cell-too-large", message, text, FREE_TEXT_HINT)
    return None


def fault_of_value(value: Any) -> CellFault | None:
    """The same of a value in JSON."""
    if value is None:
        return CellFault("missing-value", "the value is null", "null", HINT)
    if type(value) not in NUMBERS:
        text = value if isinstance(value, str) else json.dumps(value)
        if is_not_finite(text.strip(BLANKS)):
            return CellFault("non-finite-value", "is not finite", text, HINT)
        hint = number_hint(text) or QUOTES_HINT
        return CellFault("not-a-number", "is not a number", text, hint)
    try:
        if isfinite(value):
            return None
    except OverflowError:  # an integer beyond float64
        pass
    text = "1e999" if value > 0 else "-1e999"
    return CellFault("non-finite-value", "is too large to be finite", text, RANGE_HINT)


def missing_fault(cell: str | None) -> CellFault:
    """What is wrong with a missing cell of a row to predict that is refused: None is null."""
    what = "the value is null" if cell is None else "the cell is empty"
    if cell is not None and cell.strip(BLANKS):
        what = f"{shown(cell)} is a word for a missing cell"
    return CellFault("missing-value", what, cell, MISSING_HINT)


def ragged(got: int, expected: int) -> CellFault:
    """The fault of a row of another width."""
    message = f"the row has {got} values, {expected} are expected"
    return CellFault("ragged-row", message, None, "give one value for each column")


def add_not_finite(
    X: NDArray[Any], column: Callable[[int], str | int], first_row: int, faults: Faults
) -> None:
    """Every number of X (rows, n_features) that is not finite."""
    for i, j in np.argwhere(~np.isfinite(X)):
        fault = CellFault("non-finite-value", "is not finite", str(X[i, j]), HINT)
        faults.add(*fault, row=first_row + int(i), column=column(int(j)))


def refuse_missing(
    X: NDArray[Any], missing: NDArray[np.bool_], column: Callable[[int], str | int]
) -> None:
    """Raises InvalidContent with every number of X (rows, n_features) that is a missing cell."""
    faults = Faults()
    for i, j in np.argwhere(missing).tolist():
        faults.add(*missing_fault(f"{X[i, j]:g}"), row=i + 1, column=column(j))
    faults.check()
