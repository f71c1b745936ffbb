"""Encoders: raw values of a table to the outputs that a model multiplies.

The outputs are, in this order: numbers, booleans and the parts of dates in column order; one
indicator for each of these columns, and of the texts, that had missing cells in training; then for
each category one output a level, one for its rare levels together, and one for its missing cells if
training had any; then the tokens of the texts (`svm.encoding.texts`), column by column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np
from annotated_types import Ge, Le

from svm.data.columns import Columns, PlainColumns, raw_matrix, require_raw, text_columns
from svm.data.matrices import (
    LARGEST,
    Array,
    Indices,
    Mask,
    Matrix,
    Vector,
    as_matrix,
    in_layout,
    read_only,
)
from svm.encoding.texts import TextEncoder
from svm.errors import InvalidData
from svm.hyperparameters import Checked, Moderate, PositiveInt
from svm.transforms.scaling import NO_SCALING, Scaling

PARTS = ("year", "month", "weekday", "days")
"""Months are 1 … 12, weekdays 1 (Monday) … 7."""
BLOCK_ENTRIES = 1 << 18
"""Of texts, about, that are found at a time."""
BLOCK_ROWS = 4096
"""Whose numbers fit into the processor's cache."""


@dataclass(frozen=True, kw_only=True)
class Encoding(Checked):
    """How missing cells, rare levels and unseen ones are encoded. Everything is learned from the
    training rows."""

    missing: Literal["median", "mean", "constant", "refuse"] = "median"
    """What replaces a missing number, boolean or date. A column with missing cells in training also
    gets an indicator: 1 if the cell is missing. `refuse`: such rows are an error."""
    constant: Annotated[float, Ge(-LARGEST), Le(LARGEST)] = 0.0
    """The number for `missing: constant`; booleans and dates get their median then."""
    min_count: PositiveInt = 1
    """Levels of a category with fewer training rows share one output; tokens that fewer training
    texts have are left out."""
    tokens: Literal["auto", "words", "characters", "both"] = "auto"
    """Of texts. `words`: words and pairs of words. `characters`: runs of 2 to 4 characters inside
    words. `auto`: both if the median text has at most 200 characters, else words; characters alone
    for scripts without blanks between words."""
    sublinear: bool = False
    """Whether a token counts as 1 + ln(its count in the text)."""
    text_weights: dict[str, Moderate] = field(default_factory=dict, hash=False)
    """The norm of the outputs of some columns of texts, by name; 1 for the others. Beside numbers,
    a larger one lets the text decide more."""
    unseen: Literal["zero", "refuse"] = "zero"
    """A level without training rows counts as a rare one if there are such; if not, it adds nothing
    to a score. `refuse`: such rows are an error."""


@dataclass(frozen=True, kw_only=True)
class Encoder:
    """What was learned from the training rows: plain arrays, and the description of the columns."""

    encoding: Encoding
    columns: Columns
    missing: Indices
    """(n_columns,) missing cells of the training rows."""
    counts: Indices
    """(n_levels,) training rows of every level, one category after the other."""
    fills: Vector
    """(n_values,) for every output before the indicators: its value if the cell is missing."""
    texts: tuple[TextEncoder, ...] = ()
    """Of the columns of texts, in their order."""

    is_plain: ClassVar[bool] = False
    empty_cell: ClassVar[float] = np.nan

    @property
    def levels(self) -> Sequence[str]:
        """The levels of all categories."""
        return [level for column in self.columns for level in column.levels]

    @property
    def refuses_missing(self) -> bool:
        """Whether a missing number, boolean or date is an error."""
        return self.encoding.missing == "refuse"

    def named(self, names: Sequence[str] | None) -> Encoder:
        """Itself: it has the names of its columns."""
        return self

    def checked(self, X: Any) -> Matrix:
        """X as raw values that the encoding accepts. Raises InvalidData (`feature-mismatch`,
        `non-finite-value`, `missing-value`, …)."""
        raw = raw_matrix(X)
        require_raw(raw, self.columns)
        self.require_accepted(raw)
        return raw

    @cached_property
    def sources(self) -> Indices:
        """(n_values,) the column of every output before the indicators; four for a date."""
        return np.array(
            [
                j
                for j, column in enumerate(self.columns)
                if column.kind not in ("category", "text")
                for _ in (PARTS if column.kind == "date" else (None,))
            ],
            dtype=np.int64,
        )

    @cached_property
    def dates(self) -> list[int]:
        """The first output of each date."""
        kinds = [self.columns[j].kind for j in self.sources]
        return [k for k, kind in enumerate(kinds) if kind == "date"][:: len(PARTS)]

    @cached_property
    def scaled(self) -> Mask:
        """(n_values,) whether a scaling applies to the output: not to booleans."""
        kinds = [self.columns[j].kind for j in self.sources]
        return np.array([kind != "boolean" for kind in kinds], dtype=bool)

    @cached_property
    def indicated(self) -> Indices:
        """The columns with an indicator."""
        columns = enumerate(self.columns)
        return np.array(
            [j for j, one in columns if self.missing[j] and one.kind != "category"], dtype=np.int64
        )

    @cached_property
    def categories(self) -> Indices:
        """The columns that are categories."""
        kinds = [column.kind for column in self.columns]
        return np.array([j for j, kind in enumerate(kinds) if kind == "category"], dtype=np.int64)

    @cached_property
    def level_counts(self) -> dict[int, Indices]:
        """Of each category, by its position: (n_levels,) training rows that have the level."""
        sizes = [len(self.columns[j].levels) for j in self.categories.tolist()]
        parts = np.split(self.counts, np.cumsum(sizes)[:-1]) if sizes else []
        return dict(zip(self.categories.tolist(), parts, strict=True))

    @cached_property
    def text_columns(self) -> list[int]:
        """The columns of texts."""
        return text_columns(self.columns)

    @cached_property
    def text_start(self) -> int:
        """The first output of texts: those before are of all other columns."""
        return self.n_numbers + sum(len(part.names) for part in self._parts)

    def of_texts(self, coefficients: Vector) -> Iterator[tuple[int, TextEncoder, Vector]]:
        """Each column of texts, its encoder, and its part of the (n_problems, n_outputs)."""
        start = self.text_start
        for column, text in zip(self.text_columns, self.texts, strict=True):
            yield column, text, coefficients[:, start : start + text.n_outputs]
            start += text.n_outputs

    @property
    def n_numbers(self) -> int:
        """Outputs before those of levels."""
        return len(self.sources) + len(self.indicated)

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return self.text_start + sum(text.n_outputs for text in self.texts)

    @cached_property
    def output_columns(self) -> Indices:
        """(n_outputs,) the column that each output belongs to."""
        levels = [np.full(len(part.names), part.column) for part in self._parts]
        columns = zip(self.text_columns, self.texts, strict=True)
        texts = [np.full(text.n_outputs, j) for j, text in columns]
        return np.concatenate([self.sources, self.indicated, *levels, *texts]).astype(np.int64)

    @property
    def output_names(self) -> list[str]:
        """(n_outputs,) such as `Age`, `Born: month`, `Age: missing`, `Sex: male`, `Cabin: rare`,
        `Note: free`, `Note: "fre"`."""
        names = list(self.names_before_texts)
        for j, text in zip(self.text_columns, self.texts, strict=True):
            names += [f"{self.columns[j].name}: {name}" for name in text.names]
        return names

    @cached_property
    def names_before_texts(self) -> list[str]:
        """(text_start,) the first of them."""
        names = []
        for j, column in enumerate(self.columns):
            if column.kind == "date":
                names += [f"{column.name}: {part}" for part in PARTS]
            elif column.kind not in ("category", "text"):
                names.append(self.columns[j].name)
        names += [f"{self.columns[j].name}: missing" for j in self.indicated]
        for part in self._parts:
            names += [f"{self.columns[part.column].name}: {name}" for name in part.names]
        return names

    @cached_property
    def _parts(self) -> list[_Category]:
        return list(self._each_category())

    def _each_category(self) -> Iterator[_Category]:
        first = self.n_numbers
        for j, counts in self.level_counts.items():
            levels = self.columns[j].levels
            own = counts >= self.encoding.min_count
            rare = bool((~own & (counts > 0)).any())
            names = [level for level, alone in zip(levels, own, strict=True) if alone]
            n_own = len(names)
            names += ["rare"] * rare + ["missing"] * bool(self.missing[j])
            other = first + n_own if rare else -1
            missing = first + len(names) - 1 if self.missing[j] else -1
            outputs = np.where(own, first + np.cumsum(own) - 1, other)
            yield _Category(j, names, np.append(outputs, [other, missing]))
            first += len(names)

    @cached_property
    def slots(self) -> Indices:
        """(n_levels + 2 · n_categories,) for each category its levels, then an unknown level, then
        a missing cell: the number of the output that is 1. `text_start` if there is none."""
        slots = [part.outputs for part in self._parts]
        joined = np.concatenate([*slots, np.empty(0, dtype=np.int64)]).astype(np.int64)
        return np.where(joined < 0, self.text_start, joined)

    @cached_property
    def starts(self) -> Indices:
        """(n_categories,) the first slot of each."""
        sizes = [len(self.columns[j].levels) + 2 for j in self.categories]
        return np.cumsum([0, *sizes])[:-1].astype(np.int64)

    @cached_property
    def unknown(self) -> Indices:
        """(n_categories,) the slot of an unknown level; the next one is that of a missing cell."""
        sizes = [len(self.columns[j].levels) for j in self.categories]
        return self.starts + np.array(sizes, dtype=np.int64)

    def numbers(self, X: Vector) -> Vector:
        """The outputs before those of levels, unscaled: (n_samples, n_numbers)."""
        values: Vector = X.take(self.sources, axis=1)
        for first in self.dates:
            values[:, first : first + len(PARTS)] = date_parts(values[:, first])
        np.copyto(values, self.fills, where=np.isnan(values))
        if not len(self.indicated):
            return values
        return np.concatenate([values, np.isnan(X[:, self.indicated])], axis=1)

    def level_slots(self, X: Vector) -> Indices:
        """For every category the entry of `slots`: (n_samples, n_categories)."""
        codes = X[:, self.categories]
        missing = np.isnan(codes)
        codes[missing] = 0.0
        places = codes.astype(np.int64)
        places += self.starts
        np.copyto(places, self.unknown, where=codes < 0.0)
        np.copyto(places, self.unknown + 1, where=missing)
        return places

    def transform(
        self, X: Matrix, scaling: Scaling = NO_SCALING, *, sparse: bool = False
    ) -> Matrix:
        """The scaled outputs of raw rows, (n_samples, n_outputs), dense or CSR.

        X has been checked (`require_raw`). In CSR all numbers are stored, zeros too. With texts it
        is always CSR.
        """
        from svm.loops.tables import dense_outputs, sparse_outputs

        # The output `text_start` does not exist: it is left out.
        n, m, width = X.shape[0], self.text_start, self.n_numbers + len(self.categories)
        size = min(BLOCK_ROWS, max(1, BLOCK_ENTRIES // max(1, self.entries_per_row)))
        blocks = [slice(start, start + size) for start in range(0, n, size)]
        if self.texts and len(blocks) > 1:  # each block is compact before the next one is made
            from scipy.sparse import vstack

            made: Any = [self.transform(X[rows], scaling) for rows in blocks]
            return in_layout(vstack(made, format="csr"), np.float64)
        if self.texts:
            assert isinstance(X, np.ndarray)
            return self._beside_texts(X, scaling)
        X, scaling = np.ascontiguousarray(X), scaling.first(self.n_numbers)

        def inputs(rows: slice) -> tuple[Vector, Vector, Indices, Indices, Indices, Indices]:
            """Raw values, scaled numbers, and where the outputs of the categories are."""
            numbers: Any = scaling.transform(self.numbers(X[rows]))
            places = self.categories, self.starts, self.unknown, self.slots
            return read_only(X[rows]), read_only(numbers), *places

        if not sparse:
            out = np.zeros((n, m))
            for rows in blocks:
                dense_outputs(*inputs(rows), out[rows])
            return out
        from scipy.sparse import csr_array

        wide = np.int32 if n * width <= np.iinfo(np.int32).max else np.int64
        data = np.empty(n * width)
        indices: Array = np.empty(n * width, dtype=wide)
        indptr: Array = np.zeros(n + 1, dtype=wide)
        for rows in blocks:
            sparse_outputs(*inputs(rows), m, data, indices, indptr[rows.start : rows.stop + 1])
        if indptr[-1] < len(data):
            data, indices = data[: indptr[-1]].copy(), indices[: indptr[-1]].copy()
        return csr_array((data, indices, indptr), shape=(n, m))

    @cached_property
    def _others(self) -> Encoder:
        """Of all columns but those of texts."""
        return replace(self, texts=())

    def _beside_texts(self, X: Vector, scaling: Scaling) -> Matrix:
        from scipy.sparse import csr_array, hstack

        parts = [self._others.transform(X, scaling, sparse=True)]
        for j, text in zip(self.text_columns, self.texts, strict=True):
            lengths: list[Array] = [np.zeros(1, np.int64)]
            outputs: list[Array] = [np.empty(0, np.int32)]
            values: list[Array] = [np.empty(0)]
            for some in text.of_rows(X, j):
                lengths.append(np.diff(some.ends, prepend=0))
                outputs.append(some.outputs.astype(np.int32))
                values.append(some.values)
            indptr = np.concatenate(lengths).cumsum()
            matrix = np.concatenate(values), np.concatenate(outputs), indptr
            parts.append(csr_array(matrix, shape=(len(indptr) - 1, text.n_outputs)))
        parts = [part for part in parts if part.shape[1]] or parts
        joined: Any = hstack(parts, format="csr") if len(parts) > 1 else parts[0]  # type: ignore[call-overload]
        return in_layout(joined, np.float64)

    @property
    def entries_per_row(self) -> int:
        """Of the texts, on average, in training."""
        return sum(text.entries_per_text for text in self.texts)

    def unknown_words(self, X: Vector) -> Indices:
        """(n_samples,) how many words of each row no training text had."""
        counts = np.zeros(len(X), dtype=np.int64)
        for j, text in zip(self.text_columns, self.texts, strict=True):
            start = 0
            for some in text.of_rows(X, j):
                counts[start : start + len(some.ends)] += some.unknown_words
                start += len(some.ends)
        return counts

    def unseen(self, X: Vector) -> Mask:
        """(n_samples, n_columns) cells with a level that no training row had."""
        known: list[Mask] = []
        for counts in self.level_counts.values():
            known += [counts > 0, np.array([False, True])]
        mask = np.zeros(X.shape, dtype=bool)
        if known:
            mask[:, self.categories] = ~np.concatenate(known)[self.level_slots(X)]
        return mask

    def newly_missing(self, X: Vector) -> Mask:
        """(n_samples, n_columns) missing cells in columns that had none in training."""
        mask: Mask = np.isnan(X) & (self.missing == 0)
        mask[:, self.text_columns] = False
        return mask

    def refused(self, X: Vector) -> Mask:
        """(n_samples, n_columns) cells that the encoding refuses."""
        mask = np.zeros(X.shape, dtype=bool)
        if self.refuses_missing:
            mask[:, self.sources] = np.isnan(X[:, self.sources])
        if self.encoding.unseen == "refuse":
            mask |= self.unseen(X)
        return mask

    @property
    def refuses(self) -> bool:
        """Whether `refused` may find any."""
        return "refuse" in (self.encoding.missing, self.encoding.unseen)

    def require_accepted(self, X: Matrix) -> None:
        """Raises InvalidData (`missing-value`, `unseen-level`) with the first refused cell."""
        if not self.refuses:
            return
        assert isinstance(X, np.ndarray)
        refused = self.refused(X)
        if not refused.any():
            return
        i, j = np.argwhere(refused)[0].tolist()
        where = f"row {i} (counted from 0), column {self.columns[j].name!r}"
        if np.isnan(X[i, j]):
            raise InvalidData(
                "missing-value",
                f"{where}: the cell is missing, and the encoding refuses missing cells; give a "
                "value, or train with another choice for missing cells",
            )
        raise InvalidData(
            "unseen-level",
            f"{where}: no training row has this level, and the encoding refuses such levels; give "
            "a level of the training rows, or train with unseen: zero",
        )


@dataclass(frozen=True, slots=True)
class _Category:
    column: int
    names: list[str]
    """Of its outputs."""
    outputs: Indices
    """(n_levels + 2,) the output of each level, of an unknown one, of a missing cell; -1: none."""


@dataclass(frozen=True)
class PlainEncoder:
    """Leaves the rows as they are, dense or sparse. It is in no file and no fingerprint."""

    columns: Columns
    is_plain: ClassVar[bool] = True
    levels: ClassVar[Sequence[str]] = ()
    texts: ClassVar[Sequence[TextEncoder]] = ()
    entries_per_row: ClassVar[int] = 0
    empty_cell: ClassVar[float] = 0.0
    refuses_missing: ClassVar[bool] = True

    @classmethod
    def of(cls, n_features: int) -> PlainEncoder:
        """The encoder of features without names."""
        return cls(PlainColumns(None, n_features))

    def named(self, names: Sequence[str] | None) -> PlainEncoder:
        """With the names that a model file does not have."""
        return PlainEncoder(PlainColumns(names, len(self.columns)))

    @property
    def n_outputs(self) -> int:
        return len(self.columns)

    @property
    def sources(self) -> Indices:
        """(n_outputs,) the column of every output."""
        return np.arange(self.n_outputs)

    @property
    def output_columns(self) -> Indices:
        """The sources."""
        return self.sources

    @property
    def output_names(self) -> list[str]:
        return [column.name for column in self.columns]

    names_before_texts = output_names

    def checked(self, X: Any) -> Matrix:
        """X as float64. Raises InvalidData (`feature-mismatch`, `non-finite-value`, …)."""
        rows: Matrix = as_matrix(X, np.float64)
        if rows.shape[1] != self.n_outputs:
            raise InvalidData(
                "feature-mismatch",
                f"the model has {self.n_outputs} features, the rows have {rows.shape[1]}",
            )
        return rows

    def transform(
        self, X: Matrix, scaling: Scaling = NO_SCALING, *, sparse: bool = False
    ) -> Matrix:
        """The scaled rows; zeros stay as they are stored."""
        return scaling.transform(X)

    def require_accepted(self, X: Matrix) -> None:
        """All rows are."""

    def unseen(self, X: Vector) -> Mask:
        """(n_samples, n_columns) cells with a level that no training row had: none."""
        return np.zeros(X.shape, dtype=bool)

    newly_missing = unseen


AnyEncoder: TypeAlias = Encoder | PlainEncoder
"""Of a table, or of rows of finite numbers."""


def describe(encoder: Encoder) -> list[str]:
    """One sentence for each category, text and date, and each column with missing cells."""
    sentences, first = [], 0
    for j, column in enumerate(encoder.columns):
        missing = int(encoder.missing[j])
        if column.kind == "category":
            counts = encoder.level_counts[j].tolist()
            sentences.append(_category(encoder, column.name, counts, missing))
            continue
        if column.kind == "text":
            text = encoder.texts[encoder.text_columns.index(j)]
            gaps = f", {missing:,} missing" if missing else ""
            sentences.append(f"{column.name}: {text.described}{gaps}")
            continue
        width = 4 if column.kind == "date" else 1
        fill = float(encoder.fills[first + width - 1])
        first += width
        if column.kind == "date":
            sentences.append(f"{column.name}: year, month, weekday and days since 1970-01-01")
        if missing:
            how, value = encoder.encoding.missing, f"{fill:g}"
            if column.kind == "date":
                value = str(np.datetime64(int(fill // 1), "D"))
            if how == "constant" and column.kind != "number":
                how = "median"
            cells = "1 missing cell" if missing == 1 else f"{missing:,} missing cells"
            sentences.append(f"{column.name}: {cells} filled with the {how} {value}")
    return sentences


def _category(encoder: Encoder, name: str, counts: list[int], missing: int) -> str:
    seen = sum(count > 0 for count in counts)
    rare = sum(0 < count < encoder.encoding.min_count for count in counts)
    parts = [f"{name}: {seen:,} level{'' if seen == 1 else 's'}"]
    if rare:
        parts.append(f"{rare:,} rare one{'' if rare == 1 else 's'} together")
    if missing:
        parts.append(f"{missing:,} missing cell{'' if missing == 1 else 's'} as one more")
    return ", ".join(parts)


def date_parts(days: Vector) -> Vector:
    """(n, 4) of n dates in days since 1970-01-01; the parts of NaN are NaN."""
    missing = np.isnan(days)
    whole = np.floor(np.where(missing, 0.0, days)).astype(np.int64)
    months = whole.view("datetime64[D]").astype("datetime64[M]").view(np.int64)
    parts = np.empty((len(days), len(PARTS)))
    for part, values in enumerate(
        (months // 12 + 1970, months % 12 + 1, (whole + 3) % 7 + 1, days)
    ):
        parts[:, part] = values
    parts[missing] = np.nan
    return parts
