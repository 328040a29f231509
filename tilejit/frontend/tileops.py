"""`tj.<scope>.<operation>(...)`: tile operations with a destination, and those that make tiles."""

from __future__ import annotations

import ast
from collections.abc import Callable

from ..dtypes import DType, int32
from ..ir.nodes import Expr, Region, TileOp
from ..isa.cp_async import CP_ASYNC
from ..ops.copies import COPY, FILL, INDICES
from ..ops.record import TILE, TileOperation
from ..ops.tile import CALLS
from . import options, regions, tiles
from .arguments import bind, is_none, optional
from .context import Context
from .memory import axis_of, element_type, layout_argument, static_shape
from .scalars import as_type, convert
from .values import Constant, Memory, Scalar, ScopedOperation, Value, describe, is_number

__all__ = ["call_operation"]

def call_operation(ctx: Context, node: ast.Call, operation: ScopedOperation) -> Value:
    """A call of an operation on a scope."""
    call = CALLS[operation.name]
    if isinstance(call, TileOperation):
        return _tile_operation(ctx, node, call, operation.scope)
    arguments = bind(ctx, node, _spelled(operation), call.parameters, call.required)
    return _SHORTHANDS[call.name](ctx, node, operation, arguments)


def _spelled(operation: ScopedOperation) -> str:
    return f"tj.{operation.scope}.{operation.name}"


def memory_operand(ctx: Context, node: ast.expr, what: str) -> Memory:
    """An operand that names memory: a buffer, a region, or an element's place."""
    return _memory(ctx, node, regions.unloaded(ctx, node), what)


def _memory(ctx: Context, node: ast.expr, value: Value, what: str) -> Memory:
    if not isinstance(value, Memory):
        raise ctx.type_error(
            node, f"{what} must be a buffer or a region; this is {describe(value)}",
            "pass a tensor, what tj.alloc_... made, or a slice of these",
        )
    return value.at(ctx.span(node))


def _region(ctx: Context, node: ast.expr, what: str) -> Region:
    return memory_operand(ctx, node, what).region()


def _destination(ctx: Context, node: ast.expr) -> Region:
    memory = memory_operand(ctx, node, "the destination")
    regions.require_writable(ctx, node, memory)
    return memory.region()


def _tile_operation(ctx: Context, node: ast.Call, record: TileOperation, scope: str) -> Value:
    arguments = bind(ctx, node, f"tj.{scope}.{record.name}", record.parameters, record.required)
    _need_supported(ctx, arguments, record)
    operands = (_elementwise if record.elementwise else _operands)(ctx, node, record, arguments)
    attrs = options.attributes(ctx, arguments, record, operands)
    tiles.emit_sound(ctx, node, TileOp(record.name, scope, record.ordered(operands), attrs, ctx.span(node)))
    return Constant(None)


def _need_supported(ctx: Context, arguments: dict[str, ast.expr], record: TileOperation) -> None:
    for name in record.reserved:
        if optional(ctx, arguments.get(name)) is not None:
            raise ctx.type_error(
                arguments[name], f"{record.name} with a {name} is not available in this version of tilejit",
                f"leave {name}= out, then tj.{CP_ASYNC.commit}() and tj.{CP_ASYNC.wait}(n)",
            )


def _operands(
    ctx: Context, node: ast.AST, record: TileOperation, arguments: dict[str, ast.expr]
) -> dict[str, Region | Expr]:
    """The operands that are given, by name; scalars have the type of the tile before them."""
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
        if kind is None:
            assert tile_type is not None, f"{record.name} has no tile before {rule.name}"
            operands[rule.name] = convert(ctx, argument, value, tile_type).expr
            continue
        memory = _memory(ctx, argument, value, rule.called or rule.name)
        if rule.written:
            regions.require_writable(ctx, argument, memory)
        operands[rule.name] = memory.region()
        tile_type = memory.dtype if kind is TILE else tile_type
    return operands


def _elementwise(
    ctx: Context, node: ast.AST, record: TileOperation, arguments: dict[str, ast.expr]
) -> dict[str, Region | Expr]:
    """The operands, by name; any but the destination may be a scalar, whose type the operation decides."""
    destination, *inputs = record.operands
    dst = _destination(ctx, arguments[destination.name])
    values = [ctx.evaluate(arguments[rule.name]) for rule in inputs]
    typed = values if _has_tile(values) else _typed(ctx, node, values, dst)
    operands, _ = tiles.inputs(ctx, node, record.name, typed)
    return dict(zip((rule.name for rule in record.operands), (dst, *operands), strict=True))


def _has_tile(values: list[Value]) -> bool:
    return any(isinstance(v, Memory) for v in values)


def _typed(ctx: Context, node: ast.AST, values: list[Value], dst: Region) -> list[Value]:
    """Scalars only: literals take the destination's type where its kind is not lower."""
    return [Scalar(as_type(ctx, node, v, dst.dtype)) if isinstance(v, Scalar) or is_number(v) else v for v in values]


def _load(ctx: Context, node: ast.Call, operation: ScopedOperation, arguments: dict[str, ast.expr]) -> Value:
    src = _region(ctx, arguments["place"], "what is loaded")
    layout = layout_argument(ctx, arguments.get("layout"), src.shape, "local")
    result = ctx.tile(f"{src.buffer.root.name}.tile", operation.scope, src.shape, src.dtype, ctx.span(node), layout)
    operands: dict[str, Region | Expr] = {"dst": result.region(ctx.span(node)), "src": src}
    fill = optional(ctx, arguments.get("fill"))
    if fill is not None:
        operands["fill"] = convert(ctx, arguments["fill"], fill, src.dtype).expr
    _moved(ctx, node, operation, operands, arguments)
    return result


def _moved(
    ctx: Context, node: ast.Call, operation: ScopedOperation, operands: dict[str, Region | Expr],
    arguments: dict[str, ast.expr],
) -> None:
    """Emit the copy between memory and a local tile, with the mask and the attributes that the call gives."""
    mask = options.mask(ctx, operation, arguments.get("mask"))
    if mask is not None:
        operands["mask"] = mask
    op = TileOp(
        COPY.name, operation.scope, COPY.ordered(operands), options.attributes(ctx, arguments, COPY, {}), ctx.span(node)
    )
    tiles.emit_sound(ctx, node, op)


def _store(ctx: Context, node: ast.Call, operation: ScopedOperation, arguments: dict[str, ast.expr]) -> Value:
    dst = _destination(ctx, arguments["place"])
    value = ctx.evaluate(arguments["tile"])
    if not isinstance(value, Memory) or not value.is_local:
        raise ctx.type_error(
            arguments["tile"], f"store takes a local tile; this is {describe(value)}",
            "fill a region with fill(region, value), copy memory with copy(dst, src)",
        )
    src = value.region(ctx.span(arguments["tile"]))
    _moved(ctx, node, operation, {"dst": dst, "src": src}, arguments)
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


#: name -> what a call that stands for a tile operation becomes, from its arguments by name
_SHORTHANDS: dict[str, Callable[[Context, ast.Call, ScopedOperation, dict[str, ast.expr]], Value]] = {
    "load": _load,
    "store": _store,
    "zeros": _zeros,
    "full": _full,
    "indices": _indices,
}
