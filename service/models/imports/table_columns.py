"""Checks the columns of an imported model of a table."""

from __future__ import annotations

from service.models.imports.parts import invalid
from service.rows.cell_texts.number_text import MAX_LEVELS, MAX_LEVELS_IN_ALL, in_order
from service.settings import Limits
from svm.data.columns import Column, Columns

PART = "columns"


def check_table(table: Columns, names: list[str] | None, limits: Limits) -> None:
    """Raises InvalidContent (`invalid-model`) for what our own training does not make."""
    own = [column.name for column in table]
    if names is not None and names != own:
        raise invalid("their names are not those of the document's `columns`", PART)
    if len(set(own)) < len(own):
        raise invalid("a name comes twice", PART)
    if sum(len(column.levels) for column in table) > MAX_LEVELS_IN_ALL:
        raise invalid(f"they have more than {MAX_LEVELS_IN_ALL:,} levels", PART)
    for column in table:
        _check_levels(column, limits)


def _check_levels(column: Column, limits: Limits) -> None:
    levels = column.levels
    if column.kind != "category":
        if levels:
            raise invalid("only a category has levels", PART)
        return
    if len(levels) > MAX_LEVELS:
        raise invalid(f"a category has more than {MAX_LEVELS:,} levels", PART)
    if any(not level or level != level.strip() for level in levels):
        raise invalid("a level is empty or has blanks around it", PART)
    if max(map(len, levels), default=0) > limits.cell_bytes:
        raise invalid("a level is too long", PART)
    if len(set(levels)) < len(levels) or list(levels) != in_order(levels):
        raise invalid("the levels of a category are not in order, each once", PART)
