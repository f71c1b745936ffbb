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
from service.models.exports.probabilities import add_probability
from service.models.exports.table_graph import (
    add_linear_scores,
    add_outputs,
    input_names,
    table_inputs,
)
from svm.data.matrices import Matrix, Vector, is_sparse
from svm.encoding.encoder import PlainEncoder
from svm.kernel.kernels import AnyKernel, GaussianKernel, PolynomialKernel
from svm.model.pipeline import FittedPipeline
from svm.transforms.features import (
    FeatureMap,
    Identity,
    Interactions,
    Nystroem,
    Polynomial,
    RandomFourier,
    Square,
    Terms,
)

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
        add_probability(graph, fitted, fitted.calibration, scores)
        outputs.append(
            helper.make_tensor_value_info("probability", TensorProto.DOUBLE, ["n", classes])
        )
    inputs, opsets = [_rows(fitted)], [helper.make_opsetid("", OPSET)]
    if not plain:
        inputs = table_inputs(fitted.columns)
        opsets.append(helper.make_opsetid("ai.onnx.ml", OPSET_ML))
    proto = helper.make_graph(graph.nodes, name, inputs, outputs, graph.initializers)
    return helper.make_model(
        proto, opset_imports=opsets, ir_version=IR_VERSION, producer_name="svm-service"
    )


def _rows(fitted: FittedPipeline) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info("X", TensorProto.DOUBLE, ["n", fitted.n_features])


def _scores(graph: Graph, fitted: FittedPipeline) -> str:
    encoder = fitted.encoder
    if isinstance(encoder, PlainEncoder):
        Z = _scaled(graph, fitted, "X")
    elif fitted.kernel is None and isinstance(fitted.features.spec, Identity):
        return add_linear_scores(graph, fitted, encoder)
    else:
        Z = add_outputs(graph, fitted, encoder)
    Z = _features(graph, fitted.features, Z)
    if fitted.kernel is not None:
        assert fitted.support_vectors is not None
        Z = _kernel(graph, fitted.kernel, Z, _dense(fitted.support_vectors))
    return graph.product(Z, fitted.coefficients.T, fitted.intercepts)


def _scaled(graph: Graph, fitted: FittedPipeline, X: str) -> str:
    if fitted.scaling.offset is not None:
        X = graph.op("Sub", X, graph.constant(fitted.scaling.offset))
    if fitted.scaling.scale is not None:
        X = graph.op("Div", X, graph.constant(fitted.scaling.scale))
    return X


def _features(graph: Graph, features: FeatureMap, X: str) -> str:
    W, weights = features.directions, features.weights
    match features.spec:
        case Square():
            return graph.op("Mul", X, X)
        case Polynomial(degree=degree):
            return _products(graph, X, features.n_inputs, degree, 0)
        case Interactions():
            return _products(graph, X, features.n_inputs, 2, 1)
        case Terms():
            assert weights is not None
            return _terms(graph, X, weights)
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


def _norms(graph: Graph, vectors: Vector) -> str:
    return graph.constant(np.einsum("ij,ij->i", vectors, vectors))


def _decision(graph: Graph, fitted: FittedPipeline, scores: str) -> str:
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
