"""What is wrong with the columns of a file, once all of them are decided."""

from __future__ import annotations

from collections.abc import Sequence

from service.errors import MAX_VALUE_CHARACTERS
from service.rows.cell_texts.levels import MAX_LEVELS
from service.rows.faults import Faults, refuse
from service.rows.kinds.decisions import Ambiguous, Ignored, Wrong
from service.rows.kinds.feature import Feature, Passes
from service.rows.kinds.locating import add_faults
from service.rows.kinds.roles import ColumnRoles


def add_wrong(
    features: Sequence[Feature], columns: ColumnRoles, passes: Passes, faults: Faults
) -> None:
    """Add each cell that does not fit the kind of its column."""
    wrong = {one.position: one.decision for one in features if isinstance(one.decision, Wrong)}
    if not wrong:
        return
    names = {position: columns.name(position) for position in wrong}
    for position, decision in wrong.items():
        if decision.kind == "category":
            message = f"the column {names[position]!r} has more than {MAX_LEVELS:,} levels"
            hint = "give it the role `ignored`"
            raise refuse("too-many-levels", message, column=names[position], hint=hint)
    gatherers = {one.position: one.gatherer for one in features}
    unnamed = columns.names is None
    done = 0
    for batch in passes(Faults()):
        add_faults(batch, done, wrong, gatherers, names, faults, unnamed)
        done += len(batch[0])


def refuse_undecided(features: Sequence[Feature], columns: ColumnRoles) -> None:
    """Raises InvalidContent for a column whose kind or numbers only the caller knows."""
    for feature in features:
        name, decision = columns.name(feature.position), feature.decision
        if isinstance(decision, Ambiguous):
            text, hint = decision.text[:MAX_VALUE_CHARACTERS], decision.hint
            message = f"column {name!r}: {text!r} may be {decision.readings}"
            raise refuse(decision.code, message, column=name, value=text, hint=hint)
        if isinstance(decision, Ignored) and feature.position in columns.wanted:
            message = f"column {name!r}: {decision.reason}"
            hint = "say its kind in `schema`: number, category, boolean or date"
            raise refuse("empty-data", message, column=name, hint=hint)
