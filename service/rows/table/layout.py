"""Which columns a table has, what they are called, and which one holds the labels."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from service.errors import InvalidContent, InvalidRequest
from service.rows.cell_texts.number_text import BOOLEANS, MISSING_TEXTS, NUMBER, is_value
from service.rows.faults import listed, refuse, too_many
from service.rows.spec import CSV, TSV, ParseSpec, ReadLimits, Stored

NO_TARGET = "none"
MAX_NAME_BYTES = 4096
_UNNAMED = "columns without a name are called by their position, counted from 1"
_FIRST_NUMBER = re.compile("0|1|(?:19|20)[0-9]{2}")
"""Of names that count: positions or years."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a table, that of the labels among them."""

    n_cells: int
    names: list[str] | None
    target: int | None
    """Position of the label column."""
    warnings: list[dict[str, Any]] = field(default_factory=list)
    """About the names."""

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
    warnings: list[dict[str, Any]] = []
    if names is not None:
        names, warnings = distinct_names(names, spec.limits.cell_bytes)
    layout = Layout(n_cells, names, _target(spec, n_cells, names), warnings)
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
    if any(cells.count(word) > 1 for word in MISSING_TEXTS if word):
        message = "the first record has words for missing cells, or columns are called so"
        raise refuse("bad-column-name", message, hint="say header=present or header=absent")
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


def distinct_names(
    names: list[str], limit_bytes: int = MAX_NAME_BYTES, unnamed: Collection[int] = ()
) -> tuple[list[str], list[dict[str, Any]]]:
    """Names without blanks around them: one that comes again gets the first free suffix, an empty
    one its position from 1 unless it is to stay `unnamed`; with warnings that say so.

    Raises InvalidContent for a name that is too long, or holds a NUL character.
    """
    names = [name.strip() for name in names]
    taken = set(names)
    short = 4 * max(map(len, names), default=0) <= limit_bytes
    if short and len(taken) == len(names) and all(names) and "\0" not in "".join(names):
        return names, []  # thousands of names are looked at together
    counts: Counter[str] = Counter()
    repeated: list[str] = []
    numbered: list[str] = []
    for position, name in enumerate(names):
        if len(name.encode()) > limit_bytes:
            what = f"the name of column {position + 1} has more than {limit_bytes:,} bytes"
            raise refuse("csv-cell-too-large", what, column=position, value=name, hint="shorten it")
        if "\0" in name:
            what = f"the name of column {position + 1} holds a NUL character"
            raise refuse("bad-column-name", what, column=position, value=name, hint="remove it")
        counts[name] += 1
        if (name and counts[name] == 1) or position in unnamed:
            continue
        stem = f"{name}." if name else "column "
        number = counts[name] - 1 if name else position + 1
        while (new := f"{stem}{number}") in taken:
            number += 1
        taken.add(new)
        names[position] = new
        counts[name] = number + 1 if name else 0
        (repeated if name else numbered).append(new)
    warnings: list[dict[str, Any]] = []
    for new_names, what in ((repeated, "names that come again got a number"), (numbered, _UNNAMED)):
        if new_names:
            message = f"{what}: {listed(new_names)}"
            warnings.append(
                {"code": "renamed-columns", "message": message, "columns": new_names[:20]}
            )
    return names, warnings


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
