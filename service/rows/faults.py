"""Everything that is wrong with an upload, collected before it is refused."""

from __future__ import annotations

from service.errors import MAX_FAULTS, Fault, InvalidContent, TooLarge

MAX_VALUE_CHARACTERS = 64
MAX_RATIO = 100
"""An archive or a file with compressed parts may become so many times larger."""


class Faults:
    """Counts all faults, and keeps the first hundred."""

    def __init__(self) -> None:
        self._listed: list[Fault] = []
        self.total = 0

    def add(
        self,
        code: str,
        message: str,
        *,
        row: int,
        column: str | int | None = None,
        value: str | None = None,
        hint: str | None = None,
    ) -> None:
        """`message` says what is wrong; where it is gets added."""
        self.total += 1
        if len(self._listed) == MAX_FAULTS:
            return
        shown = None if value is None else value[:MAX_VALUE_CHARACTERS]
        place = f"row {row}" if column is None else f"row {row}, column {column!r}"
        what = message if shown is None else f"{shown!r} {message}"
        self._listed.append(
            Fault(
                code=code,
                message=f"{place}: {what}",
                row=row,
                column=column,
                value=shown,
                hint=hint,
            )
        )

    def check(self) -> None:
        """Raises InvalidContent with the first fault's code if there is any fault."""
        if not self._listed:
            return
        first = self._listed[0]
        detail = first.message if first.hint is None else f"{first.message}; {first.hint}"
        if self.total > 1:
            detail += f" (and {self.total - 1} more)"
        raise InvalidContent(first.code, detail, tuple(self._listed), self.total)


def refuse(
    code: str,
    message: str,
    *,
    row: int | None = None,
    column: str | int | None = None,
    value: str | None = None,
    hint: str | None = None,
) -> InvalidContent:
    """The error for a fault that makes reading on pointless."""
    fault = Fault(code=code, message=message, row=row, column=column, value=value, hint=hint)
    detail = message if hint is None else f"{message}; {hint}"
    return InvalidContent(code, detail, (fault,))


def too_many(what: str, limit: int, row: int | None = None) -> TooLarge:
    """The error for more than `limit` "rows", "columns" or "values"; `row` has the first beyond."""
    code = {"rows": "too-many-rows", "columns": "too-many-columns", "values": "too-many-values"}
    message = f"at most {limit:,} {what} are allowed"
    faults = () if row is None else (Fault(code=code[what], message=message, row=row),)
    return TooLarge(code[what], message, faults, extra={"limit": limit})


def inflates_too_much(what: str, limit_bytes: int) -> TooLarge:
    """The error for an "archive" or "file" that becomes too large."""
    return TooLarge(
        "decompression-limit",
        f"the {what} inflates to more than {limit_bytes} bytes or {MAX_RATIO}:1",
        extra={"limit_bytes": limit_bytes},
    )
