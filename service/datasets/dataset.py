"""A dataset: one row of the table, and its arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from service.rows.spec import Label, Parsed, TableColumn
from svm.data.columns import Column, Columns
from svm.data.stored_rows import StoredRows

if TYPE_CHECKING:  # SciPy is imported only for sparse matrices
    from scipy.sparse import csr_array

Matrix: TypeAlias = "npt.NDArray[np.float64] | csr_array[Any, tuple[int, int]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A dataset's row."""

    id: str
    number: int
    """Of its place in lists."""
    name: str | None
    created_at: float
    format: str
    """Media type of the upload."""
    size_bytes: int
    """Of the stored arrays."""
    n_samples: int
    n_features: int
    sparse: bool
    target: str | None
    """Name of the label column, None if it has none."""
    columns: tuple[str, ...] | None
    """Names of the features, None if they have none."""
    classes: tuple[Label, ...] | None
    """Sorted labels; None without labels, and if they are too many to be classes."""
    class_counts: tuple[int, ...] | None
    n_distinct_labels: int
    """0 without labels."""
    continuous_target: bool
    """The labels are too many to be classes, and not all of them are whole numbers."""
    statistics: Mapping[str, list[float | None]] | None
    """min, max, mean and std of the columns."""
    warnings: tuple[dict[str, Any], ...]
    tags: Mapping[str, str]
    """The caller's own key-values."""
    matrix_digest: str
    arrays: Mapping[str, str]
    """Array name → sha-256 of its blob."""
    table: Columns | None = None
    """The features with their kinds; None if all are finite numbers."""
    missing: tuple[int, ...] | None = None
    """How many cells of each feature are missing; None if `table` is."""
    weight: str | None = None
    """Name of the column of weights."""
    ignored: tuple[Mapping[str, str], ...] = ()
    """`name` and `reason` of the columns of the file that were not kept."""
    reading: Mapping[str, Any] | None = None
    """How the text was read; None for binary formats."""
    parent: str | None = None
    """Id of the dataset that this one was made from by append or split; it may be gone by now."""
    inherited_rows: int | None = None
    """Made by append: this many first rows are those of `parent`, in its order."""

    def only(self, classes: Collection[Label] | None) -> Dataset:
        """Without the rows of other classes, for checks: what is known of the columns stays that of
        all rows."""
        if classes is None:
            return self
        counts = zip(self.classes or (), self.class_counts or (), strict=True)
        kept = [(label, count) for label, count in counts if label in classes]
        return replace(
            self,
            classes=tuple(label for label, _ in kept),
            class_counts=tuple(count for _, count in kept),
            n_samples=sum(count for _, count in kept),
            n_distinct_labels=len(kept),
        )

    def read_from(self, parsed: Parsed) -> Dataset:
        """With what another file of the same content was read from."""
        ignored, warnings = tuple(parsed.ignored), tuple(parsed.warnings)
        return replace(self, reading=parsed.reading, ignored=ignored, warnings=warnings)

    @property
    def etag(self) -> str:
        """Changes whenever the dataset does: only name and tags ever do."""
        changing = repr((self.id, self.name, sorted(self.tags.items())))
        return hashlib.sha256(changing.encode()).hexdigest()[:32]

    @classmethod
    def from_row(cls, row: sa.Row[Any]) -> Dataset:
        values = dict(row._mapping)
        del values["upload_key"], values["last_upload"]
        statistics = values.pop("statistics")
        labels = statistics.get("target") or {}
        classes = values.pop("classes")
        table = values.pop("table")
        if table is not None:
            values["missing"] = tuple(column["missing"] for column in table)
            table = tuple(
                Column(column["name"], column["kind"], tuple(column["levels"])) for column in table
            )
        values["ignored"] = tuple(values["ignored"])
        for name in ("columns", "class_counts", "warnings"):
            values[name] = None if values[name] is None else tuple(values[name])
        return cls(
            **values,
            table=table,
            classes=None if classes is None else tuple(classes),
            n_distinct_labels=labels.get("distinct", 0 if classes is None else len(classes)),
            continuous_target=labels.get("continuous", False),
            statistics=statistics.get("columns"),
        )


def columns_of(dataset: Dataset) -> Columns:
    """The features with their kinds; finite numbers if nothing else is known."""
    if dataset.table is not None:
        return dataset.table
    names = dataset.columns or [str(j) for j in range(dataset.n_features)]
    return tuple(Column(name) for name in names)


def stored_columns(dataset: Dataset) -> list[TableColumn] | None:
    """The table as it is stored."""
    if dataset.table is None or dataset.missing is None:
        return None
    return [
        {"name": one.name, "kind": one.kind, "levels": list(one.levels), "missing": missing}
        for one, missing in zip(dataset.table, dataset.missing, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Origin:
    """What a dataset was made from."""

    parent: str
    """The other dataset's id."""
    inherited_rows: int | None = None
    """Of append: how many first rows are the parent's."""


@dataclass(frozen=True, slots=True)
class LoadedData:
    """A dataset's arrays."""

    X: Matrix
    """(n_samples, n_features), float64: C-contiguous, or canonical CSR. Raw values if the dataset
    has a `table`."""
    codes: npt.NDArray[np.int32] | None
    """(n_samples,) positions in `classes`; None if there are no classes."""
    weights: npt.NDArray[np.float64] | None = None
    """(n_samples,), finite and not negative."""


@dataclass(frozen=True, slots=True)
class DataInFiles:
    """The same, but X stays in files and is read some rows at a time."""

    X: StoredRows
    codes: npt.NDArray[np.int32] | None
    weights: npt.NDArray[np.float64] | None = None
