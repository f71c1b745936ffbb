"""The features that rows must have, and how names are matched with them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import call, itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import svm.data.columns
from service.errors import MAX_FAULTS, MAX_VALUE_CHARACTERS, Fault, InvalidContent
from service.rows.cell_faults import add_not_finite, fault_of_free_text, refuse_missing
from service.rows.cell_texts.number_styles import NumberStyle
from service.rows.cell_texts.reading import USUAL, Reading
from service.rows.cell_values import BadCell, Reader, read_cell, reader_of
from service.rows.faults import Faults, listed, too_many
from svm.data.columns import Column, Kind, PlainColumns, text_columns
from svm.data.matrices import Matrix, Vector, is_sparse
from svm.data.texts import TextList, stacked, texts_of, with_texts

WIDTH_HINT = "send one number for each feature, without the label"
NAMES_HINT = "send every column of the model, in any order; other columns are ignored"
FIRST_LINE_HINT = f"the first line must hold the names of the columns; {NAMES_HINT}"
TEXT_HINT = "send the rows as JSON, NDJSON or CSV to the model's predict path below /v1/models"
MOST_VALUES = 1 << 22
"""Of sparse rows that are made dense."""
_NUMBERS = frozenset({float, int, bool})
PYTHON_MISSING = frozenset({"None", "nan"})
"""What a client in Python makes of missing values where it has to send texts."""


@dataclass(frozen=True)
class Columns:
    """The features of a model or a dataset."""

    n_features: int
    names: list[str] | None = None
    table: svm.data.columns.Columns = None  # type: ignore[assignment]
    """Their kinds and levels; by default all of them are finite numbers."""
    refuses_missing: bool = False
    """A missing number, boolean or date is an error."""
    refused: Mapping[str, frozenset[str]] | None = None
    """Of a table, by column: levels that are an error, as is every unknown one. None if none is."""

    reading: Reading = USUAL
    """How the training file was written: rows in text files may be written so, too."""

    def __post_init__(self) -> None:
        if self.table is None:
            object.__setattr__(self, "table", PlainColumns(self.names, self.n_features))
            object.__setattr__(self, "refuses_missing", True)

    @cached_property
    def is_plain(self) -> bool:
        """Whether rows are finite numbers."""
        return isinstance(self.table, PlainColumns)

    def column(self, position: int) -> str | int:
        """What a fault calls a feature."""
        return position if self.names is None else self.names[position]

    @cached_property
    def names_set(self) -> frozenset[str]:
        return frozenset(self.names or ())

    @cached_property
    def _by_stripped(self) -> dict[str, str]:
        return {name.strip(): name for name in reversed(self.names or ())}

    def without_blanks(self, given: Collection[str]) -> list[str]:
        """The names that came; those that are not of features, but are so without the blanks around
        them, are replaced by these."""
        if self.names_set.issubset(given):
            return list(given)
        free = self.names_set.difference(given)
        features = ((name, self._by_stripped.get(name.strip())) for name in given)
        return [feature if feature in free else name for name, feature in features]

    @cached_property
    def _of_objects(self) -> dict[str, list[str]]:
        """The features such as `a.b` by what comes before a point."""
        names: dict[str, list[str]] = {}
        for name in self.names or ():
            for i, mark in enumerate(name):
                if mark == ".":
                    names.setdefault(name[:i], []).append(name)
        return names

    def named(self, row: dict[str, Any]) -> dict[str, Any]:
        """The same row of an object whose names may have blanks around them, and whose cells may
        be objects with features, such as `a.b`, or null in place of these."""
        flat = dict(row)
        for name, cell in row.items():
            inner: dict[str, Any] = {}
            if type(cell) is dict:
                inner = {f"{name}.{key}": value for key, value in cell.items()}
            elif cell is None and name not in self.names_set:
                inner = dict.fromkeys(self._of_objects.get(name, ()))
            if flat.keys().isdisjoint(inner) and not self.names_set.isdisjoint(inner):
                del flat[name]
                flat |= inner
        names = self.without_blanks(flat)
        if len(set(names)) < len(flat):
            return flat
        return dict(zip(names, flat.values(), strict=True))

    @cached_property
    def take(self) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
        """The cells of an object, in order. Raises KeyError."""
        names = self.names or []
        return itemgetter(*names) if len(names) > 1 else lambda row: tuple(row[n] for n in names)

    @cached_property
    def n_colons(self) -> int:
        """In all names."""
        return "".join(self.names or ()).count(":")

    @cached_property
    def header(self) -> bytes | None:
        """The names as the first line of a CSV file, if none of them needs quotes."""
        names = self.names or []
        plain = names and not any(mark in name for name in names for mark in ',"\r\n')
        return ",".join(names).encode() if plain else None

    @cached_property
    def kinds(self) -> list[Kind]:
        """Those of the columns."""
        return [column.kind for column in self.table]

    @cached_property
    def value_readers(self) -> list[Reader]:
        """Of a table: for each column the raw value of a value in JSON."""
        return [self._reader(column, of_text=False) for column in self.table]

    @cached_property
    def _numbers_and_others(self) -> tuple[Callable[[list[Any]], Any], list[tuple[int, Reader]]]:
        """Of a table: what takes the numbers of a row, and the readers of its other cells."""
        numbers = [j for j, kind in enumerate(self.kinds) if kind == "number"]
        readers = zip(self.kinds, self.value_readers, strict=True)
        others = [(j, read) for j, (kind, read) in enumerate(readers) if kind != "number"]
        return itemgetter(*numbers, *numbers[:1]) if numbers else _nothing, others

    @cached_property
    def text_columns(self) -> list[int]:
        """The columns of texts."""
        return text_columns(self.table)

    @cached_property
    def is_text(self) -> bool:
        """Whether they are a single column of texts: rows in JSON may be texts alone."""
        return self.n_features == len(self.text_columns) == 1

    def as_rows(self, given: list[Any]) -> list[Any]:
        """Rows in JSON, of which those that are texts alone are lists."""
        return [[row] if type(row) is str else row for row in given] if self.is_text else given

    def matrix(self, rows: list[list[Any]]) -> Vector:
        """(n_samples, n_features) of rows that were read; it carries their texts."""
        texts: list[str] = []
        for j in self.text_columns:
            for row in rows:
                if type(row[j]) is str:
                    texts.append(row[j])
                    row[j] = len(texts) - 1
        X = np.array(rows, np.float64).reshape(len(rows), self.n_features)
        return with_texts(X, TextList(texts)) if self.text_columns else X

    def joined(self, parts: Sequence[Vector]) -> Vector:
        """Such matrices, one below the other."""
        return parts[0] if len(parts) == 1 else stacked(parts, self.text_columns)

    def check_texts(self, X: Vector, longest: int) -> None:
        """Raises InvalidContent `csv-cell-too-large` for texts of more than `longest` bytes."""
        faults = Faults()
        for j in self.text_columns:
            there = np.flatnonzero(~np.isnan(X[:, j]))
            texts = texts_of(X).take(X[there, j].astype(np.int64).tolist())
            for i, text in zip(there.tolist(), texts, strict=True):
                if (fault := fault_of_free_text(text, longest)) is not None:
                    faults.add(*fault, row=i + 1, column=self.column(j))
        faults.check()

    def raw_values(self, row: list[Any]) -> list[Any]:
        """Of a table: the raw values of a row in JSON, which is changed. Numbers need no reader.

        Raises ValueError, and as the readers.
        """
        numbers, others = self._numbers_and_others
        if len(row) != self.n_features:
            raise ValueError("the row has another width")
        if not _NUMBERS.issuperset(map(type, numbers(row))):
            return [read(cell) for read, cell in zip(self.value_readers, row, strict=True)]
        for j, read in others:
            row[j] = read(row[j])
        return row

    @cached_property
    def text_readers(self) -> list[Reader]:
        """The same of a cell of a text file."""
        return [self._reader(column, of_text=True) for column in self.table]

    @cached_property
    def _plain_readers(self) -> list[Reader]:
        """The same, sooner, of a row whose numbers are plain."""
        return [
            float if column.kind == "number" else read
            for column, read in zip(self.table, self.text_readers, strict=True)
        ]

    def raw_texts(self, row: list[str]) -> list[Any]:
        """Of a table: the raw values of a row of a text file. Raises BadCell."""
        take = self._numbers_and_others[0]
        numbers = "".join(take(row))
        if numbers.isascii() and "_" not in numbers:  # float() takes 1_000 and other digits
            try:
                values = list(map(call, self._plain_readers, row))
                if math.isfinite(sum(take(values))):  # it also takes nan
                    return values
            except ValueError:
                pass
        return [read(cell) for read, cell in zip(self.text_readers, row, strict=True)]

    @cached_property
    def styled_readers(self) -> list[Reader]:
        """The same of a text file whose numbers are written as in the training file; of finite
        numbers too."""
        style = self.reading.style
        return [self._reader(one, of_text=True, style=style(one.name)) for one in self.table]

    def _reader(self, column: Column, *, of_text: bool, style: NumberStyle | None = None) -> Reader:
        refused = None if self.refused is None else self.refused.get(column.name, ())
        return reader_of(
            column,
            of_text=of_text,
            refuses_missing=self.refuses_missing,
            refused=refused,
            reading=self.reading,
            style=style,
        )

    @cached_property
    def of_csv(self) -> Columns:
        """The same of rows that are CSV, whatever the training file was."""
        as_usual = replace(self.reading, delimiter=",", encoding="utf-8", trailing=False)
        return replace(self, reading=as_usual)

    @cached_property
    def of_tensors(self) -> Columns:
        """The same of a tensor for each column."""
        missing = self.reading.missing | PYTHON_MISSING
        return replace(self, reading=replace(self.reading, missing=missing))

    @cached_property
    def not_numbers(self) -> list[str]:
        """The columns of categories, dates and texts."""
        return [c.name for c in self.table if c.kind in ("category", "date", "text")]

    def require_numbers(self) -> None:
        """Raises InvalidContent `feature-mismatch` if rows of numbers cannot be rows of this table:
        it has categories or dates."""
        others = self.not_numbers
        if others:
            message = f"the model takes texts or dates, not numbers alone, for {listed(others)}"
            raise InvalidContent(
                "feature-mismatch", message, (_mismatch(message, others[0], TEXT_HINT),)
            )

    @cached_property
    def _missing_values(self) -> dict[float, NDArray[np.bool_]]:
        """The numbers that are words for missing cells, such as -999: for each its columns."""
        places: dict[float, NDArray[np.bool_]] = {}
        for j, column in enumerate(self.table):
            for value in self.reading.missing_values(column.name, column.kind):
                places.setdefault(value, np.zeros(self.n_features, dtype=bool))[j] = True
        return places

    def marked(self, X: Matrix) -> Matrix:
        """Rows with NaN for such numbers. Raises InvalidContent `missing-value` if the model takes
        no missing cells, TooLarge for many rows that are sparse, whose zeros may be such."""
        if not self._missing_values:
            return X
        if is_sparse(X):
            if math.prod(X.shape) > MOST_VALUES:
                raise too_many("values of sparse rows", MOST_VALUES)
            X = X.toarray()
        missing = np.zeros(X.shape, dtype=bool)
        for value, columns in self._missing_values.items():
            missing |= (value == X) & columns
        if self.refuses_missing:
            refuse_missing(X, missing, self.column)
        if missing.any():
            X = X.copy()  # which carries the same texts
            X[missing] = np.nan
        return X

    def checked(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """X, rows of numbers, if all of them are possible: finite, or in a table also NaN for a
        missing cell.

        Raises InvalidContent with every value that is not.
        """
        faults = Faults()
        if self.is_plain:
            values = X.ravel()
            # A value that is not finite shows in the sum of squares, which may overflow besides.
            if math.isfinite(values.dot(values)):
                return X
            add_not_finite(X, self.column, 1, faults)
        else:
            self.require_numbers()
            self._add_impossible(X, faults)
        faults.check()
        return X

    def _add_impossible(self, X: NDArray[np.float64], faults: Faults) -> None:
        booleans = np.array([column.kind == "boolean" for column in self.table])
        missing = np.isnan(X)
        bad = np.isinf(X) | (booleans & (X != 0.0) & (X != 1.0) & ~missing)
        if self.refuses_missing:
            bad |= missing
        for i, j in np.argwhere(bad):
            cell = None if missing[i, j] else float(X[i, j])
            try:
                read_cell(self.value_readers[j], cell)
            except BadCell as error:
                faults.add(*error.fault, row=int(i) + 1, column=self.column(int(j)))

    def order(self, what: str, names: list[str]) -> list[int]:
        """The position of each feature in a table ("the header") that has these names only.

        Raises InvalidContent `feature-mismatch`.
        """
        positions, others = self.select(what, names)
        if others:
            message = f"{what} has the unknown {listed(list(others))}"
            hint = "send each of the features once, in any order"
            raise self._refusal(message, others[0], hint, names)
        return positions

    def select(self, what: str, names: list[str]) -> tuple[list[int], tuple[str, ...]]:
        """The same of a table that may have other columns; and the names of these.

        Several columns may have no name. Raises InvalidContent `feature-mismatch`.
        """
        names = self.without_blanks(names)
        given = {name: position for position, name in enumerate(names)}
        twice = [name for name, count in Counter(names).items() if count > 1 and name]
        if twice:
            message = f"{what} repeats {listed(twice)}"
            raise self._refusal(message, twice[0], "name each column once", names)
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
        message = f"{what} {listed(missing)}"
        if unknown:
            message += f"; not of the model: {listed(unknown)}"
        hint = FIRST_LINE_HINT if what.startswith("the header") else NAMES_HINT
        extra = self._difference(names, missing[0])
        extra["missing"] = [name[:MAX_VALUE_CHARACTERS] for name in missing[:MAX_FAULTS]]
        return _mismatch(message, missing[0], hint, row), extra

    def _refusal(self, message: str, name: str, hint: str, names: list[str]) -> InvalidContent:
        fault = _mismatch(message, name, hint)
        return InvalidContent(fault.code, message, (fault,), extra=self._difference(names, name))

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


def _nothing(row: list[Any]) -> tuple[()]:
    return ()


def _mismatch(message: str, name: str, hint: str, row: int | None = None) -> Fault:
    return Fault(
        code="feature-mismatch",
        message=message,
        row=row,
        column=name[:MAX_VALUE_CHARACTERS],
        hint=hint,
    )
