"""Rows of JSON with texts, booleans, dates and nulls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from service.errors import MAX_FAULTS
from service.rows.cell_faults import ragged
from service.rows.faults import Faults, shown
from service.rows.kinds.building import Builder
from service.rows.kinds.feature import Batch, Passes
from service.rows.kinds.roles import arranged
from service.rows.spec import ParseSpec
from service.rows.table.writers import Table

PLACEHOLDER = None
"""The cells of a row that is wrong: the file is refused."""
LIST_HINT = "a single row is [[1, 2]], not [1, 2]"


def may_be_plain(spec: ParseSpec) -> bool:
    """Whether the data may be finite numbers and the caller demands no kinds or roles."""
    onto = spec.onto
    return not spec.asked.schema and not (onto and (onto.table or onto.weight or onto.ignored))


def build(
    spec: ParseSpec,
    n_cells: int,
    names: list[str] | None,
    passes: Passes,
    unnamed: list[int] | None = None,
) -> Table:
    """The table of cells with types. Those at `unnamed` are not kept. Raises ServiceError with
    every fault."""
    columns = arranged(spec, n_cells, names, unnamed)
    return Builder(spec, columns, passes, typed=True).build(comma_likely=False)


def batches_of_lists(rows: Iterator[list[Any]], n_cells: int, faults: Faults) -> Iterator[Batch]:
    """Rows that are lists, column by column; others are faults. Raises InvalidContent for the first
    one after a hundred of them."""
    done = 0
    for batch in rows:
        good = []
        for number, row in enumerate(batch, done + 1):
            if type(row) is not list:
                message = f"the row is {shown(row)}, not a list of numbers"
                faults.add("invalid-field", message, row=number, hint=LIST_HINT)
            elif len(row) != n_cells:
                faults.add(*ragged(len(row), n_cells), row=number)
            else:
                good.append(row)
                continue
            if faults.total > MAX_FAULTS:
                faults.check()
            good.append([PLACEHOLDER] * n_cells)
        done += len(batch)
        yield list(zip(*good, strict=True))
