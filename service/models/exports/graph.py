"""A model as an ONNX graph in double precision, from rows to labels and probabilities.

Operations of the main ONNX domain only, opset 17.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from service.errors import InvalidContent
from svm.calibration import CLOSEST, Calibration
from svm.features import FeatureMap, Interactions, Nystroem, Polynomial, RandomFourier, Square
from svm.kernels import AnyKernel, GaussianKernel, PolynomialKernel
from svm.matrices import Matrix, Vector, is_sparse
from svm.pipeline import FittedPipeline

OPSET = 17
IR_VERSION = 8
MOST_VALUES = 32_000_000
"""Numbers of a graph: 256 MB. A file of ONNX ends at 2 GB."""

_LABELS = {
    "b": TensorProto.BOOL,
    "i": TensorProto.INT64,
    "u": TensorProto.INT64,
    "f": TensorProto.DOUBLE,
    "U": TensorProto.STRING,
}


def graph_of(fitted: FittedPipeline, name: str) -> onnx.ModelProto:
    """Input `X` (n, n_features); outputs `label` (n,), `decision` (n,) of two classes or
    (n, n_classes), and `probability` (n, n_classes) of a calibrated model.

    Raises InvalidContent (`export-unsupported`) for models of too many numbers.
    """
    count = _count(fitted)
    if count > MOST_VALUES:
        raise InvalidContent(
            "export-unsupported",
            f"as ONNX, which is dense, the model would have {count:,} numbers; at most "
            f"{MOST_VALUES:,} are written; use npz",
        )
    graph = _Graph()
    classes = len(fitted.classes)
    Z = _scaled(graph, fitted, "X")
    Z = _features(graph, fitted.features, Z)
    if fitted.kernel is not None:
        assert fitted.support_vectors is not None
        Z = _kernel(graph, fitted.kernel, Z, _dense(fitted.support_vectors))
    scores = graph.product(Z, fitted.coefficients.T, fitted.intercepts)
    decision = _decision(graph, fitted, scores)
    graph.op("Identity", decision, output="decision")
    if classes == 2:
        above = graph.op("Greater", decision, graph.constant(np.float64(0.0)))
        code = graph.op("Cast", above, to=TensorProto.INT64)
    else:
        code = graph.op("ArgMax", decision, axis=1, keepdims=0)
    kind = fitted.classes.dtype.kind
    labels = fitted.classes.astype(np.int64) if kind in "iu" else fitted.classes
    graph.op("Gather", graph.constant(labels), code, output="label")
    shape: list[str | int | None] = ["n"] if classes == 2 else ["n", classes]
    outputs = [
        helper.make_tensor_value_info("label", _LABELS[kind], ["n"]),
        helper.make_tensor_value_info("decision", TensorProto.DOUBLE, shape),
    ]
    if fitted.calibration is not None:
        _probability(graph, fitted, fitted.calibration, scores)
        outputs.append(
            helper.make_tensor_value_info("probability", TensorProto.DOUBLE, ["n", classes])
        )
    rows = helper.make_tensor_value_info("X", TensorProto.DOUBLE, ["n", fitted.n_features])
    proto = helper.make_graph(graph.nodes, name, [rows], outputs, graph.initializers)
    opset = helper.make_opsetid("", OPSET)
    return helper.make_model(
        proto, opset_imports=[opset], ir_version=IR_VERSION, producer_name="svm-service"
    )


class _Graph:
    """Nodes and constants, each with a name of its own."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def constant(self, value: Any) -> str:
        array = np.ascontiguousarray(value).reshape(np.shape(value))
        if array.dtype.kind == "U":
            array = array.astype(object)
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def op(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        name = output or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def product(self, X: str, W: Vector, b: Vector | None = None) -> str:
        """XW + b. Not by MatMul: onnxruntime moves factors beside it into an attribute of single
        precision, and eight digits are lost."""
        return self.op("Gemm", *(X, self.constant(W)), *(() if b is None else (self.constant(b),)))

    def columns(self, values: str, which: Sequence[int] | Any) -> str:
        return self.op("Gather", values, self.constant(np.asarray(which, dtype=np.int64)), axis=1)

    def reshaped(self, values: str, *shape: int) -> str:
        return self.op("Reshape", values, self.constant(np.array(shape, dtype=np.int64)))


def _scaled(graph: _Graph, fitted: FittedPipeline, X: str) -> str:
    if fitted.scaling.offset is not None:
        X = graph.op("Sub", X, graph.constant(fitted.scaling.offset))
    if fitted.scaling.scale is not None:
        X = graph.op("Div", X, graph.constant(fitted.scaling.scale))
    return X


def _features(graph: _Graph, features: FeatureMap, X: str) -> str:
    W, weights = features.directions, features.weights
    match features.spec:
        case Square():
            return graph.op("Mul", X, X)
        case Polynomial(degree=degree):
            return _products(graph, X, features.n_inputs, degree, 0)
        case Interactions():
            return _products(graph, X, features.n_inputs, 2, 1)
        case RandomFourier():
            assert W is not None
            assert weights is not None
            waves = graph.op("Cos", graph.product(X, W.T, weights))
            return graph.op("Mul", waves, graph.constant(np.float64(math.sqrt(2 / len(weights)))))
        case Nystroem(kernel=kernel):
            assert W is not None
            assert weights is not None
            return graph.product(_kernel(graph, kernel, X, W), weights.T)
    return X


def _products(graph: _Graph, X: str, d: int, degree: int, step: int) -> str:
    """All products of up to `degree` features, in the order of `svm.features`."""
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


def _kernel(graph: _Graph, kernel: AnyKernel, X: str, vectors: Vector) -> str:
    products = graph.product(X, vectors.T)
    if isinstance(kernel, GaussianKernel):
        norms = graph.op("ReduceSumSquare", X, axes=[1], keepdims=1)
        minus = graph.op("Mul", products, graph.constant(np.float64(-2.0)))
        distances = graph.op("Add", graph.op("Add", minus, norms), _norms(graph, vectors))
        distances = graph.op("Max", distances, graph.constant(np.float64(0.0)))
        return graph.op(
            "Exp", graph.op("Mul", distances, graph.constant(np.float64(-float(kernel.gamma))))
        )
    if isinstance(kernel, PolynomialKernel):
        scaled = graph.op("Mul", products, graph.constant(np.float64(kernel.gamma)))
        shifted = graph.op("Add", scaled, graph.constant(np.float64(kernel.coef0)))
        return graph.op("Pow", shifted, graph.constant(np.float64(kernel.degree)))
    return products


def _norms(graph: _Graph, vectors: Vector) -> str:
    return graph.constant(np.einsum("ij,ij->i", vectors, vectors))


def _decision(graph: _Graph, fitted: FittedPipeline, scores: str) -> str:
    classes = len(fitted.classes)
    if classes == 2:
        return graph.reshaped(scores, -1)
    if fitted.multiclass == "one-vs-rest":
        return scores
    signs = np.zeros((len(fitted.intercepts), classes))
    for k, (i, j) in enumerate(combinations(range(classes), 2)):
        signs[k, i], signs[k, j] = -1.0, 1.0
    half, minus = graph.constant(np.float64(0.5)), graph.constant(np.float64(-0.5))
    above = graph.op("Greater", scores, graph.constant(np.float64(0.0)))
    votes = graph.product(graph.op("Where", above, half, minus), signs)
    votes = graph.op("Add", votes, graph.constant(np.float64(0.5 * (classes - 1))))
    sums = graph.product(scores, signs)
    largest = graph.op("ReduceMax", graph.op("Abs", sums), axes=[1], keepdims=1)
    largest = graph.op("Max", largest, graph.constant(np.float64(1.0)))
    shares = graph.op("Div", graph.op("Div", sums, largest), graph.constant(np.float64(3.0)))
    return graph.op("Add", votes, shares)


def _probability(
    graph: _Graph, fitted: FittedPipeline, calibration: Calibration, scores: str
) -> None:
    classes = len(fitted.classes)
    if calibration.name == "sigmoid":
        slope, shift = calibration.knots.T
        line = graph.op("Mul", scores, graph.constant(-slope))
        positive = graph.op("Sigmoid", graph.op("Sub", line, graph.constant(shift)))
    else:
        positive = _interpolated(graph, calibration, scores)
    one = graph.constant(np.float64(1.0))
    if classes == 2:
        negative = graph.op("Sub", one, positive)
        graph.op("Concat", negative, positive, axis=1, output="probability")
        return
    if fitted.multiclass == "one-vs-one":
        positive = _coupled(graph, positive, classes)
    positive = graph.op("Max", positive, graph.constant(np.float64(0.0)))
    axis = graph.constant(np.array([1], dtype=np.int64))
    sums = graph.op("ReduceSum", positive, axis, keepdims=1)
    some = graph.op("Greater", sums, graph.constant(np.float64(0.0)))
    shares = graph.op("Div", positive, graph.op("Where", some, sums, one))
    equal = graph.constant(np.float64(1.0 / classes))
    graph.op("Where", some, shares, equal, output="probability")


def _interpolated(graph: _Graph, calibration: Calibration, scores: str) -> str:
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
    zero, one = graph.constant(np.int64(0)), graph.constant(np.int64(1))
    apart = graph.op("Unsqueeze", scores, graph.constant(np.array([2], dtype=np.int64)))
    reached = graph.op("GreaterOrEqual", apart, graph.constant(knots))
    counted = graph.op(
        "ReduceSum",
        graph.op("Cast", reached, to=TensorProto.INT64),
        graph.constant(np.array([2], dtype=np.int64)),
        keepdims=0,
    )
    at = graph.op("Sub", counted, one)
    at = graph.op("Min", graph.op("Max", at, zero), graph.constant(last))
    at = graph.op("Add", at, graph.constant(np.arange(problems, dtype=np.int64) * width))
    after = graph.op("Add", at, one)
    flat_knots, flat_values = graph.constant(knots.ravel()), graph.constant(values.ravel())
    x0, x1 = graph.op("Gather", flat_knots, at), graph.op("Gather", flat_knots, after)
    y0, y1 = graph.op("Gather", flat_values, at), graph.op("Gather", flat_values, after)
    share = graph.op("Div", graph.op("Sub", scores, x0), graph.op("Sub", x1, x0))
    limits = graph.constant(np.float64(0.0)), graph.constant(np.float64(1.0))
    share = graph.op("Clip", share, *limits)
    return graph.op("Add", y0, graph.op("Mul", share, graph.op("Sub", y1, y0)))


def _coupled(graph: _Graph, positive: str, classes: int) -> str:
    """Proportional to the class probabilities of `svm.calibration.coupled`.

    Its p solves Qp + b1 = 0, so p is a multiple of (Q + 11ᵀ)⁻¹1, where the matrix is positive
    definite: elimination needs no pivots.
    """
    bounds = (graph.constant(np.float64(CLOSEST)), graph.constant(np.float64(1.0 - CLOSEST)))
    likely = graph.op("Clip", positive, *bounds)
    unlikely = graph.op("Sub", graph.constant(np.float64(1.0)), likely)
    none = graph.op("Mul", graph.columns(likely, [0]), graph.constant(np.float64(0.0)))
    every = graph.op("Concat", likely, unlikely, none, axis=1)
    pairs = classes * (classes - 1) // 2
    source = np.full((classes, classes), 2 * pairs)
    for k, (i, j) in enumerate(combinations(range(classes), 2)):
        source[j, i], source[i, j] = k, pairs + k
    r = graph.reshaped(graph.columns(every, source.ravel()), -1, classes, classes)
    crossed = graph.op("Mul", r, graph.op("Transpose", r, perm=[0, 2, 1]))
    squares = graph.op("ReduceSumSquare", r, axes=[1], keepdims=1)
    diagonal = graph.op("Mul", squares, graph.constant(np.eye(classes)))
    system = graph.op("Sub", diagonal, crossed)
    system = graph.op("Add", system, graph.constant(np.ones((classes, classes))))
    first = graph.op("Gather", system, graph.constant(np.array([0], dtype=np.int64)), axis=2)
    zeros = graph.op("Mul", first, graph.constant(np.float64(0.0)))
    right = graph.op("Add", zeros, graph.constant(np.float64(1.0)))
    system = graph.op("Concat", system, right, axis=2)
    for k in range(classes):
        here = graph.constant(np.array([k], dtype=np.int64))
        row = graph.op("Gather", system, here, axis=1)
        row = graph.op("Div", row, graph.op("Gather", row, here, axis=2))
        unit = np.zeros((classes, 1))
        unit[k] = 1.0
        column = graph.op("Sub", graph.op("Gather", system, here, axis=2), graph.constant(unit))
        system = graph.op("Sub", system, graph.op("Mul", column, row))
    return graph.op("Gather", system, graph.constant(np.int64(classes)), axis=2)


def _dense(vectors: Matrix) -> Vector:
    dense: Vector = vectors.toarray() if is_sparse(vectors) else vectors
    return dense


def _count(fitted: FittedPipeline) -> int:
    count = fitted.coefficients.size
    if fitted.support_vectors is not None:
        count += fitted.support_vectors.shape[0] * fitted.support_vectors.shape[1]
    if fitted.features.directions is not None:
        count += fitted.features.directions.size
    return int(count)
