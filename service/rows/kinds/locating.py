"""What is wrong with the columns of a file, once all of them are decided, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from service.rows.kinds.feature import Ambiguous, Batch, Feature, Gatherer, Ignored, Passes, Wrong
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
    wrong = {one.position: one.decision for one in features if isinstance(one.decision, Wrong)}
    if not wrong:
        return
    names = {position: columns.column(position) for position in wrong}
    for position, decision in wrong.items():
        if decision.kind == "category":
            message = f"the column {called(names[position])} has more than {MAX_LEVELS:,} levels"
            hint = "give it the role `ignored`"
            raise refuse("too-many-levels", message, column=names[position], hint=hint)
    gatherers = {one.position: one.gatherer for one in features}
    unnamed = columns.names is None
    done = 0
    for batch in passes(Faults()):
        _add_faults(batch, done, wrong, gatherers, names, faults, unnamed)
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
            hint = "say its kind in `schema`: number, category, boolean or date"
            raise refuse("empty-data", message, column=name, hint=hint)


def _add_faults(
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
            if gatherer.is_wrong(cell, decision.texts):
                hint = HEADER_HINT if unnamed and row == 1 else NUMBER_HINT
                fault = (
                    _fault_of_value(cell, decision)
                    if gatherer.typed
                    else _fault_of_text(cell, decision, hint)
                )
                if unnamed and fault.hint.endswith("`schema`"):
                    fault = fault._replace(hint=f'{fault.hint}, where its name is "{position}"')
                wrong_cells.append((row, position, fault))
    for row, position, fault in sorted(wrong_cells, key=lambda place: place[:2]):
        faults.add(*fault, row=row, column=names[position])


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
