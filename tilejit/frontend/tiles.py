"""Expressions on local tiles: each makes a fresh tile."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence

from ..dtypes import DType, bool_
from ..ir.arithmetic import build
from ..ir.nodes import Const, Expr, Region, TileOp
from ..layout import TileLayout
from ..ops.broadcast import common_shape
from ..ops.copies import CAST
from ..ops.elementwise import ELEMENTWISE, result_type
from ..ops.record import Fault
from .context import Context
from .mixed_signs import WITH_MIXED_SIGNS
from .scalars import RANK, as_type, convert, operate
from .values import Memory, Scalar, Value, describe, is_number, owner_scope

__all__ = ["apply", "broadcast_shape", "cast", "elementwise", "inputs", "layout_of"]

def apply(ctx: Context, node: ast.AST, name: str, values: Sequence[Value]) -> Value:
    """An elementwise operation on scalars or, if one is a local tile, on tiles."""
    if name in WITH_MIXED_SIGNS:
        value = WITH_MIXED_SIGNS[name](ctx, node, name, values, apply, _converted)
        if value is not None:
            return value
    if any(isinstance(v, Memory) and v.is_local for v in values):
        return elementwise(ctx, node, name, values)
    return operate(ctx, node, name, values)


def _converted(ctx: Context, node: ast.AST, value: Value, dtype: DType) -> Value:
    return cast(ctx, node, value, dtype) if isinstance(value, Memory) else convert(ctx, node, value, dtype)


def elementwise(ctx: Context, node: ast.AST, name: str, values: Sequence[Value]) -> Memory:
    """The operation on tiles and scalars, as a fresh tile in the layout of the largest."""
    operands, dtypes = inputs(ctx, node, name, values)
    rule = result_type(name, dtypes)
    if isinstance(rule, str):
        raise ctx.type_error(node, rule, "convert the operands first: x.astype(...)")
    tiles = [v for v in values if isinstance(v, Memory)]
    for tile in tiles:
        if not tile.is_local:
            raise ctx.type_error(
                node, f"{name} takes scalars and local tiles; got {describe(tile)}",
                "bring it into registers first: x = tj.cta.load(region)",
            )
    shape = broadcast_shape(ctx, node, [t.shape for t in tiles])
    anchor = max(tiles, key=lambda t: math.prod(t.shape))
    if math.prod(anchor.shape) != math.prod(shape):
        raise ctx.type_error(
            node, f"none of the tiles has the result's shape {shape}", "copy one into a tile of that shape first"
        )
    layout = layout_of(ctx, node, anchor)
    result = ctx.local(name, shape, rule[1], layout, ctx.span(node))
    ctx.emit(TileOp(name, owner_scope(layout), (result.region(ctx.span(node)), *operands), (), ctx.span(node)))
    return result


def inputs(
    ctx: Context, node: ast.AST, name: str, values: Sequence[Value]
) -> tuple[tuple[Region | Expr, ...], tuple[DType, ...]]:
    """An operation's inputs as operands, and their types; no scalar widens the tiles' type to one of the same kind."""
    conditions = ELEMENTWISE[name].conditions
    tiled = [v.dtype for v in values[conditions:] if isinstance(v, Memory)]
    with ctx.located(node):
        common = ELEMENTWISE[name].common_type(tiled) if tiled else None
    operands: list[Region | Expr] = []
    dtypes: list[DType] = []
    for k, value in enumerate(values):
        operand = _input(ctx, node, name, value, bool_ if k < conditions else common)
        operands.append(operand)
        dtypes.append(operand.dtype)
    return tuple(operands), tuple(dtypes)


def _input(ctx: Context, node: ast.AST, name: str, value: Value, common: DType | None) -> Region | Expr:
    if isinstance(value, Memory):
        return value.region(ctx.span(node))
    if not isinstance(value, Scalar) and not is_number(value):
        raise ctx.type_error(node, f"{name} takes tiles and scalars; got {describe(value)}", "give one of these")
    if common is None:
        return ctx.scalar(value, node)
    if isinstance(value, Scalar) and not value.weak:
        return build.cast(value.expr, common) if RANK[value.dtype.kind] <= RANK[common.kind] else value.expr
    return as_type(ctx, node, value, common)


def broadcast_shape(ctx: Context, node: ast.AST, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape to which all broadcast, as in NumPy."""
    shape = common_shape(shapes)
    if isinstance(shape, Fault):
        raise ctx.type_error(node, shape.message, shape.hint)
    return shape


def layout_of(ctx: Context, node: ast.AST, tile: Memory) -> TileLayout:
    """The layout of a local tile's own elements, from register 0."""
    layout = tile.buffer.layout
    assert isinstance(layout, TileLayout)
    if tile.is_whole:
        return layout
    if not all(isinstance(s, Const) for s in tile.starts):
        raise ctx.type_error(
            node, "a part of a tile whose start is known only at run time has no layout of its own",
            "copy it to a tile of tj.alloc_local first, or make the start a constant",
        )
    box = [
        (int(s.value) if isinstance(s, Const) else 0, 1 if e is None else int(e))  # type: ignore[arg-type]
        for s, e in zip(tile.starts, tile.extents, strict=True)
    ]
    with ctx.located(node):
        part = layout.slice([int(e) for e in tile.buffer.shape if isinstance(e, int)], box)
    return part.replace(offset=tuple((a, v) for a, v in part.offset if a.is_thread))


def cast(ctx: Context, node: ast.AST, tile: Memory, dtype: DType, saturate: bool = True) -> Memory:
    """A local tile converted to a type."""
    if not tile.is_local:
        raise ctx.type_error(
            node, f"astype takes local tiles and scalars; got {describe(tile)}", "load it first: tj.cta.load(region)"
        )
    layout, span = layout_of(ctx, node, tile), ctx.span(node)
    result = ctx.local("cast", tile.shape, dtype, layout, span)
    attrs = () if saturate else (("saturate", False),)
    ctx.emit(TileOp(CAST.name, owner_scope(layout), (result.region(span), tile.region(span)), attrs, span))
    return result
