"""Numbers that are missing cells, since the training file has words for these such as -999."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from service.rows.cell_texts.reading import Reading
from svm.data.columns import Column

Values = NDArray[np.float64]


class MissingValues:
    """Knows which raw values of some columns are missing cells."""

    def __init__(self, columns: Sequence[Column], reading: Reading) -> None:
        self._places: dict[float, NDArray[np.bool_]] = {}
        """For each value its columns."""
        for j, column in enumerate(columns):
            for value in reading.missing_values(column.name, column.kind):
                self._places.setdefault(value, np.zeros(len(columns), dtype=bool))[j] = True

    def __bool__(self) -> bool:
        return bool(self._places)

    def find(self, X: Values) -> NDArray[np.bool_]:
        """Which of (n_samples, n_columns) raw values are missing cells."""
        missing = np.zeros(X.shape, dtype=bool)
        for value, columns in self._places.items():
            missing |= (value == X) & columns
        return missing
