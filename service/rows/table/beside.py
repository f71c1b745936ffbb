"""Columns beside the features: weights of rows, the groups they belong to, their times.

Each role has arrays of its own beside X. `groups` has the positions of the groups' names, which are
sorted, in `group_names` (a JSON list), and -1 for an empty cell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson

from service.rows.cell_texts.number_text import level_of
from service.rows.faults import Faults, called, refuse, warning
from service.rows.spec import BESIDE, Description, Stored, TableColumn
from service.rows.table.arrays import blocks, in_folder, write_array
from service.rows.table.texts import Run
from service.rows.table.writers import Table, raw_blocks
from svm.data.matrices import LARGEST

Values = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Files = Callable[[str], Path]
"""The path of an array, by its name."""
ARRAYS = {"weight": ("weights",), "group": ("groups", "group_names"), "time": ("times",)}
WORDS = {"weight": "weights", "group": "groups", "time": "times"}
WEIGHT_HINT = f"a weight is 0, or a number between {1.0 / LARGEST:g} and {LARGEST:g}"
TIME_HINT = "each row needs a time, a date or a number"
_GROUPED = re.compile(
    r"(?:.*[^a-z])?(?:patient|subject|person|participant|user|customer|client|account|session|visit"
    r"|visitor|household|family|group|speaker|student|animal|device)s?[_ .-]?(?:id|nr|no|number)?",
    re.IGNORECASE,
)
"""Names of columns that may say which rows belong together."""
LEAST_GROUPS, ROWS_OF_GROUPS = 10, (2, 50)
"""On average."""


def arrays_beside(source: Description) -> list[str]:
    return [array for one in source.beside for array in ARRAYS[one["role"]]]


def write_values(folder: Path, role: str, values: Values, column: str | int) -> None:
    """Write weights or times (n_samples,), NaN for a missing one. Raises InvalidContent with each
    that is missing or not a weight, or if no row counts."""
    faults, hint = Faults(), TIME_HINT
    right = ~np.isnan(values)
    if role == "weight":
        hint = WEIGHT_HINT
        right = (values == 0) | ((values >= 1.0 / LARGEST) & (values <= LARGEST))
    for i in np.flatnonzero(~right).tolist():
        if np.isnan(values[i]):
            code, message, value = "missing-value", f"the {role} is missing", None
        else:
            code, message, value = "not-a-number", "is not a weight", f"{values[i]:g}"
        faults.add(code, message, value, hint, row=i + 1, column=column)
    faults.check()
    if role == "weight" and not values.any():
        message = f"column {called(column)}: every weight is 0, so that no row counts"
        raise refuse("empty-data", message, column=column, hint=hint)
    write_array(folder / f"{ARRAYS[role][0]}.npy", values + 0.0)  # -0.0 becomes 0.0


_WHOLE = re.compile(r"\A(-?[0-9]+)\.0+\Z")


def code_texts(runs: Iterable[Run]) -> tuple[Codes, list[str]]:
    """The groups of rows by their texts, as positions in their names. An empty one is -1. `17.0` is
    `17`: whole numbers are written so once a cell of their column is empty."""
    names: dict[str, int] = {"": -1}
    codes: list[int] = []
    for octets, lengths in runs:
        joined, bounds = octets.tobytes(), pairwise([0, *np.cumsum(lengths).tolist()])
        texts = (level_of(joined[start:end].decode()) for start, end in bounds)
        texts = (_WHOLE.sub(r"\1", text) for text in texts)
        codes += [names.setdefault(text, len(names) - 1) for text in texts]
    return np.array(codes, np.int64), list(names)[1:]


def write_groups(folder: Path, codes: Codes, names: list[str]) -> None:
    """Write groups (n_samples,) that are positions in `names`, which may be in any order, and of
    which some may be unused; -1 for a row without a group."""
    used = np.flatnonzero(np.bincount(codes[codes >= 0], minlength=len(names))).tolist()
    used.sort(key=names.__getitem__)
    place = np.full(len(names) + 1, -1, np.int32)  # the last one is that of -1
    place[used] = np.arange(len(used))
    write_array(folder / "groups.npy", place[codes])
    text = orjson.dumps([names[i] for i in used])
    write_array(folder / "group_names.npy", np.frombuffer(text, np.uint8))


def write_chosen_beside(
    source: Description, files: Files, rows: npt.NDArray[np.bool_], folder: Path
) -> None:
    """Write the arrays of some rows."""
    for role, array in _first_arrays(source):
        values = np.load(files(array))[rows]
        if role == "group":
            write_groups(folder, values, _names(files))
        else:
            write_array(folder / f"{array}.npy", values)


def append_beside(stored: Stored, table: Description, folder: Path) -> None:
    """Write the arrays of the rows stored and those in `folder`. Raises InvalidContent
    `feature-mismatch` if only one side has a role."""
    for role in BESIDE:
        if (stored.named(role) is None) != (table.named(role) is None):
            who = ("dataset", "rows") if stored.named(role) else ("rows", "dataset")
            have, lack = ("has" if one == "dataset" else "have" for one in who)
            message = f"the {who[0]} {have} {WORDS[role]}, the {who[1]} {lack} none"
            hint = f"send both with {WORDS[role]}, or none"
            raise refuse("feature-mismatch", message, hint=hint)
    for role, array in _first_arrays(stored):
        before, after = np.load(stored.path(array)), np.load(folder / f"{array}.npy")
        if role != "group":
            write_array(folder / f"{array}.npy", np.concatenate((before, after)))
            continue
        names = dict.fromkeys(_names(stored.path))
        new = _names(in_folder(folder))
        place = {name: i for i, name in enumerate(dict.fromkeys((*names, *new)))}
        codes = np.array([*map(place.__getitem__, new), -1])[after]
        write_groups(folder, np.concatenate((before, codes)), list(place))


def bytes_beside(source: Description, folder: Path) -> Iterator[bytes | memoryview]:
    """What the digest covers. Equal numbers and dates differ in it."""
    for one in source.beside:
        for array in ARRAYS[one["role"]]:
            yield (array + one["kind"] if array == "times" else array).encode()
            for block in blocks(folder / f"{array}.npy"):
                yield np.ascontiguousarray(block).data


def statistics_beside(source: Description, folder: Path) -> dict[str, Any]:
    """Of groups and times."""
    known: dict[str, Any] = {}
    if source.group is not None:
        codes = np.load(folder / "groups.npy")
        counts = np.bincount(codes[codes >= 0])
        known["group"] = {"distinct": len(counts), "largest": int(counts.max(initial=0))}
    if source.time is not None:
        times = np.unique(np.load(folder / "times.npy"))
        ends = {"min": float(times[0]), "max": float(times[-1])}
        known["time"] = {**ends, "distinct": len(times)}
    return known


MOST_LIKELY = 8
"""Columns that are looked at for other roles."""


def likely_roles(table: Table, folder: Path) -> Iterator[dict[str, Any]]:
    """Warnings about features that rather have another role: groups by their names, if few rows
    have each, and dates in which the file is sorted."""
    looked_at = 0  # each is a pass over the table
    for i, column in enumerate(() if table.sparse or table.columns is None else table.kinds):
        if looked_at == MOST_LIKELY:
            return
        may_group = table.group is None and _GROUPED.fullmatch(column.name)
        if may_group and column.kind in ("category", "number"):
            values, looked_at = _column(table, folder, i), looked_at + 1
            count = len(np.unique(values[~np.isnan(values)]))
            mean = len(values) / max(count, 1)
            if count >= LEAST_GROUPS and ROWS_OF_GROUPS[0] <= mean <= ROWS_OF_GROUPS[1]:
                message = (
                    f"{column.name!r} has {count:,} values with {mean:.0f} rows each on average; "
                )
                message += "if these rows belong together, as those of one patient or user do, "
                message += "make it the group: no split has them on both sides"
                yield warning("likely-group", message, [column.name])
        if table.time is None and column.kind == "date" and not column.missing:
            values, looked_at = _column(table, folder, i), looked_at + 1
            if len(np.unique(values)) >= LEAST_GROUPS and (np.diff(values) >= 0).all():
                message = (
                    f"the rows are in the order of {column.name!r}; if the model is for later "
                )
                message += "rows, make it the time: a split then trains on the past"
                yield warning("likely-time", message, [column.name])


def _column(table: Table, folder: Path, i: int) -> Values:
    return np.concatenate([block[:, i] for block in raw_blocks(table, in_folder(folder))])


def columns_beside(stored: Stored) -> tuple[list[TableColumn], Values]:
    """The columns for a file, and their values (n_samples, columns): a group is a level."""
    columns, values = [], [np.empty((stored.n_samples, 0))]
    for one in stored.beside:
        levels = _names(stored.path) if one["role"] == "group" else []
        array = np.load(stored.path(ARRAYS[one["role"]][0])).astype(np.float64)
        if one["role"] == "group":
            array[array < 0] = np.nan
        kind = "category" if one["role"] == "group" else one["kind"]
        columns.append({"name": one["name"], "kind": kind, "levels": levels})
        values.append(array[:, None])
    return columns, np.hstack(values)


def apart_of(stored: Stored) -> dict[str, Any]:
    """The `groups`, `times` and `weights` of rows, if they have them."""
    files = {role: np.load(stored.path(array)) for role, array in _first_arrays(stored)}
    groups = own_numbers(files["group"]) if "group" in files else None
    return {"groups": groups, "times": files.get("time"), "weights": files.get("weight")}


def own_numbers(groups: npt.NDArray[np.int32]) -> Codes:
    """The groups (n_samples,); a row without one gets a number of its own, above all others."""
    numbers = groups.astype(np.int64)
    alone = np.flatnonzero(numbers < 0)
    numbers[alone] = numbers.max(initial=-1) + 1 + np.arange(len(alone))
    return numbers


def _first_arrays(source: Description) -> Iterable[tuple[str, str]]:
    return ((one["role"], ARRAYS[one["role"]][0]) for one in source.beside)


def _names(files: Files) -> list[str]:
    names: list[str] = orjson.loads(np.load(files("group_names")).tobytes())
    return names
