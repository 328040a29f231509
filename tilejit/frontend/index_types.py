"""Conversion of integers to a buffer's index type.

Checked builds test that 64-bit data (see `is_data`) fits in 32 bits. All builds may clamp uint64 starts to int64.
"""

from __future__ import annotations

import ast

from ..dtypes import int32, int64, uint64
from ..ir.arithmetic import build
from ..ir.arithmetic.facts import full_range, is_data
from ..ir.nodes import TRUE, Assert, Buffer, Expr
from .context import Context


def as_index(ctx: Context, node: ast.AST, number: Expr, buffer: Buffer) -> Expr:
    """Return an integer in the buffer's index type; checked builds test that 64-bit data fits in 32 bits."""
    dtype = buffer.index_dtype
    if dtype is int32 and number.dtype.bits == 64 and is_data(number):
        check_index_fits(ctx, node, number, full_range(dtype), buffer)
    return build.cast(number, dtype)


def as_start(ctx: Context, node: ast.AST, start: Expr, taken: int | Expr, buffer: Buffer) -> Expr:
    """Return a slice's start in the index type; uint64 is clamped to int64 if a wrapped start could be valid."""
    if start.dtype is uint64 and buffer.index_dtype is int64 and taken != 1:
        start = build.minimum(start, full_range(int64)[1])
    return as_index(ctx, node, start, buffer)


def check_index_fits(ctx: Context, node: ast.AST, number: Expr, limits: tuple[int, int], buffer: Buffer) -> None:
    """In checked builds, emit a test that an index is within limits beyond which it would wrap."""
    if not ctx.is_checked:
        # in an unchecked build the test would keep its operands alive
        return
    least, most = limits
    cond = build.less_equal(number, most)
    if number.dtype.kind == "int":
        cond = build.logical_and(build.greater_equal(number, least), cond)
    if cond != TRUE:
        message = f"index {{0}} is outside {buffer.root.name}"
        ctx.emit(Assert(cond, message, "bounds", (build.cast(number, int64),), ctx.span(node)))
