"""Arrays written to disk while they are still being read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from service.rows.faults import Faults, too_many
from service.rows.spec import Description, LabelKind, ReadLimits
from service.rows.table.arrays import ArrayWriter
from service.rows.table.labels import Labels, Target
from service.rows.table.layout import Layout


@dataclass(frozen=True, kw_only=True)
class Table(Description):
    """What a format's reader has read; X is written. Its classes are those of `labels`.

    Categories are in `codes`, other columns in `X`, weights in `weights.npy`.
    """

    labels: Target | None = None
    warnings: list[dict[str, Any]] = field(default_factory=list)
    """About the reading."""


def labels_of(
    layout: Layout,
    faults: Faults,
    *,
    kind: LabelKind | None = None,
    missing: frozenset[str] = frozenset({""}),
) -> Labels | None:
    """What takes the labels of a table, if it has a column of them."""
    if layout.target is None:
        return None
    column = layout.column(layout.target)
    return Labels(faults, column, kind=kind, missing=missing)


def dense_table(layout: Layout, n_samples: int, labels: Labels | None) -> Table:
    """A table whose `X.npy` is written. Raises InvalidContent for its labels."""
    return Table(
        n_samples=n_samples,
        n_features=layout.n_features,
        sparse=False,
        columns=layout.feature_names,
        target=layout.target_name,
        labels=None if labels is None else labels.finish(),
        warnings=layout.warnings,
    )


Block = npt.NDArray[np.float64]


class _Writer:
    def __init__(self, limits: ReadLimits, files: dict[str, ArrayWriter]) -> None:
        self._limits = limits
        self._files = files
        self.n_samples = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        for file in self._files.values():
            file.close()


class DenseWriter(_Writer):
    """`X.npy`, float64, C order. Raises TooLarge."""

    def __init__(self, folder: Path, n_features: int, limits: ReadLimits) -> None:
        if n_features > limits.columns:
            raise too_many("columns", limits.columns)
        self.n_features = n_features
        self.folder = folder
        super().__init__(limits, {"X": ArrayWriter(folder / "X.npy", "<f8")})

    def check(self, n_samples: int) -> None:
        """Raises TooLarge if more rows than allowed would be stored."""
        if n_samples > self._limits.rows:
            raise too_many("rows", self._limits.rows)
        if n_samples * self.n_features > self._limits.stored_values:
            raise too_many("values", self._limits.stored_values)

    def add(self, block: Block) -> None:
        """(rows, n_features); finite, or the upload is refused in the end."""
        self.n_samples += len(block)
        self.check(self.n_samples)
        with np.errstate(invalid="ignore"):  # what is not a number is refused in the end
            self._files["X"].write(block + 0.0)  # -0.0 becomes 0.0

    def finish(self) -> None:
        self._files["X"].finish((self.n_samples, self.n_features))


class SparseWriter(_Writer):
    """`data.npy` (float64), `indices.npy` and `indptr.npy` (int32): CSR. Raises TooLarge."""

    def __init__(self, folder: Path, limits: ReadLimits) -> None:
        self.n_stored = 0
        self._folder = folder
        self._row_lengths: list[npt.NDArray[np.int32]] = []
        super().__init__(
            limits,
            {
                "data": ArrayWriter(folder / "data.npy", "<f8"),
                "indices": ArrayWriter(folder / "indices.npy", "<i4"),
                "indptr": ArrayWriter(folder / "indptr.npy", "<i4"),
            },
        )

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
