"""`a @ b` and `acc += a @ b` on local tiles: products on tensor cores."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ..ir.arithmetic import build
from ..ir.nodes import TileOp
from ..ops.copies import FILL
from ..ops.gemm import GEMM, accumulator_type
from ..scopes import SCOPES
from . import tiles
from .context import Context
from .values import Memory, Value

__all__ = ["accumulated", "product"]


def product(ctx: Context, node: ast.AST, left: Value, right: Value) -> Memory:
    """`left @ right`, summed in fresh accumulators."""
    a, b = _factors(ctx, node, left, right)
    scope, span = _scope(ctx, node, (a, b)), ctx.span(node)
    dtype = accumulator_type(a.dtype)
    shape = (*a.shape[:1], *b.shape[1:])
    acc = ctx.tile("product", scope, shape, dtype, span)
    ctx.emit(TileOp(FILL.name, scope, (acc.region(span), build.const(0, dtype)), (), span))
    tiles.emit_sound(ctx, node, TileOp(GEMM.name, scope, (acc.region(span), a.region(span), b.region(span)), (), span))
    return acc


def accumulated(ctx: Context, node: ast.AST, acc: Memory, left: Value, right: Value) -> Memory:
    """`acc + left @ right`, summed in the accumulators' registers."""
    a, b = _factors(ctx, node, left, right)
    scope, span = _scope(ctx, node, (acc, a, b)), ctx.span(node)
    result = tiles.cast(ctx, node, acc, acc.dtype)
    op = TileOp(GEMM.name, scope, (result.region(span), a.region(span), b.region(span)), (), span)
    tiles.emit_sound(ctx, node, op)
    return result


def _factors(ctx: Context, node: ast.AST, left: Value, right: Value) -> tuple[Memory, Memory]:
    a, b = (tiles.local_tile(ctx, node, "@", value) for value in (left, right))
    return a, b


def _scope(ctx: Context, node: ast.AST, operands: Sequence[Memory]) -> str:
    scope = tiles.common_scope(ctx, node, "@", operands)
    if SCOPES[scope] not in GEMM.scopes:
        raise ctx.type_error(
            node, f"@ multiplies tiles of a {' or '.join(map(str, GEMM.scopes))}; these are of a {scope}",
            "make them with tj.cta.load and the like",
        )
    return scope

