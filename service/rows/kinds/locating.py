"""What is wrong with the columns of a file, once all of them are decided, and where."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from service.errors import MAX_VALUE_CHARACTERS
from service.rows.cell_faults import (
    HEADER_HINT,
    QUOTES_HINT,
    CellFault,
    fault_of_text,
    fault_of_value,
)
from service.rows.cell_texts.number_text import MAX_LEVELS, is_value
from service.rows.faults import Faults, called, refuse
from service.rows.kinds.feature import Ambiguous, Feature, Ignored, Passes, Wrong, texts_of
from service.rows.kinds.free_texts import FreeTexts
from service.rows.table.layout import Layout

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


def add_wrong(features: Sequence[Feature], columns: Layout, passes: Passes, faults: Faults) -> None:
    """Add each cell that does not fit the kind of its column."""
    wrong = [(one, one.decision) for one in features if isinstance(one.decision, Wrong)]
    if not wrong:
        return
    for one, decision in wrong:
        if decision.kind == "category":
            column = columns.column(one.position)
            message = f"the column {called(column)} has more than {MAX_LEVELS:,} levels"
            hint = "give it the role `ignored`"
            raise refuse("too-many-levels", message, column=column, hint=hint)
    done = 0
    for batch in passes(Faults(), texts_of(features)):
        wrong_cells = [
            (row, one.position, _fault(cell, row, one, decision, columns))
            for one, decision in wrong
            for row, cell in enumerate(batch[one.position], done + 1)
            if one.gatherer.is_wrong(cell, decision.texts)
        ]
        for row, position, fault in sorted(wrong_cells, key=itemgetter(0, 1)):
            faults.add(*fault, row=row, column=columns.column(position))
        done += len(batch[0])


def refuse_undecided(features: Sequence[Feature], columns: Layout) -> None:
    """Raises InvalidContent for a column whose kind or numbers only the caller knows."""
    for feature in features:
        name, decision = columns.column(feature.position), feature.decision
        if isinstance(decision, Ambiguous):
            text, hint = decision.text[:MAX_VALUE_CHARACTERS], decision.hint
            message = f"column {called(name)}: {text!r} may be {decision.readings}"
            raise refuse(decision.code, message, column=name, value=text, hint=hint)
        if isinstance(decision, Ignored) and feature.position in columns.wanted:
            message = f"column {called(name)}: {decision.reason}"
            hint = "say its kind in `schema`: number, category, boolean, date or text"
            raise refuse("empty-data", message, column=name, hint=hint)


def _fault(cell: Any, row: int, feature: Feature, decision: Wrong, columns: Layout) -> CellFault:
    """What is wrong with a cell of a column."""
    if isinstance(feature.gatherer, FreeTexts):
        wrong = feature.gatherer.fault(cell)
        assert wrong is not None, "else the cell is not looked at"
        return wrong
    unnamed, fault, text = columns.names is None, None, cell
    hint = HEADER_HINT if unnamed and row == 1 else NUMBER_HINT
    if feature.gatherer.typed:
        text, hint = str(cell)[:64], TYPED_HINT
        fault = fault_of_value(cell) if decision.kind == "number" else None
        if fault is not None and fault.hint == QUOTES_HINT and not is_value(str(cell)):
            fault = fault._replace(hint=TYPED_HINT)
    elif decision.other_units:
        fault = CellFault("not-a-number", "has another unit than other cells", cell, UNITS_HINT)
    elif decision.kind == "number":
        fault = fault_of_text(cell, hint)
    code = _CODES.get(decision.kind, "invalid-field")
    fault = fault or CellFault(code, f"is not a {decision.kind}", text, hint)
    if unnamed and fault.hint.endswith("`schema`"):
        fault = fault._replace(hint=f'{fault.hint}, where its name is "{feature.position}"')
    return fault
