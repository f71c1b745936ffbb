"""Lines of numbers as a matrix: at once by DuckDB, or cell by cell to say what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from math import isfinite

import numpy as np
import numpy.typing as npt

from service.datasets.parsing.faults import Faults
from service.datasets.parsing.labels import NOT_FINITE, NUMBER
from service.datasets.parsing.layout import Layout
from service.storage.sealed import connect

HINT = "nothing is imputed: remove the row, or give a number"
HEADER_HINT = "if the first line names the columns, say header=present"

# One column of numbers: a result of d columns takes 2048 x d values at the least, 300 MB for the
# widest files. Lines with another number of cells yield nothing, so the length of the result shows
# them. Not `read_csv`: it gives no rows before it has read all, and slips in counting lines.
_QUERY = """
SELECT try_cast(unnest(cells) AS DOUBLE) AS number
FROM (SELECT string_split(line, $2) AS cells
      FROM (SELECT unnest(string_split($1, chr(10))) AS line))
WHERE len(cells) = $3
"""
_DIGIT_GROUPS = re.compile("[0-9]_[0-9]")


_connection = cache(connect)


def matrix(
    lines: list[str], delimiter: str, n_columns: int, cell_bytes: int
) -> npt.NDArray[np.float64] | None:
    """(lines, n_columns) finite numbers, or None where some cell must be looked at closely.

    The cells hold neither quotes nor line ends.
    """
    text = "\n".join(lines)
    # DuckDB takes 1_000 as a number.
    if "_" in text or _has_long_cell(text, delimiter, cell_bytes):
        return None
    result = _connection().execute(_QUERY, [text, delimiter, n_columns]).fetchnumpy()["number"]
    if isinstance(result, np.ma.MaskedArray):
        if np.ma.is_masked(result):
            return None
        result = result.data
    if len(result) != len(lines) * n_columns or not np.isfinite(result).all():
        return None
    numbers: npt.NDArray[np.float64] = result.reshape(len(lines), n_columns)
    return numbers


def examine(
    records: Iterable[list[str]], layout: Layout, first_row: int, cell_bytes: int, faults: Faults
) -> list[list[float]]:
    """The numbers of records; every fault among them is added to `faults`."""
    numbers = []
    columns = [layout.column(i) for i in range(layout.n_cells) if i != layout.target]
    for row, cells in enumerate(records, first_row):
        if len(cells) != layout.n_cells:
            faults.add(
                "ragged-row",
                f"{len(cells)} cells where {layout.n_cells} are expected",
                row=row,
                hint="give one cell for each column",
            )
            continue
        if layout.target is not None:
            cells.pop(layout.target)
        try:
            values = [float(cell) for cell in cells]
        except ValueError:
            values = []
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


def _examine_cell(
    cell: str, row: int, column: str | int, cell_bytes: int, faults: Faults, hint: str
) -> None:
    text = cell.strip(" \t")
    if len(cell) > cell_bytes:
        code, message = "csv-cell-too-large", f"has more than {cell_bytes:,} characters"
        hint = "a number needs no more; is a delimiter or a quote missing?"
    elif not text:
        faults.add("missing-value", "the cell is empty", row=row, column=column, hint=hint)
        return
    elif NUMBER.fullmatch(text):
        if isfinite(float(text)):
            return
        code, message = "non-finite-value", "is too large to be finite"
    elif text.lower().lstrip("+-") in NOT_FINITE:
        code, message = "non-finite-value", "is not finite"
    else:
        code, message = "not-a-number", "is not a number"
        if re.fullmatch(r"[+-]?[0-9]+,[0-9]+", text):
            hint = "write a decimal point instead of the comma"
        elif _DIGIT_GROUPS.search(text):
            hint = "write the digits without _"
    faults.add(code, message, row=row, column=column, value=cell, hint=hint)


def _has_long_cell(text: str, delimiter: str, cell_bytes: int) -> bool:
    """Whether a cell may be longer; such a cell covers a stretch of half its length."""
    step = max(1, cell_bytes // 2)
    for start in range(0, len(text) - step + 1, step):
        stretch = text[start : start + step]
        if delimiter not in stretch and "\n" not in stretch:
            return True
    return False
