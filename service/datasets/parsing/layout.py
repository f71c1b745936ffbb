"""Which columns a table has, what they are called, and which one holds the labels."""

from __future__ import annotations

import difflib
from collections import Counter
from dataclasses import dataclass

from service.datasets.parsing.faults import refuse, too_many
from service.datasets.parsing.labels import NOT_FINITE, NUMBER
from service.datasets.parsing.spec import ParseSpec
from service.errors import Fault, InvalidContent, InvalidRequest

NO_TARGET = "none"


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table, that of the labels among them."""

    n_cells: int
    names: list[str] | None
    target: int | None
    """Position of the label column."""

    @property
    def n_features(self) -> int:
        return self.n_cells - (self.target is not None)

    @property
    def feature_names(self) -> list[str] | None:
        if self.names is None:
            return None
        return [name for i, name in enumerate(self.names) if i != self.target]

    @property
    def target_name(self) -> str | None:
        return None if self.names is None or self.target is None else self.names[self.target]

    def column(self, position: int) -> str | int:
        """What a fault calls a column."""
        return position if self.names is None else self.names[position]


def make_layout(spec: ParseSpec, n_cells: int, names: list[str] | None) -> Layout:
    """Raises InvalidContent, InvalidRequest and TooLarge where the columns are not as asked for."""
    if names is not None:
        names = [name.strip() for name in names]
        _check_names(names)
    layout = Layout(n_cells, names, _target(spec, n_cells, names))
    if layout.n_features == 0:
        raise InvalidContent(
            "empty-data",
            "there is no feature column: the only column holds the labels",
            (
                Fault(
                    code="empty-data", message="no feature column", hint="is the delimiter right?"
                ),
            ),
        )
    if layout.n_features > spec.limits.columns:
        raise too_many("columns", spec.limits.columns)
    check_n_features(spec, layout.n_features)
    return layout


def check_n_features(spec: ParseSpec, n_features: int) -> None:
    """Raises InvalidContent `feature-mismatch` where `n_features` was given and is another."""
    if spec.n_features is not None and n_features != spec.n_features:
        raise InvalidContent(
            "feature-mismatch",
            f"the data have {n_features} feature columns, n_features says {spec.n_features}",
            extra={"expected": spec.n_features, "got": n_features},
        )


def has_header(spec: ParseSpec, first: list[str], text: str) -> bool:
    """Whether the `first` record of a file names the columns; `text` is how the file begins.

    Left to us (`auto`), it does if the target is given by its name, or if no feature cell of it is
    a number and not all of them are empty. A word among numbers is a mistake in the data, not a
    header. Raises InvalidContent `bad-column-name` for the numbers 0, 1, 2, … or 1, 2, 3, … beside
    a label that comes only once: that may be either.
    """
    if spec.header != "auto":
        return spec.header == "present"
    target = None if spec.labels is not None else spec.target
    if target is not None and target != NO_TARGET and not target.isdecimal():
        return True
    cells = [cell.strip() for cell in first]
    label = None
    if spec.labels is None and target != NO_TARGET:
        position = len(cells) - 1 if target is None else int(target)
        label = cells.pop(position) if position < len(cells) else None
    numbered = [[str(i) for i in range(start, start + len(cells))] for start in (0, 1)]
    if len(cells) > 1 and cells in numbered and label and not NUMBER.fullmatch(label):
        if text.count(label) > 1:
            return False
        message = "the first record may be a header of numbered columns, or data"
        raise refuse("bad-column-name", message, hint="say header=present or header=absent")
    return any(cells) and not any(_is_number(cell) for cell in cells)


def _is_number(cell: str) -> bool:
    return NUMBER.fullmatch(cell) is not None or cell.lower().lstrip("+-") in NOT_FINITE


def _check_names(names: list[str]) -> None:
    counts = Counter(names)
    faults = []
    for position, name in enumerate(names):
        if not name:
            message = f"column {position} has no name"
            hint = "write the file without its index column (pandas: index=False)"
        elif "\0" in name:
            message, hint = f"the name of column {position} holds a NUL character", "remove it"
        elif counts[name] > 1:
            message, hint = (
                f"the name {name[:64]!r} stands more than once",
                "give each its own name",
            )
        else:
            continue
        faults.append(
            Fault(
                code="bad-column-name",
                message=message,
                column=position,
                value=name[:64],
                hint=f"{hint}; without a header say header=absent",
            )
        )
    if faults:
        raise InvalidContent(
            "bad-column-name", f"{faults[0].message}; {faults[0].hint}", tuple(faults)
        )


def _target(spec: ParseSpec, n_cells: int, names: list[str] | None) -> int | None:
    if spec.labels is not None:
        if spec.target not in (None, NO_TARGET):
            raise InvalidRequest(
                "invalid-parameter", "the labels are in a file of their own: leave out `target`"
            )
        return None
    if spec.target == NO_TARGET:
        return None
    if spec.target is None:
        return n_cells - 1
    if names is not None and spec.target in names:
        return names.index(spec.target)
    if spec.target.isdecimal() and len(spec.target) < 10 and int(spec.target) < n_cells:
        return int(spec.target)
    if names is None:
        hint = f"the columns have no names; give a position from 0 to {n_cells - 1}, or none"
    else:
        close = difflib.get_close_matches(spec.target, names, 3) or names[:5]
        hint = f"the columns are called {', '.join(close)}, …"
    message = f"there is no column {spec.target[:64]!r} to take the labels from"
    raise refuse("target-missing", message, value=spec.target[:64], hint=hint)
