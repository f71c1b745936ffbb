"""Sums of the rows of each class, weighted: the same bits as adding row after row.

The sums of short dense rows stay in vector registers while many rows are added; each addition to
sums in memory would wait for the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from svm.data.matrices import Floats, Indices
from svm.loops.row_operations import overloads

LANES = 8
CHUNKS = 4
"""Vectors of `LANES` features that are summed at once, for both classes."""
TOGETHER = 256
"""Rows summed at once: the processor's nearest cache holds short ones while it scores them."""

_INT, _LANES = ir.IntType(64), ir.VectorType(ir.DoubleType(), LANES)


def is_short(operand: Any) -> bool:
    """Whether `add_short` can add the rows."""
    raise NotImplementedError("for compiled code only")


def add_short(operand: Any, rows: Indices, factors: Floats, sums: Floats) -> None:
    """sums[k] += Σ factors[k, i] · x of rows[i], for the classes k = 0 and 1."""
    raise NotImplementedError("for compiled code only")


@overloads(is_short)
def _is_short(operand: Any) -> Callable[..., Any]:
    def dense(operand: Any) -> bool:
        fits: bool = LANES <= operand.shape[1] <= CHUNKS * LANES
        return fits

    def sparse(operand: Any) -> bool:
        return False

    return dense if isinstance(operand, types.Array) else sparse


@overloads(add_short)
def _add_short(operand: Any, rows: Any, factors: Any, sums: Any) -> Callable[..., Any]:
    def dense(operand: Any, rows: Any, factors: Any, sums: Any) -> None:
        _add(operand, rows, factors, sums)

    def sparse(operand: Any, rows: Any, factors: Any, sums: Any) -> None:
        """Never called."""

    return dense if isinstance(operand, types.Array) else sparse


def _in_registers(typing_context: Any, X: Any, rows: Any, factors: Any, sums: Any) -> Any:
    """A chunk that would end behind the last feature is moved back: sums that overlap are the
    same."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        X, rows, factors, sums = (
            context.make_array(signature.args[i])(context, builder, arguments[i]) for i in range(4)
        )
        d, stride = (builder.extract_value(array.shape, 1) for array in (X, factors))
        last = builder.sub(d, _INT(LANES))
        offsets = [
            builder.select(builder.icmp_signed("<", offset, last), offset, last)
            for offset in map(_INT, range(0, CHUNKS * LANES, LANES))
        ]

        def lanes(data: Any, start: Any, offset: Any) -> Any:
            kind = ir.VectorType(data.type.pointee, LANES).as_pointer()
            return builder.bitcast(builder.gep(data, [builder.add(start, offset)]), kind)

        places = [[lanes(sums.data, builder.mul(d, _INT(k)), o) for o in offsets] for k in range(2)]
        place: Any = cgutils.alloca_once
        totals = [[place(builder, _LANES) for _ in offsets] for _ in range(2)]
        for k, c in product(range(2), range(CHUNKS)):
            builder.store(builder.load(places[k][c], align=8), totals[k][c])
        fma = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module, ir.FunctionType(_LANES, [_LANES] * 3), f"llvm.fmuladd.v{LANES}f64"
        )
        with cgutils.for_range(builder, builder.extract_value(rows.shape, 0)) as loop:
            row = builder.mul(builder.load(builder.gep(rows.data, [loop.index])), d)
            xs = [_doubles(builder, builder.load(lanes(X.data, row, o), align=4)) for o in offsets]
            for k in range(2):
                at = builder.add(loop.index, builder.mul(stride, _INT(k)))
                factor = _broadcast(builder, builder.load(builder.gep(factors.data, [at])))
                for x, total in zip(xs, totals[k], strict=True):
                    builder.store(builder.call(fma, [factor, x, builder.load(total)]), total)
        for k, c in product(range(2), range(CHUNKS)):
            builder.store(builder.load(totals[k][c]), places[k][c], align=8)
        return context.get_dummy_value()

    return types.void(X, rows, factors, sums), generate


def _doubles(builder: Any, values: Any) -> Any:
    return values if values.type == _LANES else builder.fpext(values, _LANES)


def _broadcast(builder: Any, value: Any) -> Any:
    undefined, zeros = ir.Constant(_LANES, ir.Undefined), ir.VectorType(ir.IntType(32), LANES)
    value = builder.insert_element(undefined, value, ir.IntType(32)(0))
    return builder.shuffle_vector(value, undefined, ir.Constant(zeros, [0] * LANES))


_add = cast(Callable[..., None], intrinsic(_in_registers))
