"""A model as an ONNX graph in double precision, from rows to labels and probabilities.

Operations of the main ONNX domain, opset 17; models of tables also have `LabelEncoder` of
`ai.onnx.ml`.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import onnx
from onnx import TensorProto, helper

from service.errors import InvalidContent
from service.models.exports.nodes import Graph
from service.models.exports.table_graph import (
    add_linear_scores,
    add_outputs,
    input_names,
    table_inputs,
)
from svm.data.matrices import Vector, dense
from svm.encoding.encoder import PlainEncoder
from svm.kernel.kernels import AnyKernel, GaussianKernel, PolynomialKernel
from svm.model.calibration import CLOSEST, Calibration
from svm.model.pipeline import FittedPipeline
from svm.transforms import features as maps
from svm.transforms.features import FeatureMap

OPSET = 17
OPSET_ML = 3
IR_VERSION = 8
MOST_VALUES = 32_000_000
"""Numbers of a graph: 256 MB. The limit of ONNX files is 2 GB."""

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
    calibrated model.

    Raises InvalidContent (`export-unsupported`) for models of too many numbers.
    """
    count = _count(fitted)
    if count > MOST_VALUES:
        raise InvalidContent(
            "export-unsupported",
            f"as ONNX, which is dense, the model would have {count:,} numbers; at most "
            f"{MOST_VALUES:,} are written; use npz",
        )
    plain = fitted.encoder.is_plain
    graph = Graph(taken=[] if plain else input_names(fitted.columns))
    classes = len(fitted.classes)
    scores = _scores(graph, fitted)
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
    opsets = [helper.make_opsetid("", OPSET)]
    if plain:
        shape = ["n", fitted.n_features]
        inputs = [helper.make_tensor_value_info("X", TensorProto.DOUBLE, shape)]
    else:
        inputs = table_inputs(fitted.columns)
        opsets.append(helper.make_opsetid("ai.onnx.ml", OPSET_ML))
    proto = helper.make_graph(graph.nodes, name, inputs, outputs, graph.initializers)
    return helper.make_model(
        proto, opset_imports=opsets, ir_version=IR_VERSION, producer_name="svm-service"
    )


def _scores(graph: Graph, fitted: FittedPipeline) -> str:
    encoder = fitted.encoder
    if isinstance(encoder, PlainEncoder):
        Z = _scale(graph, fitted, "X")
    elif fitted.kernel is None and isinstance(fitted.features.spec, maps.Identity):
        return add_linear_scores(graph, fitted, encoder)
    else:
        Z = add_outputs(graph, fitted, encoder)
    Z = _features(graph, fitted.features, Z)
    if fitted.kernel is not None:
        assert fitted.support_vectors is not None
        Z = _kernel(graph, fitted.kernel, Z, dense(fitted.support_vectors))
    return graph.product(Z, fitted.coefficients.T, fitted.intercepts)


def _scale(graph: Graph, fitted: FittedPipeline, X: str) -> str:
    if fitted.scaling.offset is not None:
        X = graph.op("Sub", X, fitted.scaling.offset)
    if fitted.scaling.scale is not None:
        X = graph.op("Div", X, fitted.scaling.scale)
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
