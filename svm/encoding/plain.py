"""The encoder of rows of finite numbers, which are outputs as they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from svm.data.columns import Columns, PlainColumns
from svm.data.matrices import Indices, Matrix, Vector, as_matrix
from svm.errors import InvalidData
from svm.transforms.scaling import NO_SCALING, Scaling


@dataclass(frozen=True)
class PlainEncoder:
    """Leaves the rows as they are, dense or sparse. It is in no file and no fingerprint."""

    columns: Columns
    is_plain: ClassVar[bool] = True
    levels: ClassVar[Sequence[str]] = ()
    empty_cell: ClassVar[float] = 0.0
    refuses_missing: ClassVar[bool] = True

    @classmethod
    def of(cls, n_features: int) -> PlainEncoder:
        """Of features without names."""
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
        """The same."""
        return self.sources

    @property
    def output_names(self) -> list[str]:
        return [column.name for column in self.columns]

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

    def unseen(self, X: Vector) -> npt.NDArray[np.bool_]:
        """(n_samples, n_columns) cells with a level that no training row had: none."""
        return np.zeros(X.shape, dtype=bool)

    newly_missing = unseen
