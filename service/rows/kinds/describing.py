"""What a reply says of the columns of a file: kinds, warnings, and how they were read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from service.rows.kinds.decisions import Ignored, Kept
from service.rows.kinds.feature import Feature, KeptFeatures
from service.rows.kinds.gathering import MOST_LABELS
from service.rows.kinds.roles import ASKED, ColumnRoles
from service.rows.spec import TableColumn
from service.rows.table.row_numbers import ignoring


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
        if decision.warning is not None:
            name = columns.name(feature.position)
            code, message = decision.warning
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
