"""What an upload shows before it is kept: its columns, and what is wrong with them, in words."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from service.dashboard.formatting import day, number, without_location
from service.datasets.schemas import ColumnRead, DatasetRead
from service.errors import Fault, ServiceError
from service.rows.spec import Roles
from service.web.problems import PROBLEMS

SHOWN_LEVELS = 6
SHOWN_COLUMNS = 200
"""Columns of a proposal with a choice; all are kept."""
EXAMPLES = 5
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}
_MARKS = {",": "a comma", ".": "a point", " ": "a blank", "'": "an apostrophe"}
_NUMBERS = ("not-a-number", "non-finite-value")


@dataclass(frozen=True, slots=True)
class ProposedColumn:
    """One column of the file."""

    name: str
    """As `schema` and `target` call it."""
    use: str
    """A kind, or `label`, `weight`, `ignored`."""
    values: str
    """Levels, a range, or why the column is ignored."""
    missing: int


@dataclass(frozen=True, slots=True)
class ColumnProblem:
    """What is wrong with some cells of a column."""

    column: str
    message: str
    count: int
    examples: list[str]
    hint: str | None
    actions: tuple[str, ...]
    """What can be done about it: some of `missing`, `category`, `ignored`, `label`, `decimal`."""


def proposed_columns(read: DatasetRead, target: str | None, roles: Roles) -> list[ProposedColumn]:
    """The columns: label, weight, features, then ignored ones. `target` and
    `roles`: as the upload gives them."""
    features = read.columns or []
    names = [column.name for column in features if column.name is not None]
    label = read.target
    if len(names) < len(features):
        names, label = _positions(read, target)
    rows = []
    if label is not None:
        rows.append(ProposedColumn(label, "label", _labels(read), 0))
    if read.weight is not None:
        rows.append(ProposedColumn(read.weight, "weight", "weights of the rows", 0))
    rows += [
        ProposedColumn(name, column.kind, values_of(column), column.missing)
        for name, column in zip(names, features, strict=True)
    ]
    for one in read.ignored_columns:
        decided = roles.get(one.name, {}).get("role") == "ignored"
        reason = "as you decided" if decided else one.reason
        rows.append(ProposedColumn(one.name, "ignored", reason, 0))
    return rows


def values_of(column: ColumnRead) -> str:
    """The levels or the range of a feature."""
    if column.kind == "category":
        levels = column.levels or []
        shown = ", ".join(levels[:SHOWN_LEVELS])
        more = (column.n_levels or 0) - SHOWN_LEVELS
        return f"{shown} and {more:,} more" if more > 0 else shown
    if column.kind == "boolean":
        return "true, false"
    if column.min is None or column.max is None:
        return ""
    if column.kind == "date":
        return f"{day(column.min)} to {day(column.max)}"
    return f"{number(column.min)} to {number(column.max)}"


def reading_in_words(reading: Mapping[str, Any] | None) -> str:
    """How the text was read, as a sentence; empty for formats that leave no choice."""
    if reading is None:
        return ""
    parts = []
    if sheet := reading.get("sheet"):
        parts.append(f"the sheet “{sheet}”")
    if encoding := reading.get("encoding"):
        parts.append(f"{encoding.upper()} text")
    if delimiter := reading.get("delimiter"):
        parts.append(f"{_DELIMITERS.get(delimiter, repr(delimiter))} between cells")
    if header := reading.get("header"):
        names = "the first line has the names" if header == "present" else "no line has names"
        parts.append(names)
    if reading.get("decimal") == ",":
        parts.append("decimal comma")
    if thousands := reading.get("thousands"):
        parts.append(f"{_MARKS.get(thousands, repr(thousands))} between thousands")
    if words := [word for word in reading.get("missing") or [] if word]:
        parts.append("missing cells: " + ", ".join(f"“{word}”" for word in words))
    for name, notes in (reading.get("columns") or {}).items():
        if odd := notes.get("odd"):
            quoted = ", ".join(f"“{word}”" for word in odd)
            parts.append(f"in “{name}” {quoted} as missing cells")
    return f"Read as {', '.join(parts)}." if parts else ""


def column_problems(error: ServiceError, options: Collection[str]) -> list[ColumnProblem]:
    """What is wrong, by column; empty if the error is about something else. `options`: those that
    uploads of the format have."""
    first: dict[tuple[str, str], Fault] = {}
    for fault in error.faults:
        if fault.column is not None:
            first.setdefault((str(fault.column), fault.code), fault)
    counted = error.extra.get("columns") or _count(error.faults)
    if not first:
        return []
    return [_problem(one, first.get((str(one["column"]), one["code"])), options) for one in counted]


def _problem(
    counted: Mapping[str, Any], fault: Fault | None, options: Collection[str]
) -> ColumnProblem:
    code, examples = counted["code"], counted["examples"]
    message = PROBLEMS[code].title if code in PROBLEMS else code
    if fault is not None and code not in _NUMBERS:
        message = without_location(fault.message)
    actions: tuple[str, ...] = ()
    if code in _NUMBERS:
        actions = ("category", "ignored", "label")
        if examples and not any("," in example for example in examples):
            actions = ("missing", *actions)
    elif code == "too-many-levels":
        actions = ("ignored", "label")
    elif code == "ambiguous-number":
        actions = ("decimal", "category", "ignored")
    needed = {"missing": "missing", "decimal": "decimal", "label": "target"}
    actions = tuple(one for one in actions if needed.get(one, "schema") in options)
    return ColumnProblem(
        column=str(counted["column"]),
        message=message,
        count=counted["count"],
        examples=examples,
        hint=counted["hint"] if not actions else None,
        actions=actions,
    )


def _count(faults: tuple[Fault, ...]) -> list[dict[str, Any]]:
    """The faults summed by column, if the error does not say how many there are."""
    counted: dict[tuple[str, str], dict[str, Any]] = {}
    for fault in faults:
        if fault.column is None:
            continue
        start = {"column": fault.column, "code": fault.code, "hint": fault.hint}
        one = counted.setdefault(
            (str(fault.column), fault.code), {**start, "count": 0, "examples": []}
        )
        one["count"] += 1
        examples = one["examples"]
        if fault.value is not None and fault.value not in examples and len(examples) < EXAMPLES:
            examples.append(fault.value)
    return list(counted.values())


def _positions(read: DatasetRead, target: str | None) -> tuple[list[str], str | None]:
    """Positions of the features, and of the label, in a file without names."""
    taken = {one.name for one in read.ignored_columns} | {read.weight}
    labeled = read.n_distinct_labels > 0
    n_cells = read.n_features + len(taken - {None}) + labeled
    kept = [str(i) for i in range(n_cells) if str(i) not in taken]
    if not labeled:
        return kept[: read.n_features], None
    label = target if target in kept else kept[-1]
    return [name for name in kept if name != label], label


def _labels(read: DatasetRead) -> str:
    if read.classes is None or read.class_counts is None:
        return f"{read.n_distinct_labels:,} different numbers"
    counted = [
        f"{label} ({count:,})" for label, count in zip(read.classes, read.class_counts, strict=True)
    ]
    more = len(counted) - SHOWN_LEVELS
    shown = ", ".join(counted[:SHOWN_LEVELS])
    return f"{shown} and {more:,} more" if more > 0 else shown
