"""Operands of mixed signedness: exact comparisons, shifts by a count of a wider type, and stops of ranges."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from ..dtypes import DType, int64, mixes_signs, uint64
from ..ir.arithmetic import build
from ..ir.nodes import Assert
from .context import Context
from .values import Constant, Memory, Scalar, Value

#: emits an elementwise operation on scalars or tiles
Apply = Callable[[Context, ast.AST, str, Sequence[Value]], Value]
#: converts a scalar or a tile
Convert = Callable[[Context, ast.AST, Value, DType], Value]

#: comparison -> the equivalent one with swapped operands
_EXCHANGED = {
    "less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal",
    "equal": "equal", "not_equal": "not_equal",
}
#: comparisons that hold if the left side is negative and the right side unsigned
_OF_NEGATIVE = ("less", "less_equal", "not_equal")


def _types(values: Sequence[Value]) -> tuple[DType, DType] | None:
    x, y = values
    are_tiles = isinstance(x, Memory) and isinstance(y, Memory)
    are_scalars = isinstance(x, Scalar) and isinstance(y, Scalar) and not x.weak and not y.weak
    if not are_tiles and not are_scalars:
        return None
    types: tuple[DType, DType] = x.dtype, y.dtype  # type: ignore[union-attr]
    return types if mixes_signs(types) else None


def _compared(
    ctx: Context, node: ast.AST, name: str, values: Sequence[Value], apply: Apply, convert: Convert
) -> Value | None:
    """Compare a signed integer with a uint64, first by sign, then as uint64; return None for other operands."""
    types = _types(values)
    if types is None or uint64 not in types:
        return None
    x, y = values
    if types[0] is uint64:
        x, y, name = y, x, _EXCHANGED[name]
    compared = apply(ctx, node, name, (convert(ctx, node, x, uint64), y))
    if name in _OF_NEGATIVE:
        return apply(ctx, node, "logical_or", (apply(ctx, node, "less", (x, Constant(0))), compared))
    return apply(ctx, node, "logical_and", (apply(ctx, node, "greater_equal", (x, Constant(0))), compared))


def _shifted(
    ctx: Context, node: ast.AST, name: str, values: Sequence[Value], apply: Apply, convert: Convert
) -> Value | None:
    """Shift by a wider count of the other signedness, clamped to [-1, width of x]; return None for other operands."""
    types = _types(values)
    if types is None or types[1].bits <= types[0].bits:
        return None
    x, count = values
    count = apply(ctx, node, "minimum", (count, Constant(types[0].bits)))
    if types[1].kind == "int":
        count = apply(ctx, node, "maximum", (count, Constant(-1)))
    return apply(ctx, node, name, (x, convert(ctx, node, count, types[0])))


#: operation -> its translation for mixed signedness, which returns None if the operands don't need it
WITH_MIXED_SIGNS = {**dict.fromkeys(_EXCHANGED, _compared), "left_shift": _shifted, "right_shift": _shifted}


def signed_stop(ctx: Context, node: ast.Call, values: Sequence[Value]) -> Value:
    """Return the stop of a range; a uint64 becomes an int64 if the start or the step is signed and neither is uint64.

    Checked builds assert that it fits; unchecked builds clamp it.
    """
    start, stop, step = values
    signed_ones = [v for v in (start, step) if isinstance(v, Scalar) and not v.weak and v.dtype.kind == "int"]
    unsigned_ones = [v for v in (start, step) if isinstance(v, Scalar) and not v.weak and v.dtype.kind == "uint"]
    is_wide = isinstance(stop, Scalar) and not stop.weak and stop.dtype == uint64
    if not is_wide or not signed_ones or any(v.dtype == uint64 for v in unsigned_ones):
        return stop
    assert isinstance(stop, Scalar)
    most = build.const(2**63 - 1, uint64)
    message = f"a range from a signed number ends past int64: {ctx.frame.source.segment(node)}"
    ctx.emit(Assert(build.op("less_equal", stop.expr, most), message, span=ctx.span(node)))
    return Scalar(build.cast(build.minimum(stop.expr, most), int64))
