"""Where the cells are that do not fit the kind of their column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.rows.cell_faults import (
    HEADER_HINT,
    QUOTES_HINT,
    CellFault,
    fault_of_text,
    fault_of_value,
)
from service.rows.cell_texts.number_text import BLANKS, is_value
from service.rows.faults import Faults
from service.rows.kinds.decisions import Gatherer, Wrong
from service.rows.kinds.feature import Batch
from service.rows.kinds.gathering import TextColumn, ValueColumn
from service.rows.kinds.typed import TypedColumn

NUMBER_HINT = (
    "correct the cell; if the word means missing, name it in `missing`; "
    "if the column is a category, say so in `schema`"
)

TYPED_HINT = (
    "all cells of a column are of one type, or null; "
    "if the column is a category, say so in `schema`"
)
UNITS_HINT = (
    "write all numbers of a column with the same unit, or without; "
    "if the column is a category, say so in `schema`"
)
_CODES = {"number": "not-a-number", "boolean": "not-a-boolean", "date": "not-a-date"}


def add_faults(
    batch: Batch,
    done: int,
    wrong: Mapping[int, Wrong],
    gatherers: Mapping[int, Gatherer],
    names: Mapping[int, str | int],
    faults: Faults,
    unnamed: bool,
) -> None:
    """Add each wrong cell of some rows, `done` rows before them."""
    wrong_cells: list[tuple[int, int, CellFault]] = []
    for position, decision in wrong.items():
        gatherer = gatherers[position]
        for row, cell in enumerate(batch[position], done + 1):
            if isinstance(gatherer, TypedColumn):
                if gatherer.is_wrong(cell) or _is_wrong_text(cell, decision):
                    wrong_cells.append((row, position, _fault_of_value(cell, decision)))
            elif _is_wrong(cell.strip(BLANKS), decision, gatherer):
                hint = HEADER_HINT if unnamed and row == 1 else NUMBER_HINT
                wrong_cells.append((row, position, _fault_of_text(cell, decision, hint)))
    for row, position, fault in sorted(wrong_cells, key=lambda place: place[:2]):
        faults.add(*fault, row=row, column=names[position])


def _is_wrong_text(cell: Any, decision: Wrong) -> bool:
    if decision.texts is None or not isinstance(cell, str):
        return False
    return cell.strip(BLANKS) in decision.texts


def _is_wrong(text: str, decision: Wrong, gatherer: ValueColumn | TextColumn) -> bool:
    if text in gatherer.words:
        return False
    if decision.texts is not None:
        return text in decision.texts
    assert isinstance(gatherer, ValueColumn)
    return gatherer.value(text) is None


def _fault_of_text(cell: str, decision: Wrong, hint: str) -> CellFault:
    if decision.other_units:
        return CellFault("not-a-number", "has another unit than other cells", cell, UNITS_HINT)
    fault = fault_of_text(cell, hint) if decision.kind == "number" else None
    return fault or CellFault(_CODES[decision.kind], f"is not a {decision.kind}", cell, hint)


def _fault_of_value(cell: Any, decision: Wrong) -> CellFault:
    fault = fault_of_value(cell) if decision.kind == "number" else None
    if fault is not None and fault.hint == QUOTES_HINT and not is_value(str(cell)):
        fault = fault._replace(hint=TYPED_HINT)
    return fault or CellFault(
        _CODES.get(decision.kind, "invalid-field"),
        f"is not a {decision.kind}",
        str(cell)[:64],
        TYPED_HINT,
    )
