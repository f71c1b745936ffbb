"""A dataset: one row of the table, and its arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from service.rows.spec import Label, Overview, Parsed, Summarized, TargetKind
from service.rows.table.labels import kind_of
from svm.data.stored_rows import StoredRows

if TYPE_CHECKING:  # SciPy is imported only for sparse matrices
    from scipy.sparse import csr_array

Matrix: TypeAlias = "npt.NDArray[np.float64] | csr_array[Any, tuple[int, int]]"


@dataclass(frozen=True, kw_only=True)
class ListedDataset(Overview):
    """A dataset as lists show it: without its columns, which can be very many. Of its statistics it
    has those of numeric labels."""

    id: str
    number: int
    """Of its place in lists."""
    name: str | None
    created_at: float
    format: str
    """Media type of the upload."""
    size_bytes: int
    """Of the stored arrays."""
    tags: Mapping[str, str]
    """The caller's own key-values."""
    parent: str | None = None
    """Id of the dataset that this one was made from by append or split; it may be gone by now."""
    inherited_rows: int | None = None
    """Made by append: this many first rows are those of `parent`, in its order."""


@dataclass(frozen=True, kw_only=True)
class Dataset(Summarized, ListedDataset):
    """A dataset's row."""

    arrays: Mapping[str, str]
    """Array name → sha-256 of its blob."""

    def only(self, classes: Collection[Label] | None) -> Dataset:
        """Without the rows of other classes, for checks: what is known of the columns stays that of
        all rows."""
        if classes is None:
            return self
        counts = zip(self.classes or (), self.class_counts or (), strict=True)
        kept = [(label, count) for label, count in counts if label in classes]
        return replace(
            self,
            classes=[label for label, _ in kept],
            class_counts=[count for _, count in kept],
            n_samples=sum(count for _, count in kept),
            statistics={k: v for k, v in self.statistics.items() if k not in ("target", "audit")},
        )

    def taken_as(self, kind: TargetKind) -> Dataset | None:
        """The dataset with labels of this kind, as a training may take whole numbers for classes,
        and classes that are numbers for values; None if they cannot be taken so."""
        known = self.statistics.get("target") or {}
        if kind == self.target_kind:
            return self
        if kind == "classes":
            classes, counts = known.get("classes"), known.get("counts")
            return classes and replace(self, classes=classes, class_counts=counts)
        if kind_of(self.classes) != "number" or self.classes is None:
            return None
        ends = {"min": float(self.classes[0]), "max": float(self.classes[-1])}
        both = {"classes": self.classes, "counts": self.class_counts}
        statistics = {**self.statistics, "target": {**known, **ends, **both}}
        return replace(self, classes=None, class_counts=None, statistics=statistics)

    def labels_of(
        self, codes: npt.NDArray[np.int32] | None, values: npt.NDArray[np.float64] | None
    ) -> tuple[npt.NDArray[np.int32] | None, npt.NDArray[np.float64] | None]:
        """The codes, or else the values, of labels that are stored as the other."""
        if self.classes is not None and values is not None:
            codes = np.searchsorted(np.array(self.classes), values).astype(np.int32)
        elif self.classes is None and codes is not None:
            values = np.array(self.statistics["target"]["classes"], dtype=np.float64)[codes]
        return (None, values) if self.classes is None else (codes, None)

    def read_from(self, parsed: Parsed) -> Dataset:
        """With what another file of the same content was read from."""
        return replace(
            self, reading=parsed.reading, ignored=parsed.ignored, warnings=parsed.warnings
        )

    @property
    def etag(self) -> str:
        """Changes whenever the dataset does: only name and tags ever do."""
        changing = repr((self.id, self.name, sorted(self.tags.items())))
        return hashlib.sha256(changing.encode()).hexdigest()[:32]

    @classmethod
    def from_row(cls, row: sa.Row[Any]) -> Dataset:
        values = dict(row._mapping)
        del values["upload_key"], values["last_upload"]
        return cls(**values | {"table": values["table"] or []})  # NULL for numbers without gaps


@dataclass(frozen=True, slots=True)
class Origin:
    """What a dataset was made from."""

    parent: str | None = None
    """The other dataset's id; None of an upload."""
    inherited_rows: int | None = None
    """Of append: how many first rows are the parent's."""

    @property
    def is_upload(self) -> bool:
        """Whether rows were sent: all of them, or those that are appended."""
        return self.parent is None or self.inherited_rows is not None


SENT = Origin()


@dataclass(frozen=True, slots=True)
class LoadedData:
    """A dataset's arrays."""

    X: Matrix
    """(n_samples, n_features), float64: C-contiguous, or canonical CSR. Raw values if the dataset
    is not plain, with their texts (`svm.data.texts`)."""
    codes: npt.NDArray[np.int32] | None
    """(n_samples,) positions in `classes`; None if there are no classes."""
    weights: npt.NDArray[np.float64] | None = None
    """(n_samples,), finite and not negative."""
    groups: npt.NDArray[np.int64] | None = None
    """(n_samples,): rows of one group have the same number; a row without one has its own, above
    all others."""
    times: npt.NDArray[np.float64] | None = None
    """(n_samples,): numbers, or days since 1970-01-01."""
    values: npt.NDArray[np.float64] | None = None
    """(n_samples,) of a numeric target; None if there is none."""


@dataclass(frozen=True, slots=True)
class DataInFiles:
    """The same, but X stays in files and is read some rows at a time."""

    X: StoredRows
    codes: npt.NDArray[np.int32] | None
    weights: npt.NDArray[np.float64] | None = None
    groups: npt.NDArray[np.int64] | None = None
    times: npt.NDArray[np.float64] | None = None
    values: npt.NDArray[np.float64] | None = None
