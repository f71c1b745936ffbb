"""An ONNX graph under construction: operations and constants, each with a unique name."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from svm.data.matrices import Vector


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
