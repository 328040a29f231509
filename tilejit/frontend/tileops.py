"""Calls on a scope, `tj.<scope>.<operation>(...)`: tile operations, and shorthands such as `load` that create tiles."""

from __future__ import annotations

import ast
from collections.abc import Callable

from ..dtypes import DType, bool_, int32
from ..ir.nodes import Expr, Region, TileOp
from ..ops.copies import COPY, FILL, INDICES
from ..ops.record import BARRIER, CONDITION, TILE, TileOperation
from ..ops.tile import CALLS
from . import barriers, regions, tiles
from .arguments import bind, is_none, optional
from .context import Context
from .memory import axis_of, element_type, layout_argument, static_shape
from .operands import as_memory, attributes, destination, placed
from .scalars import as_type, condition, convert
from .values import Constant, Memory, Scalar, ScopedOperation, Value, describe, is_number

__all__ = ["SHORTHANDS", "call_operation"]


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
    """Emit the copy between memory and a local tile, with the mask and the attributes of the call."""
    mask = _mask(ctx, operation, arguments.get("mask"))
    if mask is not None:
        operands["mask"] = mask
    op = TileOp(
        COPY.name, operation.scope, COPY.ordered(operands), attributes(ctx, arguments, COPY, {}), ctx.span(node)
    )
    tiles.emit_sound(ctx, node, op)


def _mask(ctx: Context, operation: ScopedOperation, argument: ast.expr | None) -> Region | None:
    """Return the mask in a call as a tile; None if it is missing or True."""
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


#: name -> handler of a call on a scope
SHORTHANDS: dict[str, Callable[[Context, ast.Call, ScopedOperation, dict[str, ast.expr]], Value]] = {
    **barriers.CALLS,
    "load": _load,
    "store": _store,
    "zeros": _zeros,
    "full": _full,
    "indices": _indices,
}


def call_operation(ctx: Context, node: ast.Call, operation: ScopedOperation) -> Value:
    call = CALLS[operation.name]
    if isinstance(call, TileOperation):
        return _tile_operation(ctx, node, call, operation.scope)
    arguments = bind(ctx, node, f"tj.{operation.scope}.{operation.name}", call.parameters, call.required)
    return SHORTHANDS[call.name](ctx, node, operation, arguments)


def _tile_operation(ctx: Context, node: ast.Call, record: TileOperation, scope: str) -> Value:
    value = record.name if record.elementwise or record.reduction else ""
    arguments = bind(ctx, node, f"tj.{scope}.{record.name}", record.parameters, record.required, value)
    operands = (_elementwise if record.elementwise else _operands)(ctx, node, record, arguments)
    attrs = attributes(ctx, arguments, record, operands)
    tiles.emit_sound(ctx, node, TileOp(record.name, scope, record.ordered(operands), attrs, ctx.span(node)))
    return Constant(None)


def _operands(
    ctx: Context, node: ast.AST, record: TileOperation, arguments: dict[str, ast.expr]
) -> dict[str, Region | Expr]:
    """Return the given operands, by name; a scalar takes the type of the preceding tile."""
    operands: dict[str, Region | Expr] = {}
    tile_type: DType | None = None
    for rule in record.operands:
        argument = arguments.get(rule.name)
        if argument is None:
            continue
        kind = rule.kind(is_region=True)
        value = ctx.evaluate(argument) if kind is None else regions.unloaded(ctx, argument)
        if rule.optional and is_none(value):
            continue
        if CONDITION in rule.kinds:
            operands[rule.name] = condition(ctx, argument, value)
            continue
        if kind is None:
            assert tile_type is not None, f"{record.name} has no tile before {rule.name}"
            operands[rule.name] = convert(ctx, argument, value, tile_type).expr
            continue
        if kind is BARRIER:
            operands[rule.name] = barriers.region(ctx, argument, barriers.named(ctx, argument, f"{rule.name}=", value))
            continue
        memory = as_memory(ctx, argument, value, rule.called or rule.name)
        if rule.written:
            regions.require_writable(ctx, argument, memory)
        operands[rule.name] = memory.region(ctx.span(argument))
        tile_type = memory.dtype if kind is TILE else tile_type
    return operands


def _elementwise(
    ctx: Context, node: ast.AST, record: TileOperation, arguments: dict[str, ast.expr]
) -> dict[str, Region | Expr]:
    """Return the operands, by name; any input may be a scalar, whose type the operation decides."""
    to, *inputs = record.operands
    dst = destination(ctx, arguments[to.name])
    values = [ctx.evaluate(arguments[rule.name]) for rule in inputs]
    has_tile = any(isinstance(v, Memory) for v in values)
    typed = values if has_tile else _typed(ctx, node, values, dst)
    operands, _ = tiles.inputs(ctx, node, record.name, typed)
    return dict(zip((rule.name for rule in record.operands), (dst, *operands), strict=True))


def _typed(ctx: Context, node: ast.AST, values: list[Value], dst: Region) -> list[Value]:
    """Return scalar inputs as typed scalars; literals take the type of the destination unless its kind is lower."""
    return [Scalar(as_type(ctx, node, v, dst.dtype)) if isinstance(v, Scalar) or is_number(v) else v for v in values]
