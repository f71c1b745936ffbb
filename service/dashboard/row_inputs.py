"""The form for a row to predict: an input for each column, with an example row."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias

from service.dashboard.formatting import day
from service.datasets.dataset import Dataset
from service.predictions.changes import Range
from service.predictions.loaded_models import LoadedModel
from svm.data.columns import Column, Kind
from svm.data.matrices import Indices
from svm.encoding.encoder import PlainEncoder

MAX_INPUTS = 200
"""With more columns a row is entered as a line, not with an input for each."""
MAX_OPTIONS = 200
"""A category with more levels has an input for its text."""
MAX_ALL_OPTIONS = 1_000
"""Of all categories: the page stays small."""
MAX_COUNT = 20
"""Numbers between whole ones that are as near to each other are mostly whole."""
_Statistics: TypeAlias = tuple[float | None, float | None, float | None]


@dataclass(frozen=True, slots=True)
class Input:
    """The input of one column."""

    label: str
    kind: Kind
    options: tuple[str, ...]
    """Texts to choose from; none if the value is typed in."""
    may_be_empty: bool
    """Whether an empty input is a missing cell."""
    example: float | str | bool | None

    @property
    def text(self) -> str:
        """The example as an input shows it."""
        return text_of(self.example)


def text_of(cell: float | str | bool | None) -> str:
    """A cell as an input shows it."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return str(cell).removesuffix(".0")
    return "" if cell is None else str(cell)


def inputs_of(model: LoadedModel, dataset: Dataset | None) -> list[Input]:
    """An input for each column, with an example row: means and frequent levels of the training
    data, which `dataset` is if it is still there."""
    names = model.columns or [f"feature {i}" for i in range(model.n_features)]
    encoder = model.fitted.encoder
    statistics = _statistics(dataset, model.n_features)
    if isinstance(encoder, PlainEncoder):
        return [
            Input(name, "number", (), False, _round(*one) or 0.0)
            for name, one in zip(names, statistics, strict=True)
        ]
    inputs, left = [], MAX_ALL_OPTIONS
    for j, (name, column, one) in enumerate(zip(names, encoder.columns, statistics, strict=True)):
        optional = column.kind in ("category", "text") or not encoder.refuses_missing
        options: tuple[str, ...] = ()
        example: float | str | bool | None
        if column.kind == "category":
            example = _most_frequent(column, encoder.level_counts[j], int(encoder.missing[j]))
            options = column.levels if len(column.levels) <= min(MAX_OPTIONS, left) else ()
            left -= len(options)
        elif column.kind == "text":
            example = next(iter(_texts_like(dataset, name)), None)
        else:
            example = _example(column, one)
            options = ("true", "false") if column.kind == "boolean" else ()
        inputs.append(Input(name, column.kind, options, optional, example))
    return inputs


def line_of(cells: list[str]) -> str:
    """The row as a line of CSV."""
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()


def row_of(entries: Mapping[str, str], n_features: int) -> str:
    """The row that was entered, as a line of CSV."""
    return line_of([entries.get(f"x{i}", "") for i in range(n_features)])


def read_line(rows: str, n_features: int) -> dict[str, str]:
    """The entries of a single row that was entered as a line; none of several rows."""
    with suppress(csv.Error):
        lines = list(islice(csv.reader(io.StringIO(rows.strip("\n"))), 2))
        if list(map(len, lines)) == [n_features]:
            return {f"x{i}": text for i, text in enumerate(lines[0])}
    return {}


def entries_of(cells: Sequence[float | str | bool | None]) -> dict[str, str]:
    """A row as it is entered: an input for each column, or a line."""
    texts = list(map(text_of, cells))
    if len(texts) > MAX_INPUTS:
        return {"rows": line_of(texts)}
    return {f"x{i}": text for i, text in enumerate(texts)}


def _most_frequent(column: Column, counts: Indices, missing: int) -> str | None:
    return None if missing >= counts.max(initial=0) else column.levels[int(counts.argmax())]


def _texts_like(dataset: Dataset | None, column: str) -> Sequence[str]:
    """Examples of the texts in a column of the training data, if they are known."""
    known: Mapping[str, Any] = {} if dataset is None else dataset.statistics.get("texts", {})
    examples: Sequence[str] = known.get(column, {}).get("examples", ())
    return examples


def _example(column: Column, statistics: _Statistics) -> float | str | bool | None:
    mean = statistics[0]
    if mean is None:
        return None
    match column.kind:
        case "boolean":
            return mean > 0.5
        case "date":
            return day(mean)
        case _:
            return _round(*statistics)


def ranges_of(dataset: Dataset | None, n_features: int) -> list[Range]:
    """The lowest and the highest value of each feature in the training data."""
    return [
        None if low is None or high is None else (low, high)
        for _, low, high in _statistics(dataset, n_features)
    ]


def means_of(dataset: Dataset | None, n_features: int) -> list[float | None]:
    """The mean of each feature in the training data, None if it is not known."""
    statistics = _statistics(dataset, n_features)
    return [None if low is None else mean for mean, low, _ in statistics]


def _statistics(dataset: Dataset | None, n_features: int) -> list[_Statistics]:
    """Mean, lowest and highest value of each feature."""
    if dataset is None or dataset.of_columns is None:
        return [(0.0, None, None)] * n_features
    mean, low, high = (dataset.of_columns[name] for name in ("mean", "min", "max"))
    return list(zip(mean, low, high, strict=True))


def _round(mean: float | None, low: float | None, high: float | None) -> float | None:
    """The mean as a likely value: whole if the range is that of a count, else with three
    significant digits."""
    if mean is None:
        return None
    if low is None or high is None or low % 1 or high % 1 or high - low > MAX_COUNT:
        return float(f"{mean:.3g}")
    return float(round(mean))
