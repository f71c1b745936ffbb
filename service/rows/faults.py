"""Everything that is wrong with an upload, collected before it is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.common.encodings import MAX_RATIO
from service.common.figures import first_of
from service.errors import MAX_FAULTS, MAX_VALUE_CHARACTERS, Fault, InvalidContent, TooLarge

MAX_EXAMPLES = 5
"""Different wrong values of a column that its summary shows."""

_MOST_NAMES = 20
"""Of one message."""
_LIMITED = {
    "rows": ("too-many-rows", "ROWS"),
    "rows to predict": ("too-many-rows", "PREDICT_ROWS"),
    "rows of this many classes": ("too-many-rows", ""),
    "columns": ("too-many-columns", "COLUMNS"),
    "sparse columns": ("too-many-columns", "SPARSE_COLUMNS"),
    "values": ("too-many-values", "STORED_VALUES"),
    "values of sparse rows": ("too-many-values", ""),
}
"""What is limited: the code of the error, and the setting."""


class Faults:
    """Counts all faults, and keeps the first hundred."""

    def __init__(self) -> None:
        self._listed: list[Fault] = []
        self._extra: dict[str, Any] = {}
        self._columns: dict[tuple[str | int, str], dict[str, Any]] = {}
        self.total = 0

    def add(
        self,
        code: str,
        message: str,
        value: str | None = None,
        hint: str | None = None,
        *,
        row: int,
        column: str | int | None = None,
        pointer: str | None = None,
    ) -> None:
        """`message` says what is wrong; the place, and a value that is there, are put before it."""
        if column is not None:
            self._count(column, code, value, hint)
        self.total += 1
        if self.total > MAX_FAULTS:
            return
        cut = None if value is None else value[:MAX_VALUE_CHARACTERS]
        place = f"row {row}" if column is None else f"row {row}, column {called(column)}"
        what = message if cut is None or code == "missing-value" else f"{cut!r} {message}"
        self._listed.append(
            Fault(
                code=code,
                message=f"{place}: {what}",
                pointer=pointer,
                row=row,
                column=column,
                value=cut,
                hint=hint,
            )
        )

    def put_first(self, fault: Fault, extra: dict[str, Any]) -> None:
        """Add a fault that is before all others; `extra`: members of the problem."""
        self.total += 1
        self._extra = extra
        self._listed = [fault, *self._listed][:MAX_FAULTS]

    def check(self) -> None:
        """Raises InvalidContent with the first fault's code if there is any fault."""
        if not self._listed:
            return
        first = self._listed[0]
        detail = first.message if first.hint is None else f"{first.message}; {first.hint}"
        if self.total > 1:
            detail += f" (and {self.total - 1} more)"
        extra = self._extra
        if self._columns:
            extra = {**extra, "columns": list(self._columns.values())}
        raise InvalidContent(first.code, detail, tuple(self._listed), self.total, extra=extra)

    def _count(self, column: str | int, code: str, value: str | None, hint: str | None) -> None:
        """Sum up by column: how many cells are wrong, and some of them."""
        if (column, code) not in self._columns and len(self._columns) >= MAX_FAULTS:
            return
        empty: dict[str, Any] = {
            "column": column,
            "code": code,
            "count": 0,
            "examples": [],
            "hint": hint,
        }
        summary = self._columns.setdefault((column, code), empty)
        summary["count"] += 1
        cut = None if value is None else value[:MAX_VALUE_CHARACTERS]
        examples = summary["examples"]
        if cut is not None and cut not in examples and len(examples) < MAX_EXAMPLES:
            examples.append(cut)


def called(column: str | int) -> str:
    """What a message calls a column: its name in quotes, or its number, from 1, if it has none."""
    return repr(column) if isinstance(column, str) else str(column + 1)


def shown(value: Any) -> str:
    """A value as JSON, shortened; of a list or an object only what it is."""
    if type(value) in (list, dict):
        return f"{'a list' if type(value) is list else 'an object'} of {len(value)}"
    if type(value) is float and math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    text = value if type(value) is str else json.dumps(value)
    if len(text) > MAX_VALUE_CHARACTERS - 2:
        text = text[: MAX_VALUE_CHARACTERS - 3] + "…"
    return f"'{text}'" if type(value) is str else text


def listed(names: list[str]) -> str:
    """Such as "'a', 'b' and 7 more"."""
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(map(shown, names[:_MOST_NAMES])) + more


def warning(code: str, message: str, columns: Sequence[str | int] | None = None) -> dict[str, Any]:
    """Something that a caller should know of a dataset; of many `columns` it has the first ones."""
    told: dict[str, Any] = {"code": code, "message": message}
    return told if columns is None else told | {"columns": list(columns[:_MOST_NAMES])}


def invalid_field(pointer: str, message: str) -> InvalidContent:
    """The error for a member of a JSON body; `message` may end with "; " and a hint."""
    what, _, hint = message.partition("; ")
    fault = Fault(code="invalid-field", message=what, pointer=pointer, hint=hint or None)
    return InvalidContent("invalid-field", f"{pointer or 'the body'}: {message}", (fault,))


def refuse(
    code: str,
    message: str,
    *,
    pointer: str | None = None,
    row: int | None = None,
    column: str | int | None = None,
    value: str | None = None,
    hint: str | None = None,
) -> InvalidContent:
    """The error for a fault that makes reading on pointless."""
    fault = Fault(
        code=code, message=message, pointer=pointer, row=row, column=column, value=value, hint=hint
    )
    detail = message if hint is None else f"{message}; {hint}"
    return InvalidContent(code, detail, (fault,))


def no_features(ignored: Sequence[tuple[str | int, str]]) -> InvalidContent:
    """The error for a table of which no column can be a feature; `ignored`: column and reason."""
    some = [f"{called(column)[:MAX_VALUE_CHARACTERS]} ({reason})" for column, reason in ignored]
    reasons = first_of(some, MAX_EXAMPLES)
    message = f"no column can be a feature: all are ignored: {reasons}"
    return refuse("empty-data", message, hint="say by `schema` which columns are features")


def too_many(what: str, limit: int, row: int | None = None) -> TooLarge:
    """The error for more than `limit` of what `_LIMITED` has, from this row on."""
    code, setting = _LIMITED[what]
    message = f"at most {limit:,} {what} are allowed"
    if setting:
        message += f", by the setting SVM_LIMITS__{setting}"
    faults = () if row is None else (Fault(code=code, message=message, row=row),)
    return TooLarge(code, message, faults, extra={"limit": limit})


def overflow(rows: NDArray[np.int64], what: str) -> InvalidContent:
    """The error `non-finite-value` for the rows, from 0, whose `prediction` or so is not finite."""
    faults = tuple(
        Fault(
            code="non-finite-value",
            message=f"row {row} has numbers so large that its {what} overflows",
            row=row,
        )
        for row in (rows[:MAX_FAULTS] + 1).tolist()
    )
    return InvalidContent("non-finite-value", faults[0].message, faults, faults_total=len(rows))


def inflates_too_much(what: str, limit_bytes: int) -> TooLarge:
    """The error for an "archive" or "file" that becomes too large."""
    return TooLarge(
        "decompression-limit",
        f"the {what} inflates to more than {limit_bytes} bytes or {MAX_RATIO}:1",
        extra={"limit_bytes": limit_bytes},
    )
