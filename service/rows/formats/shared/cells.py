"""Lines of numbers as a matrix: at once, or cell by cell to say what is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

import numpy as np
import numpy.typing as npt

from service.rows.cell_faults import HEADER_HINT, HINT, CellFault, fault_of_text, ragged
from service.rows.cell_texts.number_text import BLANKS, BOOLEANS
from service.rows.faults import Faults
from service.rows.json_reading.numbers import read_lists
from service.rows.table.layout import Layout


def matrix(
    lines: list[str], delimiter: str, n_columns: int, cell_bytes: int
) -> npt.NDArray[np.float64] | None:
    """(lines, n_columns) finite numbers, or None if some cell must be looked at closely.

    The cells hold neither quotes nor line ends. Lines of plain numbers are JSON but for brackets.
    """
    text = "\n".join(lines)
    if delimiter != ",":
        if "," in text:
            return None
        text = text.replace(delimiter, ",")
    if "[" in text or has_long_cell(text, ",", cell_bytes):
        return None
    listed = b"[[%b]]" % text.replace("\n", "],[").encode()
    X = read_lists(listed, n_columns)
    return X if X is not None and len(X) == len(lines) and np.isfinite(X).all() else None


def examine(
    records: Iterable[list[str]], layout: Layout, first_row: int, cell_bytes: int, faults: Faults
) -> list[list[float]]:
    """The numbers of records; every fault among them is added to `faults`."""
    numbers = []
    columns = [layout.column(i) for i in range(layout.n_cells) if i != layout.target]
    for row, cells in enumerate(records, first_row):
        if len(cells) != layout.n_cells:
            faults.add(*ragged(len(cells), layout.n_cells), row=row)
            continue
        if layout.target is not None:
            cells.pop(layout.target)
        try:
            values = [float(cell) for cell in cells]
        except ValueError:
            values = _with_booleans(cells)
        # float() also takes 1_000, digits of other scripts, and nan.
        plain = "".join(cells)
        if (
            values
            and plain.isascii()
            and "_" not in plain
            and all(map(isfinite, values))
            and (len(plain) <= cell_bytes or max(map(len, cells)) <= cell_bytes)
        ):
            numbers.append(values)
            continue
        unnamed = row == 1 and layout.names is None
        for column, cell in zip(columns, cells, strict=True):
            _examine_cell(cell, row, column, cell_bytes, faults, HEADER_HINT if unnamed else HINT)
    return numbers


def _with_booleans(cells: list[str]) -> list[float]:
    """The numbers of a row, nothing if some cell is neither a number nor a boolean."""
    texts = [cell.strip(BLANKS) for cell in cells]
    try:
        return [BOOLEANS[text] if text in BOOLEANS else float(text) for text in texts]
    except ValueError:
        return []


def _examine_cell(
    cell: str, row: int, column: str | int, cell_bytes: int, faults: Faults, hint: str
) -> None:
    fault = fault_of_text(cell, hint)
    if len(cell) > cell_bytes:
        message = f"has more than {cell_bytes:,} characters"
        hint = "a number needs no more; is a delimiter or a quote missing?"
        fault = CellFault("csv-cell-too-large", message, cell, hint)
    if fault is not None:
        faults.add(*fault, row=row, column=column)


def has_long_cell(text: str, delimiter: str, cell_bytes: int) -> bool:
    """Whether a cell may be longer; such a cell covers a stretch of half its length."""
    step = max(1, cell_bytes // 2)
    for start in range(0, len(text) - step + 1, step):
        stretch = text[start : start + step]
        if delimiter not in stretch and "\n" not in stretch:
            return True
    return False
