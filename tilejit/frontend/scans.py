"""Scans, `tj.scan(x, axis, combine)` and `tj.cumsum(x, axis)`, and their forms with a destination on a scope."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from ..dtypes import DType
from ..ir import nodes as ir
from ..ir.arithmetic import build
from ..ir.combine import Combine
from ..ops.copies import COPY
from ..ops.fold import COMBINE, CUMULATIVE, EXCLUSIVE, INITIAL, PAIRS, REVERSE, SCAN, exclusive_start
from ..ops.record import Attribute, AttributeValue
from ..ops.reduce import AXIS, Reduction
from . import memory as mem
from . import tiles
from .arguments import Arguments, optional
from .context import Context
from .reductions import read_combine
from .scalars import convert
from .values import Constant, Items, Memory, ScopedOperation, Value, describe


def scan(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.scan(x, axis, combine, reverse=False, exclusive=False, initial=None)`."""
    value = ctx.evaluate(arguments["x"])
    sources = [tiles.local_tile(ctx, arguments["x"], SCAN.name, each) for each in _parts(value)]
    results = _combined(ctx, node, arguments, "x", sources, is_tuple=isinstance(value, Items))
    return Items(tuple(results)) if isinstance(value, Items) else results[0]


def cumulative(name: str, ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.cumsum(x, axis, dtype=None, reverse=False, exclusive=False)` and the like."""
    source, reduction = tiles.local_tile(ctx, arguments["x"], name, ctx.evaluate(arguments["x"])), CUMULATIVE[name]
    wanted = optional(ctx, arguments, "dtype")
    dtype = reduction.result_type(source.dtype)
    if wanted is not None:
        dtype = mem.element_type(ctx, arguments["dtype"], wanted)
    return _accumulated(ctx, node, arguments, reduction, source, dtype)


def scan_to(ctx: Context, node: ast.Call, operation: ScopedOperation, arguments: Arguments) -> Value:
    """Translate `scan(dst, src, axis, combine, ...)` and `cumsum(dst, src, axis, ...)` and the like on a scope."""
    value, scope = ctx.evaluate(arguments["src"]), operation.scope
    places = [_place(ctx, arguments["dst"], each) for each in _parts(ctx.evaluate(arguments["dst"]))]
    given = [_place(ctx, arguments["src"], each) for each in _parts(value)]
    if len(places) != len(given):
        raise ctx.type_error(
            node, f"{operation.name} has {len(given)} sources and {len(places)} destinations",
            "give each source its own destination",
        )
    for place in places:
        mem.require_writable(ctx, arguments["dst"], place)
    sources = [each if each.is_local else _loaded(ctx, node, scope, each) for each in given]
    if operation.name == SCAN.name:
        results = _combined(ctx, node, arguments, "src", sources, scope, is_tuple=isinstance(value, Items))
    elif len(sources) == 1:
        reduction = CUMULATIVE[operation.name]
        results = [_accumulated(ctx, node, arguments, reduction, sources[0], places[0].dtype, scope)]
    else:
        raise ctx.type_error(arguments["src"], f"{operation.name} takes one tile", "call it once for each tile")
    span = ctx.span(node)
    roots = [{each.buffer.root.name for each in tiles if not each.is_local} for tiles in (places, given)]
    if not roots[0].isdisjoint(roots[1]):
        # replicas of an element may be loaded by several threads, one of which stores the result
        ctx.emit(ir.Sync(scope, span))
    for place, result in zip(places, results, strict=True):
        if place.dtype != result.dtype:
            raise ctx.type_error(
                arguments["dst"], f"{operation.name} of {result.dtype} gives {result.dtype}; the destination is "
                f"{place.dtype}", "change the destination's type, or convert the source first",
            )
        tiles.emit_sound(ctx, node, ir.TileOp(COPY.name, scope, (place.region(span), result.region(span)), (), span))
    return Constant(None)


def _parts(value: Value) -> tuple[Value, ...]:
    return value.items if isinstance(value, Items) else (value,)


def _place(ctx: Context, node: ast.expr, value: Value) -> Memory:
    if isinstance(value, Memory):
        return value.at(ctx.span(node))
    raise ctx.type_error(
        node, f"a scan takes buffers and regions; this is {describe(value)}",
        "pass a tensor, an allocation, or a slice of one",
    )


def _loaded(ctx: Context, node: ast.Call, scope: str, source: Memory) -> Memory:
    span = ctx.span(node)
    tile = ctx.tile(f"{source.buffer.root.name}.tile", scope, source.shape, source.dtype, span)
    tiles.emit_sound(ctx, node, ir.TileOp(COPY.name, scope, (tile.region(span), source.region(span)), (), span))
    return tile


def _combined(
    ctx: Context, node: ast.Call, arguments: Arguments, source: str, sources: list[Memory], scope: str = "", *,
    is_tuple: bool,
) -> list[Memory]:
    """Scan tiles by the function `combine`. source: the name of the argument that passes the tiles."""
    if not 1 <= len(sources) <= len(PAIRS):
        raise ctx.type_error(
            arguments[source], f"scan can't take {len(sources)} tiles",
            f"give one tile, or a tuple of 1 to {len(PAIRS)}",
        )
    dtypes, function = [tile.dtype for tile in sources], arguments["combine"]
    combine = read_combine(ctx, function, ctx.evaluate(function), dtypes, is_tuple=is_tuple)
    given, initial = optional(ctx, arguments, "initial"), list[ir.Expr]()
    if given is not None:
        if isinstance(given, Items) != is_tuple or len(_parts(given)) != len(sources):
            raise ctx.type_error(
                arguments["initial"], f"initial= is {describe(given)}; the scan combines {len(sources)} tiles",
                "give a scalar for one tile, or a tuple of scalars for a tuple of tiles",
            )
        pairs = zip(_parts(given), dtypes, strict=True)
        initial = [convert(ctx, arguments["initial"], each, dtype).expr for each, dtype in pairs]
    return _emitted(ctx, node, arguments, sources, combine, initial, scope)


def _accumulated(
    ctx: Context, node: ast.Call, arguments: Arguments, reduction: Reduction, source: Memory, dtype: DType,
    scope: str = "",
) -> Memory:
    """Scan a tile by the operation of a reduction, in its accumulation type; convert the elements to `dtype`."""
    fault = reduction.type_fault(source.dtype, dtype)
    if fault is not None:
        raise ctx.type_error(node, fault, "change the type of the result, or convert the source first")
    accumulates = reduction.combines_in(source.dtype, dtype)
    lower, higher = (ir.Var(ctx.unique(name), accumulates) for name in ("lower", "higher"))
    combine = Combine((lower,), (higher,), (), (build.op(reduction.combines, lower, higher),))
    start = build.const(exclusive_start(reduction, dtype, accumulates), accumulates)
    if source.dtype != accumulates:
        source = tiles.cast(ctx, node, source, accumulates)
    initial = [start] if _flag(ctx, arguments, EXCLUSIVE) else []
    (result,) = _emitted(ctx, node, arguments, [source], combine, initial, scope)
    return result if dtype == accumulates else tiles.cast(ctx, node, result, dtype)


def _flag(ctx: Context, arguments: Arguments, attribute: Attribute) -> bool:
    value = optional(ctx, arguments, attribute.name)
    if value is None:
        return False
    constant = ctx.constant(value, arguments[attribute.name], f"{attribute.name}=")
    fault = attribute.fault(constant)
    if fault is not None:
        raise ctx.type_error(arguments[attribute.name], fault, "write True or False")
    return bool(constant)


def _emitted(
    ctx: Context, node: ast.Call, arguments: Arguments, sources: list[Memory], combine: Combine,
    initial: Sequence[ir.Expr], scope: str,
) -> list[Memory]:
    """Emit a scan and return its results. scope: that of the call; "" for the tiles' own."""
    axis, span = mem.axis_of(ctx, arguments["axis"], len(sources[0].shape)), ctx.span(node)
    scope = scope or tiles.common_scope(ctx, node, SCAN.name, sources)
    results = [ctx.tile(SCAN.name, scope, tile.shape, tile.dtype, span) for tile in sources]
    operands: dict[str, ir.Region | ir.Expr] = dict(zip(INITIAL, initial, strict=False))
    for (to, of), result, source in zip(PAIRS, results, sources, strict=False):
        operands |= {to: result.region(span), of: source.region(span)}
    attrs: list[tuple[str, AttributeValue]] = [(AXIS.name, (axis,)), (COMBINE.name, combine)]
    attrs += [(each.name, True) for each in (REVERSE, EXCLUSIVE) if _flag(ctx, arguments, each)]
    tiles.emit_sound(ctx, node, ir.TileOp(SCAN.name, scope, SCAN.ordered(operands), tuple(attrs), span))
    return results
