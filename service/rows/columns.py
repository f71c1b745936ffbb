"""The features that rows must have, and how names are matched with them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from service.errors import MAX_FAULTS, Fault, InvalidContent
from service.rows.faults import MAX_VALUE_CHARACTERS, shown

WIDTH_HINT = "send one number for each feature, without the label"
NAMES_HINT = "send every column of the model, in any order; other columns are ignored"
_MOST_NAMES = 20
"""Of one message."""


@dataclass(frozen=True)
class Columns:
    """The features of a model or a dataset, all of them numbers."""

    n_features: int
    names: list[str] | None = None

    def column(self, position: int) -> str | int:
        """What a fault calls a feature."""
        return position if self.names is None else self.names[position]

    @cached_property
    def names_set(self) -> frozenset[str]:
        return frozenset(self.names or ())

    @cached_property
    def header(self) -> bytes | None:
        """The names as the first line of a CSV file, if none of them needs quotes."""
        names = self.names or []
        plain = names and not any(mark in name for name in names for mark in ',"\r\n')
        return ",".join(names).encode() if plain else None

    def order(self, what: str, names: list[str]) -> list[int]:
        """The position of each feature in a table ("the header") that has these names only.

        Raises InvalidContent `feature-mismatch`.
        """
        positions, others = self.select(what, names)
        if others:
            message = f"{what} has the unknown {_listed(list(others))}"
            hint = "send each of the features once, in any order"
            fault = _mismatch(message, others[0], hint)
            extra = self._difference(names, others[0])
            raise InvalidContent(fault.code, message, (fault,), extra=extra)
        return positions

    def select(self, what: str, names: list[str]) -> tuple[list[int], tuple[str, ...]]:
        """The same of a table that may have other columns; and the names of these.

        Several columns may have no name. Raises InvalidContent `feature-mismatch`.
        """
        given = {name: position for position, name in enumerate(names)}
        twice = [name for name, count in Counter(names).items() if count > 1 and name]
        if twice:
            message = f"{what} repeats {_listed(twice)}"
            fault = _mismatch(message, twice[0], "name each column once")
            raise InvalidContent(
                fault.code, message, (fault,), extra=self._difference(names, twice[0])
            )
        expected = self.names or names
        missing = [name for name in expected if name not in given]
        if missing:
            fault, extra = self.lacking(f"{what} lacks", missing, list(given))
            raise InvalidContent(fault.code, fault.message, (fault,), extra=extra)
        known = set(expected)
        unused = tuple(name for name in given if name not in known)
        return [given[name] for name in expected], unused

    def lacking(
        self, what: str, missing: list[str], names: list[str], row: int | None = None
    ) -> tuple[Fault, dict[str, Any]]:
        """The one fault for all names that a table lacks, and the members of its problem.

        `what` begins the message ("the header lacks"); `names` are those that came.
        """
        unknown = [name for name in names if name not in self.names_set]
        message = f"{what} {_listed(missing)}"
        if unknown:
            message += f"; not of the model: {_listed(unknown)}"
        extra = self._difference(names, missing[0])
        extra["missing"] = [name[:MAX_VALUE_CHARACTERS] for name in missing[:MAX_FAULTS]]
        return _mismatch(message, missing[0], NAMES_HINT, row), extra

    def _difference(self, names: list[str], first: str) -> dict[str, Any]:
        """The members of a problem about names."""
        got = [name[:MAX_VALUE_CHARACTERS] for name in names[:MAX_FAULTS]]
        return {
            "expected": self.names,
            "got": got,
            "first_difference": first[:MAX_VALUE_CHARACTERS],
        }

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


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(map(shown, names[:_MOST_NAMES])) + more


def _mismatch(message: str, name: str, hint: str, row: int | None = None) -> Fault:
    return Fault(
        code="feature-mismatch",
        message=message,
        row=row,
        column=name[:MAX_VALUE_CHARACTERS],
        hint=hint,
    )
