"""Integers as indices of a buffer: one outside must not wrap around to one inside."""

from __future__ import annotations

import ast

from ..dtypes import int32, int64, uint64
from ..ir.arithmetic import build
from ..ir.arithmetic.facts import full_range, is_data
from ..ir.nodes import TRUE, Assert, Buffer, Expr
from .context import Context

__all__ = ["as_index", "as_start", "need_kept"]


def as_index(ctx: Context, node: ast.AST, number: Expr, buffer: Buffer) -> Expr:
    """Return an integer in the buffer's index type; checked builds test that data keeps its value in 32 bits.

    One of uint64 past int64 becomes negative, which is outside, too.
    """
    dtype = buffer.index_dtype
    if dtype is int32 and number.dtype.bits == 64 and is_data(number):
        need_kept(ctx, node, number, full_range(dtype), buffer)
    return build.cast(number, dtype)


def as_start(ctx: Context, node: ast.AST, start: Expr, taken: int | Expr, buffer: Buffer) -> Expr:
    """Return the start of a slice of `taken` elements in the buffer's index type.

    A start past int64 becomes the greatest int64: from a negative one, the slice could reach the elements.
    """
    if start.dtype is uint64 and buffer.index_dtype is int64 and taken != 1:
        start = build.minimum(start, full_range(int64)[1])
    return as_index(ctx, node, start, buffer)


def need_kept(ctx: Context, node: ast.AST, number: Expr, limits: tuple[int, int], buffer: Buffer) -> None:
    """Checked builds test that an index lies between limits, past which it would wrap around."""
    if not ctx.is_checked:
        # the plain build would keep the parameters that are tested
        return
    least, most = limits
    cond = build.less_equal(number, most)
    if number.dtype.kind == "int":
        cond = build.logical_and(build.greater_equal(number, least), cond)
    if cond != TRUE:
        message = f"index {{0}} is outside {buffer.root.name}"
        ctx.emit(Assert(cond, message, "bounds", (build.cast(number, int64),), ctx.span(node)))
