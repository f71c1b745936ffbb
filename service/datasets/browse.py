"""Rows of a dataset as people know them: any few of them, filtered and sorted.

Rows are read where they are in the files. A filter or an order needs whole columns: it is refused
if more than `MOST_BYTES` would be read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson

from service.datasets.dataset import Dataset
from service.datasets.store import DatasetFiles
from service.errors import InvalidRequest
from service.rows.cell_texts.dates import days
from service.rows.rendering import cells_of, label_name
from service.rows.spec import TableColumn
from service.rows.table.writers import MISSING_CODE, coded_positions
from svm.data.matrices import Indices
from svm.data.texts import TextList, Texts

MOST_BYTES = 128 * 1024 * 1024
MOST_CONDITIONS = 10
MOST_ENTRIES = 20
"""Shown of a sparse row."""
_PAGE_BYTES = 4096
_SHOWN = 40

Test: TypeAlias = Literal["is", "contains", "at-least", "at-most", "missing"]
Role: TypeAlias = Literal["label", "weight", "group", "time", "feature", "entries", "predicted"]
Values: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Condition:
    """What a cell must be."""

    column: str
    test: Test
    value: str = ""


@dataclass(frozen=True, slots=True)
class Order:
    """Rows by a column, missing cells last; equal ones by their number."""

    column: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class ShownColumn:
    """A column of the table that is shown."""

    name: str
    kind: str
    role: Role = "feature"
    levels: Sequence[str] = ()
    """Of a category."""
    position: int = -1
    """Of a feature."""

    @property
    def described(self) -> TableColumn:
        return {"kind": self.kind, "levels": list(self.levels)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsPage:
    """Some rows."""

    columns: Sequence[ShownColumn]
    numbers: Sequence[int]
    """Of the rows in the dataset, from 1."""
    cells: Sequence[Sequence[Any]]
    """Of each row; None if it is missing. Of `entries` pairs of the name and the value of what is
    not zero, and how many there are."""
    offset: int
    total: int
    """Rows that meet the conditions."""


class DatasetRows:
    """The rows of one dataset. Every method raises Corrupt."""

    def __init__(self, files: DatasetFiles, dataset: Dataset, most_bytes: int = MOST_BYTES) -> None:
        """`most_bytes`: read of the files to filter or sort."""
        self._files, self._dataset = files, dataset
        self._most_bytes = most_bytes
        self._arrays: dict[str, npt.NDArray[Any]] = {}
        self._coded = coded_positions(dataset.table)
        taken: list[ShownColumn] = []
        if dataset.n_distinct_labels:
            taken.append(self._label(label_name(dataset)))
        for one in dataset.beside:
            name = one["name"] if dataset.columns else one["role"]
            levels = self._group_names() if one["role"] == "group" else ()
            kind = "category" if one["role"] == "group" else one["kind"]
            taken.append(ShownColumn(name, kind, one["role"], levels))  # type: ignore[arg-type]
        self.leading = taken
        """The label, and what is beside the features."""

    def page(
        self,
        conditions: Sequence[Condition] = (),
        order: Order | None = None,
        *,
        offset: int = 0,
        limit: int,
        first: int = 0,
        columns: int,
        row: int | None = None,
    ) -> RowsPage:
        """Rows from `offset` of those that meet all conditions, or those around `row` if it is one
        of them; features from `first`. Raises InvalidRequest."""
        chosen = self._select(conditions, order)
        total = self._dataset.n_samples if chosen is None else len(chosen)
        if row is not None:
            self._check_row(row)
            places = [row - 1] if chosen is None else np.flatnonzero(chosen == row - 1)[:1].tolist()
            offset = places[0] // limit * limit if places else offset
        span = np.arange(min(offset, total), min(offset + limit, total))
        rows = span if chosen is None else chosen[span]
        shown = [*self.leading, *self.features(first, columns)]
        by_column = [self._cells(column, rows) for column in shown]
        return RowsPage(
            columns=shown,
            numbers=(rows + 1).tolist(),
            cells=list(zip(*by_column, strict=True)),
            offset=offset,
            total=total,
        )

    def features_of(self, row: int) -> list[Any]:
        """Cells of all features of a row. Raises InvalidRequest."""
        self._check_row(row)
        if not self._dataset.sparse:
            some, n_features = np.array([row - 1]), self._dataset.n_features
            return [self._cells(column, some)[0] for column in self.features(0, n_features)]
        start, end = self._array("indptr")[row - 1 : row + 1].tolist()
        values = np.zeros(self._dataset.n_features)
        values[self._array("indices")[start:end]] = self._array("data")[start:end]
        cells: list[Any] = values.tolist()
        return cells

    def label_of(self, row: int) -> Any:
        """None if there is none. Raises InvalidRequest."""
        self._check_row(row)
        labels = [one for one in self.leading if one.role == "label"]
        return self._cells(labels[0], np.array([row - 1]))[0] if labels else None

    def _check_row(self, row: int) -> None:
        n = self._dataset.n_samples
        if row > n:
            raise _invalid(f"there is no row {row:,}: the dataset has {n:,} rows")

    def features(self, first: int, count: int) -> list[ShownColumn]:
        """Some features; of sparse rows what is not zero together."""
        if self._dataset.sparse:
            return [ShownColumn("entries", "entries", "entries")]
        stop = min(first + count, self._dataset.n_features)
        return [self._feature(i) for i in range(first, stop)]

    def column(self, name: str) -> ShownColumn:
        """Raises InvalidRequest."""
        for one in self.leading:
            if one.name == name:
                return one
        position = self._positions.get(name)
        if self._dataset.columns is None and name.isdecimal() and name.isascii() and len(name) < 10:
            position = int(name)
        if position is None or position >= self._dataset.n_features:
            raise _invalid(f"there is no column {_short(name)} to filter or sort by")
        return self._feature(position)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self._dataset.columns or ())}

    def _feature(self, i: int) -> ShownColumn:
        dataset = self._dataset
        name = str(i) if dataset.columns is None else dataset.columns[i]
        if not dataset.table:
            return ShownColumn(name, "number", position=i)
        column = dataset.table[i]
        return ShownColumn(name, column["kind"], levels=column["levels"], position=i)

    def _label(self, name: str) -> ShownColumn:
        classes = self._dataset.classes
        if classes is None or not isinstance(classes[0], str):
            kind = "boolean" if classes and isinstance(classes[0], bool) else "number"
            return ShownColumn(name, kind, "label")
        return ShownColumn(name, "category", "label", list(map(str, classes)))

    def _group_names(self) -> list[str]:
        names: list[str] = orjson.loads(self._array("group_names").tobytes())
        return names

    def _select(self, conditions: Sequence[Condition], order: Order | None) -> Indices | None:
        """Numbers of rows from 0; None for all, in their order. Raises InvalidRequest."""
        if len(conditions) > MOST_CONDITIONS:
            raise _invalid(f"give at most {MOST_CONDITIONS} conditions")
        named = [one.column for one in conditions] + ([order.column] if order else [])
        columns = [self.column(name) for name in named]
        self._check_size(columns)
        if not columns:
            return None
        kept = np.ones(self._dataset.n_samples, dtype=bool)
        for one, column in zip(conditions, columns, strict=False):
            kept &= self._meets(one, column)
        rows: Indices = np.flatnonzero(kept)
        if order is None:
            return rows
        keys = self._keys(columns[-1])[rows]
        return rows[np.argsort(-keys if order.descending else keys, kind="stable")]

    def _check_size(self, columns: Sequence[ShownColumn]) -> None:
        needed = {column.name: self._bytes_of(column) for column in columns}
        if sum(needed.values()) > self._most_bytes:
            name = max(needed, key=needed.__getitem__)
            megabytes = sum(needed.values()) / 1e6, self._most_bytes / 1e6
            raise _invalid(
                f"the dataset is too large to be filtered or sorted by {_short(name)}: "
                f"{megabytes[0]:,.0f} MB would be read, at most {megabytes[1]:,.0f} MB are; "
                "split off a smaller part, or download the data"
            )

    def _bytes_of(self, column: ShownColumn) -> int:
        """Read from the files for all values."""
        dataset = self._dataset
        if column.role != "feature":
            return 8 * dataset.n_samples
        if dataset.sparse:
            return sum(self._array(name).nbytes for name in ("indptr", "indices", "data"))
        array = self._array(self._place(column.position)[0])
        read = min(array.nbytes, max(_PAGE_BYTES, array.itemsize) * len(array))
        return read + (self._array("texts").nbytes if column.kind == "text" else 0)

    def _meets(self, condition: Condition, column: ShownColumn) -> npt.NDArray[np.bool_]:
        values, test = self._values(column), condition.test
        missing = np.isnan(values)
        if test == "missing":
            return missing
        if column.kind in ("category", "text"):
            accepts = _text_test(condition, column)
            if column.kind == "category":
                accepted = np.array([*map(accepts, column.levels), False], dtype=bool)
                return accepted[np.where(missing, len(column.levels), values).astype(np.int64)]
            met = np.zeros(len(values), dtype=bool)
            texts = self._texts.take(values[~missing].astype(np.int64).tolist())
            met[~missing] = list(map(accepts, texts))
            return met
        low, high = _bounds(condition, column)
        with np.errstate(invalid="ignore"):
            return (values >= low) & (values <= high)

    def _keys(self, column: ShownColumn) -> Values:
        """By which rows are sorted; NaN for a missing cell."""
        values = self._values(column)
        if column.kind not in ("category", "text"):
            return values
        there = ~np.isnan(values)
        codes = values[there].astype(np.int64)
        texts = self._texts.take(codes.tolist()) if column.kind == "text" else column.levels
        ranks = {text: rank for rank, text in enumerate(sorted(set(texts)))}
        ranked = np.array([ranks[text] for text in texts], dtype=np.float64)
        values[there] = ranked if column.kind == "text" else ranked[codes]
        return values

    def _cells(self, column: ShownColumn, rows: Indices) -> list[Any]:
        if column.role == "entries":
            return [self._entries(row) for row in rows.tolist()]
        texts = self._texts if column.kind == "text" else TextList()
        return cells_of(self._values(column, rows), column.described, texts)

    def _entries(self, row: int) -> tuple[list[tuple[str, float]], int]:
        start, end = self._array("indptr")[row : row + 2].tolist()
        some = slice(start, min(end, start + MOST_ENTRIES))
        positions, values = self._array("indices")[some], self._array("data")[some]
        names = [self._feature(i).name for i in positions.tolist()]
        return list(zip(names, values.tolist(), strict=True)), end - start

    def _values(self, column: ShownColumn, rows: Indices | slice = slice(None)) -> Values:
        """(rows,) a copy: numbers, days, 0 and 1, positions of levels or texts; NaN if missing."""
        if column.role == "feature":
            return self._values_of_feature(column.position, rows)
        if column.role == "label":
            stored = (self._files.array_if_any(self._dataset, name) for name in ("y", "values"))
            codes, values = self._dataset.labels_of(*stored)
            if codes is None:
                assert values is not None
                return values[rows].astype(np.float64)
            if column.kind == "category":
                return codes[rows].astype(np.float64)
            return np.array(self._dataset.classes, dtype=np.float64)[codes[rows]]
        given = self._array(f"{column.role}s")[rows].astype(np.float64)
        if column.role == "group":
            given[given < 0] = np.nan
        return given

    def _values_of_feature(self, position: int, rows: Indices | slice) -> Values:
        if self._dataset.sparse:
            indptr = self._array("indptr")
            at = np.flatnonzero(self._array("indices") == position)
            values = np.zeros(self._dataset.n_samples)
            values[np.searchsorted(indptr, at, side="right") - 1] = self._array("data")[at]
            return values[rows]
        name, place = self._place(position)
        given = self._array(name)[rows, place]
        values = given.astype(np.float64)
        if name == "codes":
            values[given == MISSING_CODE] = np.nan
        return values

    def _place(self, position: int) -> tuple[str, int]:
        """The array of a dense feature, and its position there."""
        before = int(np.searchsorted(self._coded, position))
        if before < len(self._coded) and self._coded[before] == position:
            return "codes", before
        return "X", position - before

    def _array(self, name: str) -> npt.NDArray[Any]:
        if name not in self._arrays:
            self._arrays[name] = self._files.array(self._dataset, name)
        return self._arrays[name]

    @cached_property
    def _texts(self) -> Texts:
        return self._files.texts(self._dataset, self._files.array) or TextList()


def _text_test(condition: Condition, column: ShownColumn) -> Callable[[str], bool]:
    wanted = condition.value
    if condition.test == "is":
        return lambda text: text == wanted
    if condition.test == "contains":
        folded = wanted.casefold()
        return lambda text: folded in text.casefold()
    raise _invalid(f"{_short(column.name)} has texts: say is, contains or missing")


def _bounds(condition: Condition, column: ShownColumn) -> tuple[float, float]:
    """The smallest and the largest value that meets a condition. Raises InvalidRequest."""
    if condition.test == "contains":
        raise _invalid(f"{_short(column.name)} has no texts: say is, at-least, at-most or missing")
    low, high = _VALUES[column.kind](condition.value.strip(), column.name)
    if condition.test == "at-least":
        high = math.inf
    elif condition.test == "at-most":
        low = -math.inf
    return low, high


def _number(text: str, name: str) -> tuple[float, float]:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or "_" in text:
        raise _invalid(f"{_short(name)} has numbers, and {_short(text)} is not a finite number")
    return value, value


def _boolean(text: str, name: str) -> tuple[float, float]:
    value = {"true": 1.0, "1": 1.0, "false": 0.0, "0": 0.0}.get(text.casefold())
    if value is None:
        raise _invalid(f"{_short(name)} is true or false, not {_short(text)}")
    return value, value


def _date(text: str, name: str) -> tuple[float, float]:
    """A moment, or a whole day."""
    value = days(text)
    if value is None:
        raise _invalid(f"{_short(name)} has dates, and {_short(text)} is none such as 2024-12-31")
    whole_day = value.is_integer() and len(text) <= 10
    return value, math.nextafter(value + 1, value) if whole_day else value


_VALUES: dict[str, Callable[[str, str], tuple[float, float]]] = {
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")


def _invalid(message: str) -> InvalidRequest:
    return InvalidRequest("invalid-parameter", message)
