"""Operations on one row of a dense matrix or of CSR's (data, indices, indptr), and on many.

For Python and the type checker these are ordinary functions; in compiled code Numba chooses the
form for the operand.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from svm.data.matrices import Indices, Vector
from svm.loops import OPTIONS, compiled

overloads = partial(overload, jit_options=OPTIONS)


def dot(operand: Any, row: int, w: Any) -> float:
    """⟨x, w⟩ for the row x."""
    raise NotImplementedError("for compiled code only")


def add(operand: Any, row: int, factor: float, out: Any) -> None:
    """out += factor · x."""
    raise NotImplementedError("for compiled code only")


def prefetch(operand: Any, row: int) -> None:
    """Load the row x into the processor's cache while another row is processed."""
    raise NotImplementedError("for compiled code only")


def squared_norm(operand: Any, row: int) -> float:
    """‖x‖²."""
    raise NotImplementedError("for compiled code only")


def add_squares(operand: Any, row: int, factor: float, out: Any) -> None:
    """out += factor · x², entry by entry."""
    raise NotImplementedError("for compiled code only")


@overloads(dot)
def _dot(operand: Any, row: Any, w: Any) -> Callable[..., Any]:
    if isinstance(operand, types.Array):

        def dense(operand: Any, row: Any, w: Any) -> Any:
            x = operand[row]
            total = w[0] * 0.0 if len(w) else 0.0
            for j in range(len(w)):
                total += x[j] * w[j]
            return total

        return dense

    def sparse(operand: Any, row: Any, w: Any) -> Any:
        data, indices, indptr = operand
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            total += data[k] * w[indices[k]]
        return total

    return sparse


@overloads(add)
def _add(operand: Any, row: Any, factor: Any, out: Any) -> Callable[..., Any]:
    if isinstance(operand, types.Array):

        def dense(operand: Any, row: Any, factor: Any, out: Any) -> None:
            x = operand[row]
            scale = out.dtype.type(factor)
            for j in range(len(out)):
                out[j] += scale * x[j]

        return dense

    def sparse(operand: Any, row: Any, factor: Any, out: Any) -> None:
        data, indices, indptr = operand
        for k in range(indptr[row], indptr[row + 1]):
            out[indices[k]] += factor * data[k]

    return sparse


def _cache_line(typing_context: Any, array: Any, index: Any) -> Any:
    """The cache line of array[index], for a contiguous array of one dimension."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = builder.gep(array.data, [arguments[1]])
        pointer = builder.bitcast(pointer, cgutils.voidptr_t)
        number = ir.IntType(32)
        of_type = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, number, number, number])
        fetch: Any = cgutils.get_or_insert_function(builder.module, of_type, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
        builder.call(fetch, [pointer, number(0), number(3), number(1)])  # to read, near, data
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


_prefetch_line = cast(Callable[..., None], intrinsic(_cache_line))


@overloads(prefetch)
def _prefetch(operand: Any, row: Any) -> Callable[..., Any]:
    if isinstance(operand, types.Array):

        def dense(operand: Any, row: Any) -> None:
            """Not needed: the processor prefetches consecutive values itself."""

        return dense

    def sparse(operand: Any, row: Any) -> None:
        data, indices, indptr = operand
        for k in range(indptr[row], indptr[row + 1], 8):
            _prefetch_line(data, k)
            _prefetch_line(indices, k)

    return sparse


@overloads(squared_norm)
def _squared_norm(operand: Any, row: Any) -> Callable[..., Any]:
    if isinstance(operand, types.Array):

        def dense(operand: Any, row: Any) -> Any:
            x = operand[row]
            total = 0.0
            for j in range(len(x)):
                value = np.float64(x[j])
                total += value * value
            return total

        return dense

    def sparse(operand: Any, row: Any) -> Any:
        data, _, indptr = operand
        total = 0.0
        for k in range(indptr[row], indptr[row + 1]):
            value = np.float64(data[k])
            total += value * value
        return total

    return sparse


@overloads(add_squares)
def _add_squares(operand: Any, row: Any, factor: Any, out: Any) -> Callable[..., Any]:
    if isinstance(operand, types.Array):

        def dense(operand: Any, row: Any, factor: Any, out: Any) -> None:
            x = operand[row]
            for j in range(len(out)):
                value = np.float64(x[j])
                out[j] += factor * value * value

        return dense

    def sparse(operand: Any, row: Any, factor: Any, out: Any) -> None:
        data, indices, indptr = operand
        for k in range(indptr[row], indptr[row + 1]):
            value = np.float64(data[k])
            out[indices[k]] += factor * value * value

    return sparse


@compiled
def scores(operand: Any, rows: Indices, w: Vector, intercept: float, out: Vector) -> None:
    """out[i] = ⟨x of rows[i], w⟩ + intercept."""
    for i in range(len(rows)):
        out[i] = dot(operand, rows[i], w) + intercept


@compiled
def scores_of_sides(operand: Any, rows: Indices, w: Vector, intercept: float, out: Vector) -> None:
    """`scores`, if neighbors are often the same row."""
    for i in range(len(rows)):
        if i > 0 and rows[i] == rows[i - 1]:
            out[i] = out[i - 1]
        else:
            out[i] = dot(operand, rows[i], w) + intercept


@compiled
def add_rows(operand: Any, rows: Indices, coefficients: Vector, out: Vector) -> None:
    """out += Σ coefficients[i] · x of rows[i]."""
    for i in range(len(rows)):
        if coefficients[i] != 0.0:
            add(operand, rows[i], coefficients[i], out)


@compiled
def squared_norms(operand: Any, rows: Indices, out: Vector) -> None:
    """out[i] = ‖x of rows[i]‖²."""
    for i in range(len(rows)):
        out[i] = squared_norm(operand, rows[i])


@compiled
def weighted_squares(operand: Any, rows: Indices, coefficients: Vector, out: Vector) -> None:
    """out += Σ coefficients[i] · x² of rows[i], entry by entry."""
    for i in range(len(rows)):
        add_squares(operand, rows[i], coefficients[i], out)


@compiled
def in_groups(items: Indices, groups: Indices, size: int, out: Indices) -> None:
    """out = the items group by group: group g has items[g · size], … items[g · size + size - 1]."""
    k = 0
    for first in groups * size:
        for i in range(first, min(first + size, len(items))):
            out[k] = items[i]
            k += 1
