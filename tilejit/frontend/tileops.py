"""Calls of the operations of a scope, `tj.<scope>.<operation>(...)`, and the operands that they share with atomics."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from ..dataclass import replace
from ..dtypes import DType, bool_, int32
from ..ir.nodes import Expr, Region, TileOp
from ..ops.axes import REDUCTION
from ..ops.copies import COPY, FILL, INDEX, INDICES, MULTICAST
from ..ops.fold import COMBINE, CUMULATIVE, PAIRS, SCAN
from ..ops.record import BARRIER, CONDITION, TILE, AttributeValue, TileOperation, dimensions
from ..ops.tile import CALLS
from ..source import Span
from . import barriers, exchanges, scalars, scans, tiles
from . import memory as mem
from .arguments import Arguments, bind, is_none, optional
from .context import Context
from .reductions import read_combine
from .regions import unloaded
from .values import Constant, Items, Memory, Rows, ScopedOperation, Value, describe


def memory_operand(ctx: Context, node: ast.expr, what: str) -> Memory:
    """Return the buffer, region or element that an argument denotes; raise KernelTypeError for anything else."""
    return _as_memory(ctx, node, unloaded(ctx, node), what).at(ctx.span(node))


def assume_in_bounds(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.assume_in_bounds(region)`."""
    return replace(memory_operand(ctx, arguments["region"], "the argument of tj.assume_in_bounds"), in_bounds=True)


def _as_memory(ctx: Context, node: ast.expr, value: Value, what: str) -> Memory:
    if isinstance(value, Rows):
        raise ctx.type_error(
            node, f"{what} can't be {describe(value)}", "use load, store or tj.atomic: only they accept X.at(index)"
        )
    if not isinstance(value, Memory):
        raise ctx.type_error(
            node, f"{what} must be a buffer or a region; this is {describe(value)}",
            "pass a tensor, an allocation, or a slice of one",
        )
    return value


def placed(ctx: Context, node: ast.expr, what: str, *, is_written: bool) -> dict[str, Region | Expr]:
    """Return the operands that describe a place, by name: its region and, for `.at(index)`, the index."""
    value = unloaded(ctx, node)
    memory = value.memory if isinstance(value, Rows) else _as_memory(ctx, node, value, what)
    if is_written:
        mem.require_writable(ctx, node, memory)
    if not isinstance(value, Rows):
        return {"place": memory.region(ctx.span(node))}
    return {"place": value.region(ctx.span(node)), INDEX.name: value.operand(ctx.span(node))}


def mask_argument(ctx: Context, arguments: Arguments) -> Memory | Expr | None:
    """Return the `mask=` argument as a tile or a condition; None if it is missing, None or True."""
    value = optional(ctx, arguments, "mask")
    if value is None or (isinstance(value, Constant) and value.value is True):
        return None
    if isinstance(value, Memory):
        return tiles.local_tile(ctx, arguments["mask"], "mask=", value)
    return scalars.condition(ctx, arguments["mask"], value)


def mask_region(ctx: Context, mask: Memory | Expr, scope: str, span: Span) -> Region:
    """Return a mask as an operand; a condition becomes a rank-0 tile."""
    if isinstance(mask, Memory):
        return mask.region(span)
    tile = ctx.tile("mask", scope, (), bool_, span)
    ctx.emit(TileOp(FILL.name, scope, (tile.region(span), mask), (), span))
    return tile.region(span)


def _attributes(
    ctx: Context, arguments: Arguments, record: TileOperation, operands: Mapping[str, Region | Expr]
) -> tuple[tuple[str, AttributeValue], ...]:
    """Return (name, value) pairs of a call's attributes that aren't None; multicast to one CTA is left out."""
    attrs: list[tuple[str, AttributeValue]] = []
    for attribute in record.attrs:
        value = optional(ctx, arguments, attribute.name)
        if value is None:
            continue
        argument = arguments[attribute.name]
        if attribute is COMBINE:
            sources = [operands[name].dtype for _, name in PAIRS if name in operands]
            combine = read_combine(ctx, argument, value, sources, is_tuple=len(sources) > 1)
            attrs.append((attribute.name, combine))
            continue
        constant = ctx.constant(value, argument, f"{attribute.name}=")
        counted = operands.get(attribute.counts)
        if isinstance(counted, Region):
            constant = dimensions(constant, len(counted.shape))
        fault = attribute.fault(constant)
        if fault is not None:
            raise ctx.type_error(argument, fault, f"leave {attribute.name}= out, or change it")
        if attribute is MULTICAST:
            assert isinstance(constant, int)
            constant = barriers.multicast(ctx, argument, constant, operands)
            if constant is None:
                continue
        attrs.append((attribute.name, constant))
    return tuple(attrs)


def _load(ctx: Context, node: ast.Call, operation: ScopedOperation, arguments: Arguments) -> Value:
    place = placed(ctx, arguments["place"], "the source", is_written=False)
    src = place.pop("place")
    assert isinstance(src, Region)
    layout = mem.layout_argument(ctx, arguments, src.shape, "local")
    result = ctx.tile(f"{src.buffer.root.name}.tile", operation.scope, src.shape, src.dtype, ctx.span(node), layout)
    operands: dict[str, Region | Expr] = {"dst": result.region(ctx.span(node)), "src": src, **place}
    fill = optional(ctx, arguments, "fill")
    if fill is not None:
        operands["fill"] = scalars.convert(ctx, arguments["fill"], fill, src.dtype).expr
    _moved(ctx, node, operation, operands, arguments)
    return result


def _moved(
    ctx: Context, node: ast.Call, operation: ScopedOperation, operands: dict[str, Region | Expr], arguments: Arguments
) -> None:
    mask = mask_argument(ctx, arguments)
    if mask is not None:
        operands["mask"] = mask_region(ctx, mask, operation.scope, ctx.span(arguments["mask"]))
    op = TileOp(
        COPY.name, operation.scope, COPY.ordered(operands), _attributes(ctx, arguments, COPY, {}), ctx.span(node)
    )
    tiles.emit_sound(ctx, node, op)


def _store(ctx: Context, node: ast.Call, operation: ScopedOperation, arguments: Arguments) -> Value:
    place = placed(ctx, arguments["place"], "the destination", is_written=True)
    value = ctx.evaluate(arguments["tile"])
    if not isinstance(value, Memory) or not value.is_local:
        hint = "copy memory with copy(dst, src)" if isinstance(value, Memory) else "load it first, with tj.cta.load"
        if isinstance(value, Items):
            names = ", ".join("abcdefgh"[: len(value.items)]) if len(value.items) <= 8 else "first, *others"
            hint = f"store its items one by one: {names} = {ast.unparse(arguments['tile'])}"
        elif not isinstance(value, (Memory, Rows)):
            scope = f"tj.{operation.scope}"
            hint = f"write {scope}.fill(region, value); with a mask, store {scope}.full(shape, value, dtype)"
        raise ctx.type_error(arguments["tile"], f"store takes a local tile; this is {describe(value)}", hint)
    src = value.region(ctx.span(arguments["tile"]))
    _moved(ctx, node, operation, {"dst": place.pop("place"), "src": src, **place}, arguments)
    return Constant(None)


def _filled(ctx: Context, node: ast.Call, operation: ScopedOperation, arguments: Arguments) -> Value:
    """Translate `zeros(shape, dtype, layout=None)` and `full(shape, value, dtype, layout=None)`."""
    value = ctx.evaluate(arguments["value"]) if "value" in arguments else Constant(0)
    shape_node, dtype_node = arguments["shape"], arguments["dtype"]
    shape = mem.static_shape(ctx, shape_node, ctx.evaluate(shape_node))
    dtype = mem.element_type(ctx, dtype_node, ctx.evaluate(dtype_node))
    layout = mem.layout_argument(ctx, arguments, shape, "local")
    result = ctx.tile(operation.name, operation.scope, shape, dtype, ctx.span(node), layout)
    fill = scalars.convert(ctx, node, value, dtype).expr
    ctx.emit(TileOp(FILL.name, operation.scope, (result.region(ctx.span(node)), fill), (), ctx.span(node)))
    return result


def _indices(ctx: Context, node: ast.Call, operation: ScopedOperation, arguments: Arguments) -> Value:
    shape_node = arguments["shape"]
    shape = mem.static_shape(ctx, shape_node, ctx.evaluate(shape_node))
    axis = mem.axis_of(ctx, arguments["axis"], len(shape))
    layout = mem.layout_argument(ctx, arguments, shape, "local")
    result = ctx.tile("indices", operation.scope, shape, int32, ctx.span(node), layout)
    operands = (result.region(ctx.span(node)),)
    ctx.emit(TileOp(INDICES.name, operation.scope, operands, (("axis", axis),), ctx.span(node)))
    return result


SHORTHANDS: dict[str, Callable[[Context, ast.Call, ScopedOperation, Arguments], Value]] = {
    **dict.fromkeys(("arrive", "commit", "release"), barriers.arrive),
    "load": _load,
    "store": _store,
    "zeros": _filled,
    "full": _filled,
    "indices": _indices,
    **dict.fromkeys((SCAN.name, *CUMULATIVE), scans.scan_to),
}


def call_operation(ctx: Context, node: ast.Call, operation: ScopedOperation) -> Value:
    call, scope = CALLS[operation.name], operation.scope
    gives_tile = isinstance(call, TileOperation) and (call.elementwise or call.reduction is not None)
    hinted = call.name if gives_tile else ""
    arguments = bind(ctx, node, f"tj.{scope}.{call.name}", call.parameters, call.required, hinted)
    if not isinstance(call, TileOperation):
        return SHORTHANDS[call.name](ctx, node, operation, arguments)
    operands = (_elementwise if call.elementwise else _operands)(ctx, node, call, arguments)
    attrs = _attributes(ctx, arguments, call, operands)
    stores = _results_in_memory(ctx, node, call, scope, operands)
    tiles.emit_sound(ctx, node, TileOp(call.name, scope, call.ordered(operands), attrs, ctx.span(node)))
    for store in stores:
        tiles.emit_sound(ctx, node, store)
    return Constant(None)


def _results_in_memory(
    ctx: Context, node: ast.AST, record: TileOperation, scope: str, operands: dict[str, Region | Expr]
) -> list[TileOp]:
    """Replace a reduction's destinations in shared or global memory by new tiles; return the copies to the former."""
    stores: list[TileOp] = []
    for name, _ in PAIRS if record.relation is REDUCTION else ():
        place = operands.get(name)
        if isinstance(place, Region) and place.buffer.space in ("shared", "global"):
            tile = ctx.tile(record.name, scope, place.shape, place.dtype, ctx.span(node)).region(ctx.span(node))
            operands[name] = tile
            stores.append(TileOp(COPY.name, scope, (place, tile), (), ctx.span(node)))
    return stores


def _operands(
    ctx: Context, node: ast.AST, record: TileOperation, arguments: Arguments
) -> dict[str, Region | Expr]:
    """Return the operands that a call passes, by name; a scalar is converted to the type of the preceding tile."""
    operands: dict[str, Region | Expr] = {}
    tile_type: DType | None = None
    for rule in record.operands:
        argument = arguments.get(rule.name)
        if argument is None:
            continue
        kind = rule.kind(is_region=True)
        value = ctx.evaluate(argument) if kind is None else unloaded(ctx, argument)
        if rule.optional and is_none(value):
            continue
        if CONDITION in rule.kinds:
            operands[rule.name] = scalars.condition(ctx, argument, value)
            continue
        if kind is None:
            assert tile_type is not None, f"{record.name} has no tile before {rule.name}"
            operands[rule.name] = scalars.convert(ctx, argument, value, tile_type).expr
            continue
        if kind is BARRIER:
            operands[rule.name] = barriers.operand(ctx, argument, f"{rule.name}=", value)
            continue
        memory = _as_memory(ctx, argument, value, rule.called or rule.name)
        if rule.written:
            mem.require_writable(ctx, argument, memory)
        elif memory.dims and exchanges.is_apart(memory):
            memory = _as_memory(ctx, argument, exchanges.picked(ctx, argument, memory), rule.name)
        operands[rule.name] = memory.region(ctx.span(argument))
        tile_type = memory.dtype if kind is TILE else tile_type
    return operands


def _elementwise(
    ctx: Context, node: ast.AST, record: TileOperation, arguments: Arguments
) -> dict[str, Region | Expr]:
    to, *inputs = record.operands
    place = memory_operand(ctx, arguments[to.name], "the destination")
    mem.require_writable(ctx, arguments[to.name], place)
    dst = place.region(ctx.span(arguments[to.name]))
    values = [ctx.evaluate(arguments[rule.name]) for rule in inputs]
    operands, _ = tiles.inputs(ctx, node, record.name, values, dst.dtype)
    return dict(zip((rule.name for rule in record.operands), (dst, *operands), strict=True))
