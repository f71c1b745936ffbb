"""Rows of a dataset as people know them: any few of them, filtered and sorted.

Rows are read where they are in the files. A filter or an order needs whole columns: it is refused
if more than `MOST_BYTES` or `MOST_TEXTS` would be read, and a large one waits for those before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from threading import BoundedSemaphore
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import orjson

from service.datasets.conditions import (
    MOST_CONDITIONS,
    Condition,
    Order,
    bounds,
    invalid,
    short,
    text_test,
)
from service.datasets.dataset import Dataset
from service.datasets.store import DatasetFiles
from service.errors import Unavailable
from service.rows.rendering import cells_of, label_name
from service.rows.spec import TableColumn
from service.rows.table.writers import MISSING_CODE, coded_positions
from svm.data.matrices import Indices
from svm.data.texts import TextList, Texts

MOST_BYTES = 128 * 1024 * 1024
MOST_TEXTS = 200_000
"""Read for one request, each condition and the order counted."""
MOST_ENTRIES = 20
"""Shown of a sparse row."""
SCANS = 4
"""Large ones at most, of which one reads and others wait: they hold threads of all requests."""
_LARGE_BYTES = 1024 * 1024
_WAIT_S = 2
_TEXTS_AT_ONCE = 1000
_DECODED = 4
"""Bytes of memory for one of a text."""
_PAGE_BYTES = 4096

Role: TypeAlias = Literal["label", "weight", "group", "time", "feature", "entries", "predicted"]
Values: TypeAlias = npt.NDArray[np.float64]

_scans, _scanning = BoundedSemaphore(SCANS), BoundedSemaphore(1)


@contextmanager
def scanning() -> Iterator[None]:
    """Raises Unavailable if others read, too, and it would take long until they end."""
    if not _scans.acquire(blocking=False):
        raise _busy()
    try:
        if not _scanning.acquire(timeout=_WAIT_S):
            raise _busy()
        try:
            yield
        finally:
            _scanning.release()
    finally:
        _scans.release()


def _busy() -> Unavailable:
    detail = "other large datasets are filtered or sorted now"
    return Unavailable("overloaded", detail, retry_after_s=_WAIT_S)


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

    @property
    def named(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The number of each row, and its cells by column, entries among them."""
        names = [column.name for column in self.columns]
        of_entries = bool(self.columns) and self.columns[-1].role == "entries"
        for number, cells in zip(self.numbers, self.cells, strict=True):
            named = dict(zip(names, cells, strict=True))
            if of_entries:
                named |= named.pop("entries")[0]
            yield number, named


class DatasetRows:
    """The rows of one dataset. Every method raises Corrupt."""

    def __init__(
        self,
        files: DatasetFiles,
        dataset: Dataset,
        *,
        most_bytes: int = MOST_BYTES,
        most_texts: int = MOST_TEXTS,
        most_entries: int = MOST_ENTRIES,
    ) -> None:
        """`most_bytes`, `most_texts`: read to filter or sort. `most_entries`: of a sparse row."""
        self._files, self._dataset = files, dataset
        self._most_bytes, self._most_texts = most_bytes, most_texts
        self._most_entries = most_entries
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
        among: Indices | None = None,
    ) -> RowsPage:
        """Rows from `offset` of those that meet all conditions, or those around `row` if it is one
        of them; features from `first`. `among`: numbers from 0 instead of conditions. Raises
        InvalidRequest, Unavailable."""
        chosen = self._select(conditions, order) if among is None else among
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

    @property
    def width(self) -> int:
        """Cells of a row; of sparse ones on average."""
        n_features = self._dataset.n_features
        if self._dataset.sparse:
            n_features = len(self._array("data")) // self._dataset.n_samples
        return len(self.leading) + max(1, n_features)

    def whole(self, row: int) -> tuple[Any, list[Any]]:
        """The label of a row, None if it has none, and the cells of all features. Raises
        InvalidRequest."""
        self._check_row(row)
        some, n_features = np.array([row - 1]), self._dataset.n_features
        labels = [self._cells(one, some)[0] for one in self.leading if one.role == "label"]
        if self._dataset.sparse:
            start, end = self._array("indptr")[row - 1 : row + 1].tolist()
            cells = np.zeros(n_features)
            cells[self._array("indices")[start:end]] = self._array("data")[start:end]
            return next(iter(labels), None), cells.tolist()
        features = self.features(0, n_features)
        return next(iter(labels), None), [self._cells(one, some)[0] for one in features]

    def _check_row(self, row: int) -> None:
        n = self._dataset.n_samples
        if row > n:
            raise invalid(f"there is no row {row:,}: the dataset has {n:,} rows")

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
            raise invalid(f"there is no column {short(name)} to filter or sort by")
        return self._feature(position)

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self._dataset.columns or ())}

    def check(self, condition: Condition) -> None:
        """Raises InvalidRequest if no cell can be like that."""
        column = self.column(condition.column)
        if condition.test == "missing":
            return
        if column.kind in ("category", "text"):
            text_test(condition)
        else:
            bounds(condition, column.kind)

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
        """Numbers of rows from 0; None for all, in their order. Raises as `page`."""
        if len(conditions) > MOST_CONDITIONS:
            raise invalid(f"give at most {MOST_CONDITIONS} conditions")
        named = [one.column for one in conditions] + ([order.column] if order else [])
        columns = [self.column(name) for name in named]
        if not columns:
            return None
        of_texts = [
            one
            for one, column in zip(conditions, columns, strict=False)
            if column.kind == "text" and one.test != "missing"
        ]
        n_texts = len(of_texts) + (order is not None and columns[-1].kind == "text")
        needed = self._check_size(columns, n_texts * self._dataset.n_samples)
        with scanning() if needed > _LARGE_BYTES else nullcontext():
            return self._selected(conditions, of_texts, order)

    def _selected(
        self, conditions: Sequence[Condition], of_texts: Sequence[Condition], order: Order | None
    ) -> Indices:
        kept = np.ones(self._dataset.n_samples, dtype=bool)
        for one in conditions:
            if one not in of_texts:
                kept &= self._meets(one, self.column(one.column))
        rows: Indices = np.flatnonzero(kept)
        for one in of_texts:  # the slow ones, of what the others left
            rows = rows[self._text_meets(one, self.column(one.column), rows)]
        if order is None:
            return rows
        keys = self._keys(self.column(order.column), rows)
        return rows[np.argsort(-keys if order.descending else keys, kind="stable")]

    def _check_size(self, columns: Sequence[ShownColumn], n_texts: int) -> int:
        """How many bytes are needed."""
        needed = {column.name: self._bytes_of(column) for column in columns}
        total, name = sum(needed.values()), short(max(needed, key=needed.__getitem__))
        if total > self._most_bytes:
            much = f"{total / 1e6:,.0f} MB would be read, at most {self._most_bytes / 1e6:,.0f} MB"
        elif n_texts > self._most_texts:
            much = f"{n_texts:,} texts would be read, at most {self._most_texts:,}"
        else:
            return total
        raise invalid(
            f"the dataset is too large to be filtered or sorted by {name}: {much} are; "
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
        return read + (_DECODED * self._array("texts").nbytes if column.kind == "text" else 0)

    def _meets(self, condition: Condition, column: ShownColumn) -> npt.NDArray[np.bool_]:
        values, test = self._values(column), condition.test
        missing = np.isnan(values)
        if test == "missing":
            return missing
        if column.kind == "category":
            accepted = np.array([*map(text_test(condition), column.levels), False], dtype=bool)
            return accepted[np.where(missing, len(column.levels), values).astype(np.int64)]
        low, high = bounds(condition, column.kind)
        with np.errstate(invalid="ignore"):
            return (values >= low) & (values <= high)

    def _text_meets(
        self, condition: Condition, column: ShownColumn, rows: Indices
    ) -> npt.NDArray[np.bool_]:
        values, accepts = self._values(column, rows), text_test(condition)
        there = ~np.isnan(values)
        met = np.zeros(len(rows), dtype=bool)
        met[there] = [accepts(text) for text in self._read_texts(values[there])]
        return met

    def _read_texts(self, positions: Values) -> Iterator[str]:
        """Some at a time."""
        places = positions.astype(np.int64)
        for start in range(0, len(places), _TEXTS_AT_ONCE):
            yield from self._texts.take(places[start : start + _TEXTS_AT_ONCE].tolist())

    def _keys(self, column: ShownColumn, rows: Indices) -> Values:
        """By which rows are sorted; NaN for a missing cell."""
        values = self._values(column, rows)
        if column.kind not in ("category", "text"):
            return values
        there = ~np.isnan(values)
        of_text = column.kind == "text"
        texts = list(self._read_texts(values[there])) if of_text else column.levels
        ranks = {text: rank for rank, text in enumerate(sorted(set(texts)))}
        ranked = np.array([ranks[text] for text in texts], dtype=np.float64)
        values[there] = ranked if of_text else ranked[values[there].astype(np.int64)]
        return values

    def _cells(self, column: ShownColumn, rows: Indices) -> list[Any]:
        if column.role == "entries":
            return [self._entries(row) for row in rows.tolist()]
        texts = self._texts if column.kind == "text" else TextList()
        return cells_of(self._values(column, rows), column.described, texts)

    def _entries(self, row: int) -> tuple[list[tuple[str, float]], int]:
        start, end = self._array("indptr")[row : row + 2].tolist()
        some = slice(start, min(end, start + self._most_entries))
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
