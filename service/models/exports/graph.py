"""A model as an ONNX graph in double precision, from rows to labels and probabilities, or numbers.

Operations of the main ONNX domain, opset 17; models of tables also have `LabelEncoder` of
`ai.onnx.ml`.

A table has an input for each column. A category is a column of strings, every other one a column of
doubles: booleans are 1 and 0, dates days since 1970-01-01. An empty string and NaN are missing
cells.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations, count
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, ValueInfoProto, helper, numpy_helper

from service.errors import InvalidContent
from service.rows.cell_texts.number_text import MISSING_TEXTS
from svm.data.columns import UNKNOWN, Columns
from svm.data.matrices import Indices, Vector, dense
from svm.encoding.encoder import Encoder, PlainEncoder
from svm.kernel.kernels import AnyKernel, GaussianKernel, PolynomialKernel
from svm.model.calibration import CLOSEST, Calibration
from svm.model.pipeline import FittedPipeline
from svm.model.target import LARGEST_SCORE
from svm.transforms import features as maps
from svm.transforms.features import FeatureMap
from svm.transforms.scaling import Scaling
from svm.transforms.splines import pieces_of

OPSET = 17
OPSET_ML = 3
IR_VERSION = 8
MOST_VALUES = 32_000_000
"""Numbers of a graph: 256 MB. The limit of ONNX files is 2 GB."""

RESERVED = frozenset({"label", "decision", "probability", "value"})
"""Outputs; an input with such a name gets a `_` behind it."""

_LABELS = {
    "b": TensorProto.BOOL,
    "i": TensorProto.INT64,
    "u": TensorProto.INT64,
    "f": TensorProto.DOUBLE,
    "U": TensorProto.STRING,
}


def graph_of(fitted: FittedPipeline, name: str) -> onnx.ModelProto:
    """Input `X` (n, n_features), or of a table an input for each column; outputs `label` (n,),
    `decision` (n,) of two classes or (n, n_classes), and `probability` (n, n_classes) of a
    calibrated model; or `value` (n,) of a model of numbers.

    Raises InvalidContent (`export-unsupported`) for models of texts and of too many numbers.
    """
    if fitted.encoder.texts:
        name = next(column.name for column in fitted.columns if column.kind == "text")
        raise InvalidContent(
            "export-unsupported",
            f"column {name!r} has texts, and ONNX has no operation for their tokens; use npz, "
            "which contains a program in Python that predicts from npz and json",
        )
    n_values = _count(fitted)
    if n_values > MOST_VALUES:
        raise InvalidContent(
            "export-unsupported",
            f"as ONNX, which is dense, the model would have {n_values:,} numbers; at most "
            f"{MOST_VALUES:,} are written; use npz",
        )
    plain = fitted.encoder.is_plain
    graph = Graph(taken=[] if plain else input_names(fitted.columns))
    scores = _scores(graph, fitted)
    outputs = _add_outputs_of_classes if fitted.target is None else _add_value
    opsets = [helper.make_opsetid("", OPSET)]
    if plain:
        shape: list[str | int | None] = ["n", fitted.n_features]
        inputs = [helper.make_tensor_value_info("X", TensorProto.DOUBLE, shape)]
    else:
        inputs = table_inputs(fitted.columns)
        opsets.append(helper.make_opsetid("ai.onnx.ml", OPSET_ML))
    proto = helper.make_graph(
        graph.nodes, name, inputs, outputs(graph, fitted, scores), graph.initializers
    )
    return helper.make_model(
        proto, opset_imports=opsets, ir_version=IR_VERSION, producer_name="svm-service"
    )


def _add_value(graph: Graph, fitted: FittedPipeline, scores: str) -> list[ValueInfoProto]:
    """Adds the output of numbers, in the unit of the target."""
    assert fitted.target is not None
    if fitted.target.logarithm:
        scores = graph.op("Exp", graph.op("Clip", scores, -LARGEST_SCORE, LARGEST_SCORE))
    graph.op("Reshape", scores, np.array([-1], dtype=np.int64), output="value")
    return [helper.make_tensor_value_info("value", TensorProto.DOUBLE, ["n"])]


def _add_outputs_of_classes(
    graph: Graph, fitted: FittedPipeline, scores: str
) -> list[ValueInfoProto]:
    classes = len(fitted.classes)
    decision = _decision(graph, fitted, scores)
    graph.op("Identity", decision, output="decision")
    if classes == 2:
        above = graph.op("Greater", decision, 0.0)
        code = graph.op("Cast", above, to=TensorProto.INT64)
    else:
        code = graph.op("ArgMax", decision, axis=1, keepdims=0)
    kind = fitted.classes.dtype.kind
    labels = fitted.classes.astype(np.int64) if kind in "iu" else fitted.classes
    graph.op("Gather", labels, code, output="label")
    shape: list[str | int | None] = ["n"] if classes == 2 else ["n", classes]
    outputs = [
        helper.make_tensor_value_info("label", _LABELS[kind], ["n"]),
        helper.make_tensor_value_info("decision", TensorProto.DOUBLE, shape),
    ]
    if fitted.calibration is not None:
        add_probability(graph, fitted, fitted.calibration, scores)
        outputs.append(
            helper.make_tensor_value_info("probability", TensorProto.DOUBLE, ["n", classes])
        )
    return outputs


def _scores(graph: Graph, fitted: FittedPipeline) -> str:
    encoder = fitted.encoder
    if isinstance(encoder, PlainEncoder):
        Z = _scale(graph, fitted.scaling, "X")
    elif fitted.kernel is None and isinstance(fitted.features.spec, maps.Identity):
        return add_linear_scores(graph, fitted, encoder)
    else:
        Z = add_outputs(graph, fitted, encoder)
    Z = _features(graph, fitted.features, Z)
    if fitted.kernel is not None:
        assert fitted.support_vectors is not None
        Z = _kernel(graph, fitted.kernel, Z, dense(fitted.support_vectors))
    return graph.product(Z, fitted.coefficients.T, fitted.intercepts)


def _scale(graph: Graph, scaling: Scaling, X: str) -> str:
    if scaling.offset is not None:
        X = graph.op("Sub", X, scaling.offset)
    if scaling.scale is not None:
        X = graph.op("Div", X, scaling.scale)
    return X


def _features(graph: Graph, features: FeatureMap, X: str) -> str:
    W, weights = features.directions, features.weights
    match features.spec:
        case maps.Square():
            return graph.op("Mul", X, X)
        case maps.Polynomial(degree=degree):
            return _products(graph, X, features.n_inputs, degree, 0)
        case maps.Interactions():
            return _products(graph, X, features.n_inputs, 2, 1)
        case maps.Terms():
            assert weights is not None
            return _terms(graph, X, weights)
        case maps.Splines():
            assert weights is not None
            return _splines(graph, X, weights)
        case maps.RandomFourier():
            assert W is not None
            assert weights is not None
            waves = graph.op("Cos", graph.product(X, W.T, weights))
            return graph.op("Mul", waves, math.sqrt(2 / len(weights)))
        case maps.Nystroem(kernel=kernel):
            assert W is not None
            assert weights is not None
            return graph.product(_kernel(graph, kernel, X, W), weights.T)
    return X


def _products(graph: Graph, X: str, d: int, degree: int, step: int) -> str:
    """All products of up to `degree` features, in the order of `svm.transforms.features`."""
    levels = [X]
    last = list(range(d))  # of each product made last, the number of its last feature
    for _ in range(degree - 1):
        pairs = [(k, j) for k, i in enumerate(last) for j in range(i + step, d)]
        if not pairs:
            break
        left = graph.columns(levels[-1], [k for k, _ in pairs])
        levels.append(graph.op("Mul", left, graph.columns(X, [j for _, j in pairs])))
        last = [j for _, j in pairs]
    return graph.op("Concat", *levels, axis=1)


def _terms(graph: Graph, X: str, factors: Vector) -> str:
    """Each term on the factors that it has; the others are multiplied by no further one."""
    longest, lengths = factors.shape[1], (factors >= 0).sum(axis=1)
    made = [
        _product(graph, X, factors[lengths == n, :n]) for n in range(1, longest + 1) if n in lengths
    ]
    order = np.concatenate([np.flatnonzero(lengths == n) for n in range(1, longest + 1)])
    joined = graph.op("Concat", *made, axis=1) if len(made) > 1 else made[0]
    return graph.columns(joined, np.argsort(order).tolist())


def _splines(graph: Graph, X: str, knots: Vector) -> str:
    """Each basis function piece by piece."""
    made = pieces_of(knots)
    x = graph.columns(X, made.features)
    x = graph.op("Min", graph.op("Max", x, made.lowest), made.highest)
    out = ""
    for low, high, c in zip(made.low, made.high, made.coefficients, strict=True):
        known = ~np.isnan(low)
        # The first piece of a clamped curve has its left end, too.
        above = np.where(np.isfinite(made.lowest) & (low > made.lowest), low, -np.inf)
        right = graph.op("Greater", x, np.where(known, above, np.inf))
        left = graph.op("LessOrEqual", x, np.where(known, high, -np.inf))
        u = graph.op("Sub", x, np.where(known, low, 0.0))
        steep = graph.op("Add", c[1], graph.op("Mul", u, c[2]))
        value = graph.op("Add", c[0], graph.op("Mul", u, steep))
        inside = graph.op("And", right, left)
        piece = graph.op("Where", inside, value, np.zeros_like(c[0]))
        out = graph.op("Add", out, piece) if out else piece
    return out


def _product(graph: Graph, X: str, factors: Vector) -> str:
    columns = factors.T.astype(np.int64).tolist()
    out = graph.columns(X, columns[0])
    for factor in columns[1:]:
        out = graph.op("Mul", out, graph.columns(X, factor))
    return out


def _kernel(graph: Graph, kernel: AnyKernel, X: str, vectors: Vector) -> str:
    products = graph.product(X, vectors.T)
    if isinstance(kernel, GaussianKernel):
        norms = graph.op("ReduceSumSquare", X, axes=[1], keepdims=1)
        minus = graph.op("Mul", products, -2.0)
        distances = graph.op(
            "Add", graph.op("Add", minus, norms), np.einsum("ij,ij->i", vectors, vectors)
        )
        distances = graph.op("Max", distances, 0.0)
        return graph.op("Exp", graph.op("Mul", distances, -float(kernel.gamma)))
    if isinstance(kernel, PolynomialKernel):
        scaled = graph.op("Mul", products, float(kernel.gamma))
        shifted = graph.op("Add", scaled, float(kernel.coef0))
        return graph.op("Pow", shifted, float(kernel.degree))
    return products


def _decision(graph: Graph, fitted: FittedPipeline, scores: str) -> str:
    classes = len(fitted.classes)
    if classes == 2:
        return graph.reshape(scores, -1)
    if fitted.multiclass == "one-vs-rest":
        return scores
    signs = np.zeros((len(fitted.intercepts), classes))
    for k, (i, j) in enumerate(combinations(range(classes), 2)):
        signs[k, i], signs[k, j] = -1.0, 1.0
    half, minus = graph.constant(0.5), graph.constant(-0.5)
    above = graph.op("Greater", scores, 0.0)
    votes = graph.product(graph.op("Where", above, half, minus), signs)
    votes = graph.op("Add", votes, 0.5 * (classes - 1))
    sums = graph.product(scores, signs)
    largest = graph.op("ReduceMax", graph.op("Abs", sums), axes=[1], keepdims=1)
    largest = graph.op("Max", largest, 1.0)
    shares = graph.op("Div", graph.op("Div", sums, largest), 3.0)
    return graph.op("Add", votes, shares)


def _count(fitted: FittedPipeline) -> int:
    count = fitted.coefficients.size
    if fitted.support_vectors is not None:
        count += fitted.support_vectors.shape[0] * fitted.support_vectors.shape[1]
    if fitted.features.directions is not None:
        count += fitted.features.directions.size
    return int(count)


def add_probability(
    graph: Graph, fitted: FittedPipeline, calibration: Calibration, scores: str
) -> None:
    classes = len(fitted.classes)
    if calibration.name == "sigmoid":
        slope, shift = calibration.knots.T
        line = graph.op("Mul", scores, -slope)
        positive = graph.op("Sigmoid", graph.op("Sub", line, shift))
    else:
        positive = _interpolate(graph, calibration, scores)
    one = graph.constant(1.0)
    if classes == 2:
        negative = graph.op("Sub", one, positive)
        graph.op("Concat", negative, positive, axis=1, output="probability")
        return
    if fitted.multiclass == "one-vs-one":
        positive = _couple(graph, positive, classes)
    positive = graph.op("Max", positive, 0.0)
    sums = graph.op("ReduceSum", positive, np.array([1], dtype=np.int64), keepdims=1)
    some = graph.op("Greater", sums, 0.0)
    shares = graph.op("Div", positive, graph.op("Where", some, sums, one))
    graph.op("Where", some, shares, 1.0 / classes, output="probability")


def _interpolate(graph: Graph, calibration: Calibration, scores: str) -> str:
    """Straight lines between knots, constant beyond them."""
    assert calibration.values is not None
    assert calibration.starts is not None
    starts, problems = calibration.starts, calibration.n_problems
    width = max(2, int(np.diff(starts).max()))
    knots, values = np.full((problems, width), np.inf), np.zeros((problems, width))
    last = np.zeros(problems, dtype=np.int64)
    for k in range(problems):
        x = calibration.knots[starts[k] : starts[k + 1]]
        y = calibration.values[starts[k] : starts[k + 1]]
        if len(x) == 1:  # a level: its line has two ends
            x, y = np.array([x[0], np.nextafter(x[0], np.inf)]), np.array([y[0], y[0]])
        knots[k, : len(x)], values[k, : len(y)] = x, y
        last[k] = len(x) - 2
    zero, one = graph.constant(0), graph.constant(1)
    apart = graph.op("Unsqueeze", scores, np.array([2], dtype=np.int64))
    reached = graph.op("GreaterOrEqual", apart, knots)
    counted = graph.op(
        "ReduceSum",
        graph.op("Cast", reached, to=TensorProto.INT64),
        np.array([2], dtype=np.int64),
        keepdims=0,
    )
    at = graph.op("Sub", counted, one)
    at = graph.op("Min", graph.op("Max", at, zero), last)
    at = graph.op("Add", at, np.arange(problems, dtype=np.int64) * width)
    after = graph.op("Add", at, one)
    flat_knots, flat_values = graph.constant(knots.ravel()), graph.constant(values.ravel())
    x0, x1 = graph.op("Gather", flat_knots, at), graph.op("Gather", flat_knots, after)
    y0, y1 = graph.op("Gather", flat_values, at), graph.op("Gather", flat_values, after)
    share = graph.op("Div", graph.op("Sub", scores, x0), graph.op("Sub", x1, x0))
    share = graph.op("Clip", share, 0.0, 1.0)
    return graph.op("Add", y0, graph.op("Mul", share, graph.op("Sub", y1, y0)))


def _couple(graph: Graph, positive: str, classes: int) -> str:
    """Proportional to the class probabilities of `svm.model.calibration.couple`.

    Its p solves Qp + b1 = 0, so p is a multiple of (Q + 11ᵀ)⁻¹1, and the matrix is positive
    definite: elimination needs no pivots.
    """
    likely = graph.op("Clip", positive, CLOSEST, 1.0 - CLOSEST)
    unlikely = graph.op("Sub", 1.0, likely)
    none = graph.op("Mul", graph.columns(likely, [0]), 0.0)
    every = graph.op("Concat", likely, unlikely, none, axis=1)
    pairs = classes * (classes - 1) // 2
    source = np.full((classes, classes), 2 * pairs)
    for k, (i, j) in enumerate(combinations(range(classes), 2)):
        source[j, i], source[i, j] = k, pairs + k
    r = graph.reshape(graph.columns(every, source.ravel()), -1, classes, classes)
    crossed = graph.op("Mul", r, graph.op("Transpose", r, perm=[0, 2, 1]))
    squares = graph.op("ReduceSumSquare", r, axes=[1], keepdims=1)
    diagonal = graph.op("Mul", squares, np.eye(classes))
    system = graph.op("Sub", diagonal, crossed)
    system = graph.op("Add", system, np.ones((classes, classes)))
    first = graph.op("Gather", system, np.array([0], dtype=np.int64), axis=2)
    zeros = graph.op("Mul", first, 0.0)
    right = graph.op("Add", zeros, 1.0)
    system = graph.op("Concat", system, right, axis=2)
    for k in range(classes):
        here = graph.constant(np.array([k], dtype=np.int64))
        row = graph.op("Gather", system, here, axis=1)
        row = graph.op("Div", row, graph.op("Gather", row, here, axis=2))
        unit = np.zeros((classes, 1))
        unit[k] = 1.0
        column = graph.op("Sub", graph.op("Gather", system, here, axis=2), unit)
        system = graph.op("Sub", system, graph.op("Mul", column, row))
    return graph.op("Gather", system, np.int64(classes), axis=2)


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
            unknown = map("unknown {}".format, count())
            other = next(text for text in unknown if text not in column.levels)
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
    return _scale(graph, fitted.scaling.first(encoder.n_numbers), joined)


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


class Graph:
    """Nodes and constants in the order they were added; `op` and `constant` return their names."""

    def __init__(self, taken: Collection[str] = ()) -> None:
        """`taken`: names that its values must not have."""
        self._taken = frozenset(taken)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def constant(self, value: Any) -> str:
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        if array.dtype.kind == "U":
            array = array.astype(object)
        name = self._name(f"c{len(self.initializers)}")
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def op(self, kind: str, *inputs: Any, output: str | None = None, **attributes: Any) -> str:
        """`inputs` are names of values, or numbers and arrays, which become constants."""
        names = [one if isinstance(one, str) else self.constant(one) for one in inputs]
        name = output or self._name(f"v{len(self.nodes)}")
        self.nodes.append(helper.make_node(kind, names, [name], **attributes))
        return name

    def _name(self, name: str) -> str:
        while name in self._taken:
            name = f"_{name}"
        return name

    def product(self, X: str, W: Vector, b: Vector | None = None) -> str:
        """XW + b. MatMul would lose eight digits: onnxruntime fuses neighboring factors into an
        attribute of single precision."""
        return self.op("Gemm", X, W, *(() if b is None else (b,)))

    def columns(self, values: str, which: Sequence[int] | Any) -> str:
        return self.op("Gather", values, np.asarray(which, dtype=np.int64), axis=1)

    def reshape(self, values: str, *shape: int) -> str:
        return self.op("Reshape", values, np.array(shape, dtype=np.int64))
