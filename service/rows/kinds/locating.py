"""Where the cells are that do not fit the kind of their column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from service.rows.cell_faults import HEADER_HINT, fault_of_text
from service.rows.faults import Faults
from service.rows.kinds.deciding import Gatherer, Wrong
from service.rows.kinds.gathering import ValueColumn
from service.rows.number_text import BLANKS

NUMBER_HINT = (
    "correct the cell; if the word means missing, name it in `missing`; "
    "if the column is a category, say so in `schema`"
)


def add_faults(
    batch: Sequence[Sequence[str]],
    done: int,
    wrong: Mapping[int, Wrong],
    gatherers: Mapping[int, Gatherer],
    names: Mapping[int, str | int],
    faults: Faults,
    unnamed: bool,
) -> None:
    """Add each wrong cell of some rows, `done` rows before them."""
    found = []
    for position, decision in wrong.items():
        gatherer = gatherers[position]
        for row, cell in enumerate(batch[position], done + 1):
            text = cell.strip(BLANKS)
            if text in gatherer.words:
                continue
            if decision.texts is not None:
                bad = text in decision.texts
            else:
                assert isinstance(gatherer, ValueColumn)
                bad = gatherer.value(text) is None
            if bad:
                found.append((row, position, cell, decision.kind))
    for row, position, cell, kind in sorted(found):
        hint = HEADER_HINT if unnamed and row == 1 else NUMBER_HINT
        fault = fault_of_text(cell, hint)
        if kind == "number" and fault is not None:
            faults.add(*fault, row=row, column=names[position])
        else:
            code = "not-a-number"
            faults.add(code, f"is not a {kind}", cell, hint, row=row, column=names[position])
