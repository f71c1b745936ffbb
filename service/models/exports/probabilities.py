"""Calibrated probabilities as operations of an ONNX graph."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from onnx import TensorProto

from service.models.exports.nodes import Graph
from svm.model.calibration import CLOSEST, Calibration
from svm.model.pipeline import FittedPipeline


def add_probability(
    graph: Graph, fitted: FittedPipeline, calibration: Calibration, scores: str
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


def _interpolated(graph: Graph, calibration: Calibration, scores: str) -> str:
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


def _coupled(graph: Graph, positive: str, classes: int) -> str:
    """Proportional to the class probabilities of `svm.model.calibration.coupled`.

    Its p solves Qp + b1 = 0, so p is a multiple of (Q + 11ᵀ)⁻¹1, and the matrix is positive
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
