"""The features that rows must have, and how names are matched with them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from service.errors import MAX_FAULTS, Fault, InvalidContent
from service.rows.faults import MAX_VALUE_CHARACTERS, shown

WIDTH_HINT = "send one number for each feature, without the label"
NAMES_HINT = "send each of the features once, in any order"


@dataclass(frozen=True)
class Columns:
    """The features of a model or a dataset, all of them numbers."""

    n_features: int
    names: list[str] | None = None

    def column(self, position: int) -> str | int:
        """What a fault calls a feature."""
        return position if self.names is None else self.names[position]

    @cached_property
    def header(self) -> bytes | None:
        """The names as the first line of a CSV file, if none of them needs quotes."""
        names = self.names or []
        plain = names and not any(mark in name for name in names for mark in ',"\r\n')
        return ",".join(names).encode() if plain else None

    def order(self, what: str, names: list[str]) -> list[int]:
        """The position of each feature in a table ("the header") with these names.

        Raises InvalidContent `feature-mismatch`.
        """
        fault = self.names_fault(what, names)
        if fault is not None:
            extra = self.difference(names, fault)
            raise InvalidContent(fault.code, fault.message, (fault,), extra=extra)
        place = {name: position for position, name in enumerate(names)}
        return [place[name] for name in self.names or names]

    def names_fault(self, what: str, names: list[str], row: int | None = None) -> Fault | None:
        """What is wrong with the names of a table or a row, which may come in any order."""
        expected = self.names or []
        known, given = set(expected), set(names)
        missing = [name for name in expected if name not in given]
        unknown = [name for name in names if name not in known]
        twice = [name for name, count in Counter(names).items() if count > 1]
        wrong = missing + unknown + twice
        if not wrong:
            return None
        parts = [
            f"{how} {', '.join(map(shown, some[:5]))}{' …' if len(some) > 5 else ''}"
            for how, some in (("lacks", missing), ("has the unknown", unknown), ("repeats", twice))
            if some
        ]
        return Fault(
            code="feature-mismatch",
            message=f"{what} {' and '.join(parts)}",
            row=row,
            column=wrong[0][:MAX_VALUE_CHARACTERS],
            hint=NAMES_HINT,
        )

    def difference(self, names: list[str], fault: Fault) -> dict[str, Any]:
        """The members of a problem about names."""
        got = [name[:MAX_VALUE_CHARACTERS] for name in names[:MAX_FAULTS]]
        return {"expected": self.names, "got": got, "first_difference": fault.column}

    def check_width(self, got: int) -> None:
        """Raises InvalidContent `feature-mismatch` for rows that all have another width."""
        if got == self.n_features:
            return
        column = self.column(got) if got < self.n_features else self.n_features
        message = f"each row has {got} numbers, {self.n_features} are expected"
        fault = Fault(
            code="feature-mismatch", message=message, row=1, column=column, hint=WIDTH_HINT
        )
        extra = {"expected": self.n_features, "got": got, "first_difference": column}
        raise InvalidContent("feature-mismatch", message, (fault,), extra=extra)
