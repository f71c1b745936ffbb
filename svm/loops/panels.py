"""Inner products of rows with fixed vectors, each summed in the order of the features.

The vectors are stored in panels of WIDTH, feature by feature: one multiply-add adds one feature to
eight sums, so no sum is split into parts. Several rows share each load of a panel. Each sum is a
chain of fused multiply-adds whose bits depend on its row and its vector alone, not on the number of
rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from svm.data.matrices import Floats, Vector
from svm.loops import compiled

LANES = 8
WIDTH = 4 * LANES
"""Vectors in a panel: with four rows, half of the registers of AVX-512 are sums."""

_DOUBLE, _INT, _SHORT = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
_LANES = ir.VectorType(_DOUBLE, LANES)


def pack(Z: Floats) -> Vector:
    """Z (m, d) as panels of float64, (⌈m / WIDTH⌉, d, WIDTH), padded with zeros."""
    m, d = Z.shape
    panels = np.zeros((-(-m // WIDTH), d, WIDTH))
    for start in range(0, m, WIDTH):
        part = Z[start : start + WIDTH]
        panels[start // WIDTH, :, : len(part)] = part.T
    return panels


def _tile(rows: int) -> Any:
    """⟨x, z⟩ of `rows` rows with the vectors of one panel, in LLVM code: Numba's code for such
    loops keeps the sums in memory."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        X, row, panels, panel, out = arguments
        X, panels, out = (
            context.make_array(signature.args[i])(context, builder, array)
            for i, array in ((0, X), (2, panels), (4, out))
        )
        d, columns = (builder.extract_value(array.shape, 1) for array in (X, out))
        fma = cgutils.get_or_insert_function(  # type: ignore[no-untyped-call]
            builder.module, ir.FunctionType(_LANES, [_LANES] * 3), f"llvm.fma.v{LANES}f64"
        )
        lines = [builder.add(row, _INT(i)) for i in range(rows)]
        xs = [builder.gep(X.data, [builder.mul(line, d)]) for line in lines]
        z = builder.gep(panels.data, [builder.mul(builder.mul(panel, d), _INT(WIDTH))])

        before = builder.block
        loop, after = (builder.append_basic_block(name) for name in ("features", "sums"))
        builder.branch(loop)
        builder.position_at_end(loop)
        k = builder.phi(_INT)
        k.add_incoming(_INT(0), before)
        sums = [[builder.phi(_LANES) for _ in range(WIDTH // LANES)] for _ in range(rows)]
        address = builder.gep(z, [builder.mul(k, _INT(WIDTH))])
        values = [_lanes(builder, address, c) for c in range(WIDTH // LANES)]
        for i in range(rows):
            x = builder.load(builder.gep(xs[i], [k]))
            x = builder.insert_element(ir.Constant(_LANES, ir.Undefined), x, _SHORT(0))
            broadcast = ir.Constant(ir.VectorType(_SHORT, LANES), [0] * LANES)
            x = builder.shuffle_vector(x, ir.Constant(_LANES, ir.Undefined), broadcast)
            for c, value in enumerate(values):
                total = builder.call(fma, [x, value, sums[i][c]])
                sums[i][c].add_incoming(ir.Constant(_LANES, [0.0] * LANES), before)
                sums[i][c].add_incoming(total, loop)
                sums[i][c] = total
        following = builder.add(k, _INT(1))
        k.add_incoming(following, loop)
        builder.cbranch(builder.icmp_signed("<", following, d), loop, after)

        builder.position_at_end(after)
        first = builder.mul(panel, _INT(WIDTH))
        for line, row_sums in zip(lines, sums, strict=True):
            address = builder.gep(out.data, [builder.add(builder.mul(line, columns), first)])
            for c, total in enumerate(row_sums):
                builder.store(total, _pointer(builder, address, c)).align = 8
        return context.get_dummy_value()

    def tile(_: Any, X: Any, row: Any, panels: Any, panel: Any, out: Any) -> Any:
        return types.void(X, types.intp, panels, types.intp, out), generate

    return intrinsic(tile)


def _pointer(builder: Any, address: Any, c: int) -> Any:
    return builder.gep(builder.bitcast(address, _LANES.as_pointer()), [_INT(c)])


def _lanes(builder: Any, address: Any, c: int) -> Any:
    value = builder.load(_pointer(builder, address, c))
    value.align = 8
    return value


_one_row: Callable[..., None] = _tile(1)
_two_rows: Callable[..., None] = _tile(2)
_four_rows: Callable[..., None] = _tile(4)


@compiled
def panel_products(X: Vector, panels: Vector, out: Vector) -> None:
    """out[i, j] = ⟨xᵢ, zⱼ⟩. X (n, d), d ≥ 1, panels of `pack`, out (n, len(panels) · WIDTH), all of
    them float64 in C order."""
    n = len(X)
    for panel in range(len(panels)):
        row = 0
        while row + 4 <= n:
            _four_rows(X, row, panels, panel, out)
            row += 4
        if row + 2 <= n:
            _two_rows(X, row, panels, panel, out)
            row += 2
        if row < n:
            _one_row(X, row, panels, panel, out)
