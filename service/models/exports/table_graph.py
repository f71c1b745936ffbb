"""The encoder of a table as operations of an ONNX graph: an input for each column.

A category is a column of strings, every other one a column of doubles: booleans are 1 and 0, dates
days since 1970-01-01. An empty string and NaN are missing cells.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from onnx import TensorProto, ValueInfoProto, helper

from service.models.exports.nodes import Graph
from service.rows.cell_texts.number_text import MISSING_TEXTS
from svm.data.columns import UNKNOWN, Columns
from svm.data.matrices import Indices, Vector
from svm.encoding.encoder import Encoder
from svm.model.pipeline import FittedPipeline

RESERVED = frozenset({"label", "decision", "probability"})
"""Outputs; an input with such a name gets a `_` behind it."""


def input_names(columns: Columns) -> list[str]:
    """The names of the inputs: those of the columns, if possible."""
    names: list[str] = []
    for column in columns:
        name = column.name
        while name in RESERVED or name in names:
            name += "_"
        names.append(name)
    return names


def table_inputs(columns: Columns) -> list[ValueInfoProto]:
    """The inputs, each (n, 1)."""
    return [
        helper.make_tensor_value_info(
            name, TensorProto.STRING if column.kind == "category" else TensorProto.DOUBLE, ["n", 1]
        )
        for name, column in zip(input_names(columns), columns, strict=True)
    ]


def feed(columns: Columns, X: Vector) -> dict[str, Any]:
    """The inputs for raw values, (n, n_columns)."""
    inputs: dict[str, Any] = {}
    for j, (name, column) in enumerate(zip(input_names(columns), columns, strict=True)):
        cells = np.ascontiguousarray(X[:, j : j + 1])
        if column.kind == "category":
            other = next(text for text in _unknown_texts() if text not in column.levels)
            texts = np.array([*column.levels, "", other], dtype=object)
            codes = np.where(cells == UNKNOWN, len(texts) - 1, cells)
            codes = np.where(np.isnan(cells), len(texts) - 2, codes)
            cells = texts[codes.astype(np.int64)]
        inputs[name] = cells
    return inputs


def add_linear_scores(graph: Graph, fitted: FittedPipeline, encoder: Encoder) -> str:
    """The scores of a linear model without a feature map: a weight is gathered for each level."""
    n_numbers, weights = encoder.n_numbers, fitted.coefficients.T
    parts = []
    numbers = _numbers(graph, fitted, encoder)
    if numbers is not None:
        parts.append(graph.product(numbers, weights[:n_numbers]))
    for place, outputs in _categories(graph, encoder):
        own = np.concatenate([weights[outputs], np.zeros((1, weights.shape[1]))])
        parts.append(graph.op("Gather", own, place, axis=0))
    total = graph.constant(fitted.intercepts[None, :])
    for part in parts:
        total = graph.op("Add", total, part)
    return total


def add_outputs(graph: Graph, fitted: FittedPipeline, encoder: Encoder) -> str:
    """The scaled outputs of the encoder, (n, n_outputs)."""
    numbers = _numbers(graph, fitted, encoder)
    parts = [] if numbers is None else [numbers]
    for place, outputs in _categories(graph, encoder):
        every = graph.constant(np.arange(len(outputs))[None, :])
        ones = graph.op("Equal", graph.reshape(place, -1, 1), every)
        parts.append(graph.op("Cast", ones, to=TensorProto.DOUBLE))
    return graph.op("Concat", *parts, axis=1)


def _numbers(graph: Graph, fitted: FittedPipeline, encoder: Encoder) -> str | None:
    """The scaled outputs before those of levels; None if there are none."""
    if encoder.n_numbers == 0:
        return None
    values, gaps = [], {}
    for j, (name, column) in enumerate(
        zip(input_names(encoder.columns), encoder.columns, strict=True)
    ):
        if column.kind == "category":
            continue
        gaps[j] = graph.op("IsNaN", name)
        filled = graph.op("Where", gaps[j], np.zeros((1, 1)), name)
        values += _date_parts(graph, filled) if column.kind == "date" else [filled]
    mask = graph.op("Concat", *(gaps[j] for j in encoder.sources.tolist()), axis=1)
    joined = graph.op("Concat", *values, axis=1)
    joined = graph.op("Where", mask, encoder.fills[None, :], joined)
    if len(encoder.indicated):
        indicated = graph.op("Concat", *(gaps[j] for j in encoder.indicated.tolist()), axis=1)
        indicators = graph.op("Cast", indicated, to=TensorProto.DOUBLE)
        joined = graph.op("Concat", joined, indicators, axis=1)
    scaling = fitted.scaling.first(encoder.n_numbers)
    if scaling.offset is not None:
        joined = graph.op("Sub", joined, scaling.offset)
    if scaling.scale is not None:
        joined = graph.op("Div", joined, scaling.scale)
    return joined


def _categories(graph: Graph, encoder: Encoder) -> Iterator[tuple[str, Indices]]:
    """For each category (n,) places among its outputs, and the numbers of these outputs; the place
    behind the last one is that of a cell without an output."""
    names = input_names(encoder.columns)
    for c, j in enumerate(encoder.categories.tolist()):
        levels = encoder.columns[j].levels
        start = int(encoder.starts[c])
        slots = encoder.slots[start : start + len(levels) + 2]
        outputs = np.unique(slots[slots < encoder.n_outputs])
        places = np.where(slots < encoder.n_outputs, np.searchsorted(outputs, slots), len(outputs))
        missing = sorted(text for text in MISSING_TEXTS if text not in levels)
        keys = [*levels, *missing]
        values = [*places[:-2].tolist(), *[int(places[-1])] * len(missing)]
        place = graph.op(
            "LabelEncoder",
            graph.reshape(names[j], -1),
            domain="ai.onnx.ml",
            keys_strings=keys,
            values_int64s=values,
            default_int64=int(places[-2]),
        )
        yield place, outputs


def _date_parts(graph: Graph, days: str) -> list[str]:
    """Year, month, weekday and days. All whole numbers are positive: their division rounds down.

    Years begin in March: then a leap day is the last one (Hinnant, `civil_from_days`).
    """
    floor = graph.op("Cast", graph.op("Floor", days), to=TensorProto.INT64)
    z = graph.op("Add", floor, 719_468)  # days since 0000-03-01
    era = graph.op("Div", z, 146_097)
    day = graph.op("Sub", z, graph.op("Mul", era, 146_097))
    leaps = graph.op("Sub", graph.op("Div", day, 36_524), graph.op("Div", day, 1_460))
    leaps = graph.op("Sub", leaps, graph.op("Div", day, 146_096))
    year = graph.op("Div", graph.op("Add", day, leaps), 365)
    before = graph.op("Sub", graph.op("Div", year, 4), graph.op("Div", year, 100))
    before = graph.op("Add", before, graph.op("Mul", year, 365))
    day_of_year = graph.op("Sub", day, before)
    month = graph.op("Div", graph.op("Add", graph.op("Mul", day_of_year, 5), 2), 153)  # 0 is March
    late = graph.op("Less", month, 10)
    month = graph.op("Add", month, graph.op("Where", late, 3, -9))
    year = graph.op("Add", year, graph.op("Mul", era, 400))
    year = graph.op("Add", year, graph.op("Where", late, 0, 1))
    weekday = graph.op("Mod", graph.op("Add", z, (3 - 719_468) % 7), 7)
    weekday = graph.op("Add", weekday, 1)
    parts = [graph.op("Cast", part, to=TensorProto.DOUBLE) for part in (year, month, weekday)]
    return [*parts, days]


def _unknown_texts() -> Iterator[str]:
    number = 0
    while True:
        yield f"unknown {number}"
        number += 1
