"""Which columns a table has, what they are called, and which one holds the labels."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from dataclasses import dataclass

from service.errors import Fault, InvalidContent, InvalidRequest
from service.rows.cell_texts.number_text import BOOLEANS, NUMBER, is_value
from service.rows.faults import refuse, too_many
from service.rows.spec import CSV, TSV, ParseSpec, ReadLimits, Stored

NO_TARGET = "none"
_FIRST_NUMBER = re.compile("0|1|(?:19|20)[0-9]{2}")
"""Of names that count: positions or years."""


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
    """Raises InvalidContent, InvalidRequest and TooLarge if the columns are not as asked for."""
    if names is not None:
        names = [name.strip() for name in names]
        _check_names(names, spec.limits.cell_bytes, headed=spec.media_type in (CSV, TSV))
    layout = Layout(n_cells, names, _target(spec, n_cells, names))
    if layout.n_features == 0:
        message = "there is no feature column: the only column holds the labels"
        hint = "without labels say target=none"
        if spec.media_type in (CSV, TSV):
            hint = f"is the delimiter right? {hint}"
        raise refuse("empty-data", message, column=layout.column(0), hint=hint)
    if layout.n_features > spec.limits.columns:
        raise too_many("columns", spec.limits.columns)
    check_n_features(spec, layout.n_features)
    if spec.onto is not None:
        feature_order(spec.onto, layout.feature_names, layout.n_features)
    return layout


def feature_order(stored: Stored, names: list[str] | None, n_features: int) -> list[int] | None:
    """The position of each feature of a dataset in a table; None if all have their own place.

    They are matched by name if both have names, else by position. Raises InvalidContent
    `feature-mismatch`.
    """
    if names is None or stored.columns is None:
        stored.features.check_width(n_features)
        return None
    return None if names == stored.columns else stored.features.order("the table", names)


def check_n_features(spec: ParseSpec, n_features: int) -> None:
    """Raises InvalidContent `feature-mismatch` if `n_features` was given and is another."""
    if spec.n_features is not None and n_features != spec.n_features:
        raise InvalidContent(
            "feature-mismatch",
            f"the data have {n_features} feature columns, n_features says {spec.n_features}",
            extra={"expected": spec.n_features, "got": n_features},
        )


def has_header(spec: ParseSpec, first: list[str], text: str) -> bool:
    """Whether the `first` record of a file names the columns; `text` is how the file begins.

    Left to us (`auto`), it does if the target is given by its name, if it holds all names of the
    dataset that the rows are appended to, or if no feature cell of it is a number and not all of
    them are empty. A word among numbers is a mistake in the data, not a header. Raises
    InvalidContent `bad-column-name` if it may be either: numbers that count, such as 0, 1, 2, … or
    2019, 2020, …, beside a label that comes only once; booleans without a number.
    """
    if spec.header != "auto":
        return spec.header == "present"
    target = None if spec.labels is not None else spec.target
    if target is not None and target != NO_TARGET and not target.isdecimal():
        return True
    cells = [cell.strip() for cell in first]
    if spec.onto is not None and spec.onto.columns and set(cells).issuperset(spec.onto.columns):
        return True
    label = None
    if spec.labels is None and target != NO_TARGET:
        position = len(cells) - 1 if target is None else int(target)
        label = cells.pop(position) if position < len(cells) else None
    start = int(cells[0]) if cells and _FIRST_NUMBER.fullmatch(cells[0]) else 0
    counted = cells == [str(i) for i in range(start, start + len(cells))]
    if len(cells) > 1 and counted and label and not NUMBER.fullmatch(label):
        if text.count(label) > 1:
            return False
        message = "the first record may be a header of numbered columns, or data"
        raise refuse("bad-column-name", message, hint="say header=present or header=absent")
    if any(is_value(cell) and cell not in BOOLEANS for cell in cells):
        return False
    if BOOLEANS.keys().isdisjoint(cells):
        return any(cells)
    if "" in cells or len(set(cells)) < len(cells):  # no header is like that
        return False
    message = "the first record holds booleans, or columns are called so"
    raise refuse("bad-column-name", message, hint="say header=present or header=absent")


def _check_names(names: list[str], limit_bytes: int, *, headed: bool) -> None:
    for position, name in enumerate(names):
        if len(name.encode()) > limit_bytes:
            message = f"the name of column {position} has more than {limit_bytes:,} bytes"
            hint = "shorten it"
            raise refuse("csv-cell-too-large", message, column=position, value=name[:64], hint=hint)
    counts = Counter(names)
    faults = []
    for position, name in enumerate(names):
        if not name:
            message = f"column {position} has no name"
            hint = "give it one, or remove the column"
        elif "\0" in name:
            message, hint = f"the name of column {position} holds a NUL character", "remove it"
        elif counts[name] > 1:
            message, hint = (
                f"the name {name[:64]!r} is given more than once",
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
                hint=f"{hint}; without a header say header=absent" if headed else hint,
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
    target = spec.target
    if target == NO_TARGET:
        return None
    if target is None and spec.onto is not None:  # as in the dataset that the rows are appended to
        if not spec.onto.labeled:
            return None
        target = spec.onto.target if names is not None else None
    if target is None:
        return n_cells - 1
    if names is not None and target in names:
        return names.index(target)
    if target.isdecimal() and len(target) < 10 and int(target) < n_cells:
        return int(target)
    if names is None:
        hint = f"the columns have no names; give a position from 0 to {n_cells - 1}, or none"
    else:
        close = difflib.get_close_matches(target, names, 3) or names[:5]
        hint = f"the columns are called {', '.join(close)}, …"
    message = f"there is no column {target[:64]!r} to take the labels from"
    raise refuse("target-missing", message, value=target[:64], hint=hint)


def check_columns(n_cells: int, limits: ReadLimits) -> None:
    """Raises TooLarge if the first row has more cells than columns are allowed, besides those of
    the labels and the weights."""
    if n_cells > limits.columns + 2:
        raise too_many("columns", limits.columns)
