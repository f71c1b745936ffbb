"""Weights of rows: numbers that training takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from service.rows.cell_texts.number_text import NUMBER
from service.rows.faults import Faults, refuse
from service.rows.table.arrays import write_array
from svm.data.matrices import LARGEST

HINT = f"a weight is 0, or a number between {1.0 / LARGEST:g} and {LARGEST:g}"


class Weights:
    """Takes the cells of the column of weights."""

    def __init__(self, faults: Faults, column: str | int) -> None:
        self._faults = faults
        self._column = column
        self._parts: list[npt.NDArray[np.float64]] = []
        self._done = 0

    def add(self, texts: Sequence[str]) -> None:
        numbers = [_number(text.strip()) for text in texts]
        for row, (text, number) in enumerate(zip(texts, numbers, strict=True), self._done + 1):
            if number is None:
                code = "not-a-number" if text.strip() else "missing-value"
                message = "is not a weight" if text.strip() else "the weight is missing"
                self._faults.add(code, message, text or None, HINT, row=row, column=self._column)
        self._done += len(texts)
        self._parts.append(np.array([number or 0.0 for number in numbers], dtype=np.float64))

    def write(self, folder: Path) -> None:
        """Raises InvalidContent if no row counts."""
        weights = np.concatenate(self._parts)
        if not weights.any():
            message = f"column {self._column!r}: every weight is 0, so that no row counts"
            raise refuse("empty-data", message, column=self._column, hint=HINT)
        write_array(folder / "weights.npy", weights)


def _number(text: str) -> float | None:
    if not NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value + 0.0 if value == 0.0 or 1.0 / LARGEST <= value <= LARGEST else None
