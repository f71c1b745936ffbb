"""What a reply says of the columns of a file: kinds, warnings, and how they were read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

from service.rows.cell_texts.number_text import alike, separator_of_lists
from service.rows.kinds.feature import Feature, Ignored, Kept, KeptFeatures, Warned
from service.rows.kinds.gathering import MOST_LABELS
from service.rows.kinds.roles import ASKED, ColumnRoles
from service.rows.spec import TableColumn
from service.rows.table.row_numbers import ignoring

SENTENCE = 40
"""Characters of a level, on average, of sentences."""


def table_columns(kept: KeptFeatures, columns: ColumnRoles) -> list[TableColumn]:
    """The features with their kinds; without names they are called by their position."""
    named = columns.names is not None
    return [
        {
            "name": str(columns.name(feature.position)) if named else str(i),
            "kind": decision.kind,
            "levels": decision.levels,
            "missing": decision.missing,
        }
        for i, (feature, decision) in enumerate(kept)
    ]


def ignored_columns(features: Sequence[Feature], columns: ColumnRoles) -> list[dict[str, str]]:
    """Those that the caller ignores, then those that are not fit to be features."""
    proposed = [
        {"name": str(columns.name(one.position)), "reason": one.decision.reason}
        for one in features
        if isinstance(one.decision, Ignored)
    ]
    return [*columns.ignored, *proposed]


def warnings(
    kept: KeptFeatures, ignored: list[dict[str, str]], columns: ColumnRoles
) -> Iterator[dict[str, Any]]:
    for one in ignored:
        if one["reason"] != ASKED:
            yield ignoring(one["name"], one["reason"])
    for feature, decision in kept:
        for code, message in decision.warnings:
            name = columns.name(feature.position)
            yield {"code": code, "message": f"column {name!r}: {message}", "columns": [name]}


def reading(
    kept: KeptFeatures, table: list[TableColumn], marks: set[str], missing: Iterable[str]
) -> dict[str, Any]:
    """The part of `reading` that the columns decide.

    `marks` are the decimal marks of the file, `missing` the caller's words.
    """
    by_column: dict[str, dict[str, Any]] = {}
    for column, (feature, decision) in zip(table, kept, strict=True):
        notes = decision.notes
        if len(marks) > 1 and decision.kind == "number" and feature.gatherer.mark == ".":
            notes = {"decimal": "."} | notes
        if notes:
            by_column[column["name"]] = notes
    decimals = {notes["decimal"] for notes in by_column.values() if "decimal" in notes}
    thousands = {notes["thousands"] for notes in by_column.values() if "thousands" in notes}
    words = {word for _, decision in kept for word in decision.missing_words}
    return {
        "decimal": min(decimals) if decimals else ".",
        "thousands": min(thousands) if thousands else None,
        "missing": sorted(words.union(missing)),
        "columns": by_column,
    }


def likely_labels(features: Sequence[Feature], columns: ColumnRoles) -> list[str]:
    """Names of columns with few values, as labels have; first those with the fewest."""
    counted = [
        (one.decision.n_labels, str(columns.name(one.position)))
        for one in features
        if isinstance(one.decision, Kept) and one.decision.n_labels is not None
    ]
    return [name for n, name in sorted(counted, key=itemgetter(0)) if 1 < n <= MOST_LABELS]


def value_warnings(
    kind: str, notes: Mapping[str, Any], odd: Mapping[str, int], padded: str | None
) -> list[Warned]:
    """What to say of a column of values: of words that are missing cells, units, and codes such as
    `padded`."""
    result = []
    if kind == "number" and padded is not None:
        message = f"numbers such as {padded!r} begin with 0; if they are codes, say in `schema`"
        result.append(Warned("leading-zeros", f"{message} that it is a category"))
    if odd:
        counted = ", ".join(f"{text[:32]!r} ({n} of its cells)" for text, n in odd.items())
        hint = "say odd_cells=refuse to get an error instead"
        message = f"{counted} is not a {kind}, and taken as missing; {hint}"
        result.append(Warned("odd-cells", message))
    if "scaled" in notes:
        message = "K, M and B behind a number are thousands, millions and billions"
        result.append(Warned("units", message))
    elif "unit" in notes:
        message = f"its cells are numbers with the unit {notes['unit']!r}"
        result.append(Warned("units", message))
    return result


def undecided(what: str) -> Warned:
    """What to say of dates that are kept as texts."""
    hint = "write them as ISO" + (", or say dayfirst=true or false" if "DD" in what else "")
    return Warned("undecided-dates", f"dates {what} are a category; {hint}")


def levels_warnings(levels: list[str]) -> Iterator[Warned]:
    """What to say of levels such as `Yes` and `yes`, or of lists in cells."""
    if (pair := alike(levels)) is not None:
        message = f"the levels {pair[0][:32]!r} and {pair[1][:32]!r} differ in case or blanks only"
        yield Warned("similar-levels", f"{message}; if they are the same, write them alike")
    if (mark := separator_of_lists(levels)) is not None:
        message = f"its cells are lists separated by {mark!r}, each a level of its own"
        yield Warned("lists-in-cells", f"{message}; give each element a column of its own")
    elif sum(map(len, levels)) > SENTENCE * len(levels):
        message = "its cells are sentences, each a level of its own"
        yield Warned("many-levels", f"{message}; ignore the column by `schema`, if it is free text")
