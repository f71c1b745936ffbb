"""A table on disk: its arrays are written while they are still being read.

Numbers, booleans and dates are in `X`, categories and the positions of texts in `codes`; read back
they are one matrix of raw values, as `svm.data.columns` describes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from service.rows.faults import Faults, too_many
from service.rows.spec import Description, ParseSpec, ReadLimits, Stored, TableColumn
from service.rows.table.arrays import BLOCK_BYTES, ArrayWriter, blocks, sparse_rows
from service.rows.table.labels import Labels, Target
from service.rows.table.layout import Layout
from svm.data.columns import Column

Block = npt.NDArray[np.float64]
MISSING_CODE = -1
FULL = 0.5
"""Share of values that are not zero from which on a dense matrix is smaller."""
VALUES_AT_ONCE = 2_000_000
_ARRAYS = ("indptr", "indices", "data")


@dataclass(frozen=True, kw_only=True)
class Table(Description):
    """What a format's reader has read; X is written. Its classes are those of `labels`.

    Categories are in `codes`, other columns in `X`, those of `beside` in arrays of their own.
    """

    labels: Target | None = None
    warnings: list[dict[str, Any]] = field(default_factory=list)
    """About the reading."""


def labels_of(spec: ParseSpec, layout: Layout, faults: Faults) -> Labels | None:
    """What takes the labels of a table, if it has a column of them."""
    if layout.target is None:
        return None
    return Labels(faults, layout.column(layout.target), kind=spec.label_kind)


def dense_table(layout: Layout, n_samples: int, labels: Target | None) -> Table:
    """A table whose `X.npy` is written."""
    return Table(
        n_samples=n_samples,
        n_features=layout.n_features,
        sparse=False,
        columns=layout.feature_names,
        target=layout.target_name,
        labels=labels,
        warnings=layout.warnings,
    )


class _Writer(ExitStack):
    def __init__(self, folder: Path, limits: ReadLimits, **types: str) -> None:
        """`types`: of the elements of each array."""
        super().__init__()
        self.folder = folder
        self._limits = limits
        self._files = {
            name: self.enter_context(ArrayWriter(folder / f"{name}.npy", dtype))
            for name, dtype in types.items()
        }
        self.n_samples = 0


class DenseWriter(_Writer):
    """Raw values: `X.npy`, float64, C order, and `codes.npy` of the categories and texts in
    `table`. A text that is not missing gets the next position. Raises TooLarge."""

    def __init__(
        self,
        folder: Path,
        n_features: int,
        limits: ReadLimits,
        table: Sequence[TableColumn] = (),
    ) -> None:
        if n_features > limits.columns:
            raise too_many("columns", limits.columns)
        self.n_features = n_features
        self._coded = coded_positions(table)
        self._numbers = sorted(set(range(n_features)).difference(self._coded))
        self._texts = [k for k, i in enumerate(self._coded) if table[i]["kind"] == "text"]
        self._n_texts = np.zeros(len(self._texts), dtype=np.int64)
        types = {"X": "<f8"} if self._numbers else {}
        if self._coded:
            n_levels = max(len(table[i]["levels"]) for i in self._coded)
            types["codes"] = "<i4" if self._texts else code_type(n_levels)
        super().__init__(folder, limits, **types)

    def check(self, n_samples: int) -> None:
        """Raises TooLarge if more rows than allowed would be stored."""
        if n_samples > self._limits.rows:
            raise too_many("rows", self._limits.rows)
        if n_samples * self.n_features > self._limits.stored_values:
            raise too_many("values", self._limits.stored_values)

    def add(self, block: Block) -> None:
        """(rows, n_features), NaN for a missing cell."""
        self.n_samples += len(block)
        self.check(self.n_samples)
        if self._coded:
            codes = block[:, self._coded]
            there = ~np.isnan(codes)
            if self._texts:
                codes[:, self._texts] = self._n_texts + np.cumsum(there[:, self._texts], axis=0) - 1
                self._n_texts += np.count_nonzero(there[:, self._texts], axis=0)
                if self._n_texts.sum() > np.iinfo(np.int32).max:
                    raise too_many("values", self._limits.stored_values)
            self._files["codes"].write(np.where(there, codes, MISSING_CODE))
            block = block[:, self._numbers]
        if self._numbers:
            self._files["X"].write(plain_bits(block))

    def finish(self) -> None:
        for name, positions in (("X", self._numbers), ("codes", self._coded)):
            if positions:
                self._files[name].finish((self.n_samples, len(positions)))
        if len(self._texts) > 1:
            self._count_on()

    def _count_on(self) -> None:
        """The texts of a column come after those of the columns before it."""
        codes = np.load(self.folder / "codes.npy", mmap_mode="r+")
        starts = np.cumsum(self._n_texts) - self._n_texts
        step = max(1, BLOCK_BYTES // codes.shape[1])
        for k in range(0, len(codes), step):
            some = codes[k : k + step, self._texts]
            codes[k : k + step, self._texts] = np.where(some < 0, some, some + starts)


class SparseWriter(_Writer):
    """`data.npy` (float64), `indices.npy` and `indptr.npy` (int32): CSR. Raises TooLarge."""

    def __init__(self, folder: Path, limits: ReadLimits) -> None:
        self.n_stored = 0
        self._row_lengths: list[npt.NDArray[np.int32]] = []
        super().__init__(folder, limits, data="<f8", indices="<i4", indptr="<i4")

    def add(
        self, row_lengths: npt.NDArray[np.int64], indices: npt.NDArray[np.int64], values: Block
    ) -> None:
        """Rows with ascending `indices` from 0 each; zeros among `values` are not stored."""
        self.n_samples += len(row_lengths)
        if self.n_samples > self._limits.rows:
            raise too_many("rows", self._limits.rows)
        stored = values != 0
        if not stored.all():
            ends = np.concatenate(([0], np.cumsum(stored)))[np.cumsum(row_lengths)]
            row_lengths = np.diff(ends, prepend=0)
            indices, values = indices[stored], values[stored]
        self.n_stored += len(values)
        if self.n_stored > min(self._limits.stored_values, np.iinfo(np.int32).max):
            raise too_many("values", self._limits.stored_values)
        self._row_lengths.append(row_lengths.astype(np.int32))
        self._files["indices"].write(indices)
        self._files["data"].write(values)

    def finish(self) -> None:
        self._files["data"].finish((self.n_stored,))
        self._files["indices"].finish((self.n_stored,))
        ends = np.concatenate([np.zeros(1, dtype=np.int32), *self._row_lengths])
        self._row_lengths.clear()  # of millions of rows it is much
        np.cumsum(ends, out=ends)
        self._files["indptr"].write(ends)
        self._files["indptr"].finish((self.n_samples + 1,))


def kept_kinds(columns: Iterable[Column]) -> list[TableColumn]:
    """What is kept of the columns: nothing of finite numbers."""
    columns = list(columns)
    if not any(one.kind != "number" or one.missing for one in columns):
        return []
    return [
        {"name": one.name, "kind": one.kind, "levels": list(one.levels), "missing": one.missing}
        for one in columns
    ]


def coded_positions(table: Sequence[TableColumn]) -> list[int]:
    """Positions of the columns that are in `codes`; the others are in `X`."""
    return [i for i, column in enumerate(table) if column["kind"] in ("category", "text")]


def arrays_of(source: Stored | Table) -> list[str]:
    """Names of the arrays that hold the features of a dense table, besides their texts."""
    n_coded = len(coded_positions(source.table))
    return ["X"] * (n_coded < source.n_features) + ["codes"] * (n_coded > 0)


def plain_bits(values: Block) -> Block:
    """The values with one zero and one NaN of those that float64 has."""
    with np.errstate(invalid="ignore"):  # a signaling NaN of a file, which is refused in the end
        values = values + 0.0  # -0.0 becomes 0.0
    values[np.isnan(values)] = np.nan
    return values


def write_rows(
    folder: Path,
    rows: Iterable[Block],
    table: list[TableColumn],
    n_features: int,
    limits: ReadLimits,
) -> None:
    """Write the arrays of raw rows. Raises TooLarge."""
    with DenseWriter(folder, n_features, limits, table) as writer:
        for block in rows:
            writer.add(block)
        writer.finish()


def code_type(n_levels: int) -> str:
    """The smallest integers for codes of that many levels."""
    return next(kind for kind in ("|i1", "<i2", "<i4") if n_levels <= np.iinfo(kind).max + 1)


def raw_blocks(source: Stored | Table, path: Callable[[str], Path]) -> Iterator[Block]:
    """Raw values of a dense table some MiB at a time: (rows, n_features). `path` gives that of an
    array."""
    rows = max(1, BLOCK_BYTES // (8 * source.n_features))
    coded = coded_positions(source.table)
    for some in zip(*(blocks(path(name), rows) for name in arrays_of(source)), strict=True):
        yield raw_values(some, coded)


def raw_values(parts: Sequence[npt.NDArray[Any]], coded: Sequence[int]) -> Block:
    """(rows, n_features) of the arrays that there are, `X` before `codes`, without their texts."""
    if not coded:
        return parts[0]
    codes = parts[-1].astype(np.float64)
    codes[parts[-1] == MISSING_CODE] = np.nan
    if len(parts) == 1:
        return codes
    raw = np.empty((len(codes), parts[0].shape[1] + codes.shape[1]))
    numbers = np.ones(raw.shape[1], dtype=bool)
    numbers[list(coded)] = False
    raw[:, numbers] = parts[0]
    raw[:, ~numbers] = codes
    return raw


def stored_blocks(stored: Stored) -> Iterator[Block]:
    """The features of a dense dataset some MiB at a time: (rows, n_features)."""
    return raw_blocks(stored, stored.path)


def fill_if_full(spec: ParseSpec, shape: tuple[int, int], n_stored: int) -> bool:
    """Write `X.npy` in place of the CSR arrays, if the caller demands a dense matrix, or most is
    stored and the limits allow it; whether it was. Raises TooLarge."""
    n_values = shape[0] * shape[1]
    fits = shape[1] <= spec.limits.columns and n_values <= spec.limits.stored_values
    full = fits and n_stored >= FULL * n_values
    dense = {"auto": full, "always": True, "never": False}[spec.asked.dense]
    if dense:
        _fill(Path(spec.out), shape[1], spec.limits)
    return dense


def _fill(folder: Path, n_features: int, limits: ReadLimits) -> None:
    paths = [folder / f"{name}.npy" for name in _ARRAYS]
    at_once = max(1, VALUES_AT_ONCE // n_features)
    with DenseWriter(folder, n_features, limits) as writer:
        writer.check(int(np.load(paths[0], mmap_mode="r").shape[0]) - 1)
        for lengths, indices, values in sparse_rows(*paths):
            ends = np.concatenate(([0], np.cumsum(lengths)))
            for start in range(0, len(lengths), at_once):
                some = lengths[start : start + at_once]
                first, last = ends[start], ends[start + len(some)]
                block = np.zeros((len(some), n_features))
                rows = np.repeat(np.arange(len(some)), some)
                block[rows, indices[first:last]] = values[first:last]
                writer.add(block)
        writer.finish()
    for path in paths:
        path.unlink()
