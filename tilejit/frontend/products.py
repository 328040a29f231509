"""Matrix products of local tiles on tensor cores: `a @ b` and `acc += a @ b`."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ..dtypes import float32
from ..ir.arithmetic import build
from ..ir.nodes import TileOp
from ..ops.copies import FILL
from ..ops.gemm import GEMM, accumulator_type, multiplied
from ..scopes import SCOPES
from ..wording import counted
from . import tiles
from .context import Context
from .values import Memory, Value


def product(ctx: Context, node: ast.AST, left: Value, right: Value) -> Memory:
    """Translate `left @ right`; the result is a new tile."""
    a, b = _factors(ctx, node, left, right)
    scope, span = _scope(ctx, node, (a, b)), ctx.span(node)
    dtype = accumulator_type(a.dtype)
    acc = ctx.tile("product", scope, _shape(a, b), dtype, span)
    ctx.emit(TileOp(FILL.name, scope, (acc.region(span), build.const(0, dtype)), (), span))
    tiles.emit_sound(ctx, node, TileOp(GEMM.name, scope, (acc.region(span), a.region(span), b.region(span)), (), span))
    return acc


def accumulated(ctx: Context, node: ast.AST, acc: Memory, left: Value, right: Value) -> Memory:
    """Translate `acc + left @ right`, accumulated in a copy of `acc`, or as an addition if the shapes differ."""
    a, b = _factors(ctx, node, left, right)
    if acc.shape != _shape(a, b):
        return tiles.elementwise(ctx, node, "add", (acc, product(ctx, node, a, b)))
    scope, span = _scope(ctx, node, (acc, a, b)), ctx.span(node)
    result = tiles.cast(ctx, node, acc, acc.dtype)
    op = TileOp(GEMM.name, scope, (result.region(span), a.region(span), b.region(span)), (), span)
    tiles.emit_sound(ctx, node, op)
    return result


def _factors(ctx: Context, node: ast.AST, left: Value, right: Value) -> tuple[Memory, Memory]:
    a, b = (tiles.local_tile(ctx, node, "@", value) for value in (left, right))
    _scope(ctx, node, (a, b))
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise ctx.type_error(
            node, f"@ multiplies matrices, (M, K) by (K, N); got {a.shape} by {b.shape}",
            "multiply one matrix of the batch at a time: load A[i, 0:M, 0:K] and B[i, 0:K, 0:N] in a loop over i"
            if max(len(a.shape), len(b.shape)) > 2
            else "give a vector a second dimension: x[:, None], or x[None, :]",
        )
    if a.shape[1] != b.shape[0]:
        raise ctx.type_error(
            node, f"@ multiplies (M, K) by (K, N); got {a.shape} by {b.shape}: {a.shape[1]} isn't {b.shape[0]}",
            "slice or transpose the operands: .T",
        )
    if a.dtype == b.dtype == float32:
        raise ctx.type_error(
            node, 'float32 operands need precision="tf32": tensor cores round them to 10 bits of fraction',
            _recipe(ctx, _scope(ctx, node, (a, b)), _shape(a, b)),
        )
    if not multiplied(a.dtype, b.dtype):
        raise ctx.type_error(
            node, f"no tensor core multiplies {a.dtype} by {b.dtype} here",
            "convert them with x.astype(...), to float16, bfloat16, or 8-bit integers or floats",
        )
    return a, b


def _recipe(ctx: Context, scope: str, shape: tuple[int, int]) -> str:
    warps = SCOPES[scope].threads(ctx.threads) // 32
    rows, columns = shape
    grids = [(n, warps // n) for n in range(1, warps + 1) if warps % n == 0]
    # prefer square blocks; their extents must be multiples of 16 rows and 8 columns
    blocks = sorted((abs(rows * wn - columns * wm), wm, wn) for wm, wn in grids
                    if rows % (16 * wm) == 0 and columns % (8 * wn) == 0)
    convert = "convert: a.astype(tj.float16) @ b.astype(tj.float16)"
    if not blocks:
        return f"{convert}; {counted(warps, 'warp')} can't divide a float32 accumulator of {rows} x {columns} evenly"
    _, wm, wn = blocks[0]
    layout = f"layout=tj.mma.layout_c({shape}, warps=({wm}, {wn}))"
    return (
        f'ask for it: acc = tj.alloc_local({shape}, tj.float32, {layout}); tj.{scope}.fill(acc, 0); '
        f'tj.{scope}.gemm(acc, a, b, precision="tf32"); or {convert}'
    )


def _shape(a: Memory, b: Memory) -> tuple[int, int]:
    return a.shape[0], b.shape[1]


def _scope(ctx: Context, node: ast.AST, operands: Sequence[Memory]) -> str:
    scope = tiles.common_scope(ctx, node, "@", operands)
    if SCOPES[scope] not in GEMM.scopes:
        raise ctx.type_error(
            node, f"@ multiplies tiles of a {' or '.join(map(str, GEMM.scopes))}; these are of a {scope}",
            "create them on one of those scopes, for example with tj.cta.load",
        )
    return scope
