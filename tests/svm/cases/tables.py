"""Random tables of raw values, and an encoder written slowly in plain Python."""

from __future__ import annotations

import datetime
import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from svm.data.columns import Column, Columns
from svm.data.matrices import Vector
from svm.encoding.encoder import Encoding

NAN = math.nan
KINDS: tuple[Any, ...] = ("number", "category", "boolean", "date", "category", "number")


def table(
    n: int = 120, seed: int = 0, n_levels: int = 5, kinds: Sequence[Any] = KINDS
) -> tuple[Vector, npt.NDArray[Any], Columns]:
    """Raw values, labels of two classes that depend on them, and the columns. The second half of
    the columns has missing cells, and each category a few rare levels."""
    random = np.random.default_rng([seed, n, n_levels])
    X, columns = np.empty((n, len(kinds))), []
    for j, kind in enumerate(kinds):
        levels: tuple[str, ...] = ()
        match kind:
            case "number":
                X[:, j] = random.normal(3.0, 5.0, size=n)
            case "boolean":
                X[:, j] = random.integers(2, size=n)
            case "date":
                X[:, j] = random.integers(-4000, 20000, size=n) + random.integers(2, size=n) / 2
            case "category":
                levels = tuple(f"level {k:04}" for k in range(n_levels))
                X[:, j] = np.minimum(random.geometric(2.0 / (n_levels + 1), size=n), n_levels) - 1
        if j >= len(kinds) // 2:
            X[random.uniform(size=n) < 0.2, j] = NAN
        columns.append(Column(f"column {j}", kind, levels))
    signal = np.nan_to_num(X[:, 0]) - 3.0 + 4.0 * (X[:, 1] == 0) + random.normal(size=n)
    return X, (signal > 0).astype(np.int64), tuple(columns)


class SlowEncoder:
    """One cell after the other; scaling is applied by `outputs`."""

    def __init__(self, encoding: Encoding, scaling: str, X: Vector, columns: Columns) -> None:
        self.encoding, self.scaling, self.columns = encoding, scaling, columns
        self.cells = [[float(row[j]) for row in X] for j in range(len(columns))]
        self.scalings: dict[tuple[int, int], tuple[float, float]] = {}
        for j, column in enumerate(columns):
            if column.kind in ("number", "date"):
                rows = [self.filled(j, cell) for cell in self.cells[j]]
                for part, values in enumerate(zip(*rows, strict=True)):
                    self.scalings[j, part] = scaling_of(scaling, [float(v) for v in values])

    def has_gaps(self, j: int) -> bool:
        return any(math.isnan(cell) for cell in self.cells[j])

    def filled(self, j: int, cell: float) -> list[float]:
        if math.isnan(cell):
            known = [other for other in self.cells[j] if not math.isnan(other)]
            if self.encoding.missing == "constant" and self.columns[j].kind == "number":
                cell = self.encoding.constant
            elif self.encoding.missing == "mean":
                cell = math.fsum(known) / len(known)
            else:
                cell = statistics.median(known)
        if self.columns[j].kind != "date":
            return [cell]
        day = datetime.date(1970, 1, 1) + datetime.timedelta(days=math.floor(cell))
        return [float(day.year), float(day.month), float(day.isoweekday()), cell]

    def outputs(self, row: Sequence[float]) -> list[float]:
        """The scaled outputs of one row."""
        numbers: list[float] = []
        indicators: list[float] = []
        levels: list[float] = []
        for j, (cell, column) in enumerate(zip(row, self.columns, strict=True)):
            if column.kind == "category":
                levels += self.levels(j, cell)
                continue
            if self.has_gaps(j):
                indicators.append(1.0 if math.isnan(cell) else 0.0)
            centered = self.scaling == "standardize" and column.kind != "boolean"
            if math.isnan(cell) and not self.has_gaps(j) and centered:
                numbers += [0.0] * (4 if column.kind == "date" else 1)
                continue
            for part, value in enumerate(self.filled(j, cell)):
                offset, scale = self.scalings.get((j, part), (0.0, 1.0))
                numbers.append((value - offset) / scale)
        return numbers + indicators + levels

    def levels(self, j: int, cell: float) -> list[float]:
        counts = [self.cells[j].count(float(k)) for k in range(len(self.columns[j].levels))]
        own = [k for k, count in enumerate(counts) if count >= max(1, self.encoding.min_count)]
        rare = any(0 < count < self.encoding.min_count for count in counts)
        out = [1.0 if cell == k else 0.0 for k in own]
        if rare:
            out.append(1.0 if not math.isnan(cell) and cell not in own else 0.0)
        if self.has_gaps(j):
            out.append(1.0 if math.isnan(cell) else 0.0)
        return out


def scaling_of(name: str, values: list[float]) -> tuple[float, float]:
    """(offset, scale)"""
    match name:
        case "standardize":
            mean = math.fsum(values) / len(values)
            variance = math.fsum((v - mean) ** 2 for v in values) / len(values)
            return mean, math.sqrt(variance) or 1.0
        case "min-max":
            return min(values), (max(values) - min(values)) or 1.0
        case "max-abs":
            return 0.0, max(abs(v) for v in values) or 1.0
    return 0.0, 1.0
