"""`load`, `store`, `zeros`, `full` and `indices` of a scope: calls that create tiles, or store them to memory."""

from __future__ import annotations

import ast
from collections.abc import Callable

from ..dtypes import bool_, int32
from ..ir.nodes import Expr, Region, TileOp
from ..ops.copies import COPY, FILL, INDICES
from . import barriers, tiles
from .arguments import optional
from .context import Context
from .memory import axis_of, element_type, layout_argument, static_shape
from .operands import attributes, placed
from .scalars import condition, convert
from .values import Constant, Memory, ScopedOperation, Value, describe


def _load(ctx: Context, node: ast.Call, operation: ScopedOperation, arguments: dict[str, ast.expr]) -> Value:
    place = placed(ctx, arguments["place"], "the source", is_written=False)
    src = place.pop("place")
    assert isinstance(src, Region)
    layout = layout_argument(ctx, arguments.get("layout"), src.shape, "local")
    result = ctx.tile(f"{src.buffer.root.name}.tile", operation.scope, src.shape, src.dtype, ctx.span(node), layout)
    operands: dict[str, Region | Expr] = {"dst": result.region(ctx.span(node)), "src": src, **place}
    fill = optional(ctx, arguments.get("fill"))
    if fill is not None:
        operands["fill"] = convert(ctx, arguments["fill"], fill, src.dtype).expr
    _moved(ctx, node, operation, operands, arguments)
    return result


def _moved(
    ctx: Context, node: ast.Call, operation: ScopedOperation, operands: dict[str, Region | Expr],
    arguments: dict[str, ast.expr],
) -> None:
    mask = _mask(ctx, operation, arguments.get("mask"))
    if mask is not None:
        operands["mask"] = mask
    op = TileOp(
        COPY.name, operation.scope, COPY.ordered(operands), attributes(ctx, arguments, COPY, {}), ctx.span(node)
    )
    tiles.emit_sound(ctx, node, op)


def _mask(ctx: Context, operation: ScopedOperation, argument: ast.expr | None) -> Region | None:
    """Return the `mask=` argument as a tile; None if it is missing, None or True."""
    value = optional(ctx, argument)
    if value is None or argument is None or (isinstance(value, Constant) and value.value is True):
        return None
    if isinstance(value, Memory):
        return tiles.local_tile(ctx, argument, "mask=", value).region(ctx.span(argument))
    mask = ctx.tile("mask", operation.scope, (), bool_, ctx.span(argument))
    region, cond = mask.region(ctx.span(argument)), condition(ctx, argument, value)
    ctx.emit(TileOp(FILL.name, operation.scope, (region, cond), (), ctx.span(argument)))
    return region


def _store(ctx: Context, node: ast.Call, operation: ScopedOperation, arguments: dict[str, ast.expr]) -> Value:
    place = placed(ctx, arguments["place"], "the destination", is_written=True)
    value = ctx.evaluate(arguments["tile"])
    if not isinstance(value, Memory) or not value.is_local:
        hint = "copy memory with copy(dst, src)"
        if not isinstance(value, Memory):
            scope = f"tj.{operation.scope}"
            hint = f"write {scope}.fill(region, value); with a mask, store {scope}.full(shape, value, dtype)"
        raise ctx.type_error(arguments["tile"], f"store takes a local tile; this is {describe(value)}", hint)
    src = value.region(ctx.span(arguments["tile"]))
    _moved(ctx, node, operation, {"dst": place.pop("place"), "src": src, **place}, arguments)
    return Constant(None)


def _zeros(ctx: Context, node: ast.Call, operation: ScopedOperation, arguments: dict[str, ast.expr]) -> Value:
    return _filled(ctx, node, operation, arguments, Constant(0))


def _full(ctx: Context, node: ast.Call, operation: ScopedOperation, arguments: dict[str, ast.expr]) -> Value:
    return _filled(ctx, node, operation, arguments, ctx.evaluate(arguments["value"]))


def _filled(
    ctx: Context, node: ast.Call, operation: ScopedOperation, arguments: dict[str, ast.expr], value: Value
) -> Memory:
    shape_node, dtype_node = arguments["shape"], arguments["dtype"]
    shape = static_shape(ctx, shape_node, ctx.evaluate(shape_node))
    dtype = element_type(ctx, dtype_node, ctx.evaluate(dtype_node))
    layout = layout_argument(ctx, arguments.get("layout"), shape, "local")
    result = ctx.tile(operation.name, operation.scope, shape, dtype, ctx.span(node), layout)
    fill = convert(ctx, node, value, dtype).expr
    ctx.emit(TileOp(FILL.name, operation.scope, (result.region(ctx.span(node)), fill), (), ctx.span(node)))
    return result


def _indices(ctx: Context, node: ast.Call, operation: ScopedOperation, arguments: dict[str, ast.expr]) -> Value:
    shape_node = arguments["shape"]
    shape = static_shape(ctx, shape_node, ctx.evaluate(shape_node))
    axis = axis_of(ctx, arguments["axis"], len(shape))
    layout = layout_argument(ctx, arguments.get("layout"), shape, "local")
    result = ctx.tile("indices", operation.scope, shape, int32, ctx.span(node), layout)
    operands = (result.region(ctx.span(node)),)
    ctx.emit(TileOp(INDICES.name, operation.scope, operands, (("axis", axis),), ctx.span(node)))
    return result


SHORTHANDS: dict[str, Callable[[Context, ast.Call, ScopedOperation, dict[str, ast.expr]], Value]] = {
    **barriers.CALLS,
    "load": _load,
    "store": _store,
    "zeros": _zeros,
    "full": _full,
    "indices": _indices,
}
