"""Calls that take whole tiles: reductions such as `tj.sum(x, axis)`, `tj.reduce`, `tj.cat` and `tj.split`."""

from __future__ import annotations

import ast

from ..dataclass import replace
from ..dtypes import DType
from ..errors import KernelTypeError
from ..ir.nodes import Const, TileOp
from ..ops.copies import COPY
from ..ops.elementwise import ELEMENTWISE
from ..ops.fold import COMBINE, PAIRS, REDUCE
from ..ops.record import TileOperation
from ..ops.reduction import Reduction
from . import tiles
from .arguments import Arguments, optional
from .combine import read_combine
from .context import Context
from .memory import axes_of, axis_of, element_type
from .methods import with_shape
from .values import Items, Memory, Scalar, Value, describe, is_number, owner_scope


def reduced(ctx: Context, node: ast.Call, arguments: Arguments, record: TileOperation, reduction: Reduction) -> Value:
    """Translate `tj.<name>(x, axis=None, dtype=None, keepdims=False)`; the result is a tile, even if its rank is 0."""
    tile = _reducible(ctx, arguments["x"], record.name, ctx.evaluate(arguments["x"]))
    axes = _axes(ctx, arguments.get("axis"), len(tile.shape))
    result = _reduce(ctx, node, record, tile, axes, _result_type(ctx, arguments, reduction, tile.dtype))
    return _with_units(ctx, node, result, axes, len(tile.shape)) if _keeps_dims(ctx, arguments) else result


def reduce(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.reduce(x, axis, combine, keepdims=False)`; for a tuple of tiles, return a tuple."""
    value = ctx.evaluate(arguments["x"])
    values = value.items if isinstance(value, Items) else (value,)
    if not 1 <= len(values) <= len(PAIRS):
        raise ctx.type_error(
            arguments["x"], f"reduce can't take {len(values)} tiles", f"give one tile, or a tuple of 1 to {len(PAIRS)}"
        )
    sources = [_reducible(ctx, arguments["x"], REDUCE.name, each) for each in values]
    rank = len(sources[0].shape)
    axes = _axes(ctx, arguments["axis"], rank)
    results = _combined(ctx, node, arguments["combine"], sources, axes, is_tuple=isinstance(value, Items))
    if _keeps_dims(ctx, arguments):
        results = [_with_units(ctx, node, result, axes, rank) for result in results]
    return Items(tuple(results)) if isinstance(value, Items) else results[0]


def _combined(
    ctx: Context, node: ast.AST, function: ast.expr, sources: list[Memory], axes: tuple[int, ...], *, is_tuple: bool
) -> list[Memory]:
    dtypes, span = [tile.dtype for tile in sources], ctx.span(node)
    combine = read_combine(ctx, function, ctx.evaluate(function), dtypes, is_tuple=is_tuple)
    scope = tiles.common_scope(ctx, node, REDUCE.name, sources)
    shape = tuple(n for d, n in enumerate(sources[0].shape) if d not in axes)
    results = [ctx.tile(REDUCE.name, scope, shape, dtype, span) for dtype in dtypes]
    operands = tuple([tile.region(span) for pair in zip(results, sources, strict=True) for tile in pair])
    attrs = (("axis", axes), (COMBINE.name, combine))
    tiles.emit_sound(ctx, node, TileOp(REDUCE.name, scope, operands, attrs, span))
    return results


def _keeps_dims(ctx: Context, arguments: Arguments) -> bool:
    keeps = optional(ctx, arguments.get("keepdims"))
    return keeps is not None and bool(ctx.constant(keeps, arguments["keepdims"], "keepdims="))


def _reducible(ctx: Context, node: ast.AST, name: str, value: Value) -> Memory:
    if isinstance(value, Scalar) or is_number(value):
        hint = "combine several scalars with min(a, b), max(a, b) or +"
        if isinstance(value, Scalar):
            n = ctx.threads
            hint += (
                f"; for a scalar x per thread write r = tj.alloc_local(({n},), tj.{value.dtype}, "
                f"layout=tj.S[({n},) : (1 @ tj.tx)]), r.registers[0] = x, and tj.{name}(r)"
            )
        raise ctx.type_error(node, f"{name} reduces a local tile; this is {describe(value)}", hint)
    return tiles.local_tile(ctx, node, name, value)


def _axes(ctx: Context, argument: ast.expr | None, rank: int) -> tuple[int, ...]:
    value = optional(ctx, argument)
    return tuple(range(rank)) if value is None or argument is None else axes_of(ctx, argument, value, rank)


def _result_type(ctx: Context, arguments: Arguments, reduction: Reduction, dtype: DType) -> DType:
    value = optional(ctx, arguments.get("dtype"))
    return reduction.result_type(dtype) if value is None else element_type(ctx, arguments["dtype"], value)


def _reduce(
    ctx: Context, node: ast.AST, record: TileOperation, tile: Memory, axes: tuple[int, ...], dtype: DType
) -> Memory:
    scope, span = owner_scope(tile.buffer), ctx.span(node)
    shape = tuple(n for d, n in enumerate(tile.shape) if d not in axes)
    result = ctx.tile(record.name, scope, shape, dtype, span)
    op = TileOp(record.name, scope, (result.region(span), tile.region(span)), (("axis", axes),), span)
    tiles.emit_sound(ctx, node, op)
    return result


def _with_units(ctx: Context, node: ast.AST, tile: Memory, axes: tuple[int, ...], rank: int) -> Memory:
    kept = iter(tile.shape)
    return with_shape(ctx, node, tile, tuple(1 if d in axes else next(kept) for d in range(rank)))


def cat(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.cat(a, b, axis)`."""
    parts = [tiles.local_tile(ctx, arguments[n], "cat", ctx.evaluate(arguments[n])) for n in ("a", "b")]
    rank = len(parts[0].shape)
    axis = axis_of(ctx, arguments["axis"], rank)
    others = [part.shape[:axis] + part.shape[axis + 1 :] for part in parts]
    if any(len(part.shape) != rank for part in parts) or others[0] != others[1]:
        raise ctx.type_error(
            node, f"can't concatenate tiles of shapes {parts[0].shape} and {parts[1].shape} along axis {axis}",
            "their other extents must be equal",
        )
    scope = tiles.common_scope(ctx, node, "cat", parts)
    try:
        dtype = ELEMENTWISE["maximum"].common_type([part.dtype for part in parts])
    except KernelTypeError as error:
        raise ctx.type_error(node, error.message, error.hint) from None
    parts = [part if part.dtype == dtype else tiles.cast(ctx, node, part, dtype) for part in parts]
    extent = sum(part.shape[axis] for part in parts)
    shape = (*parts[0].shape[:axis], extent, *parts[0].shape[axis + 1 :])
    span = ctx.span(node)
    result = ctx.tile("cat", scope, shape, dtype, span)
    start = 0
    for part in parts:
        place = _part(result, axis, start, part.shape[axis])
        ctx.emit(TileOp(COPY.name, scope, (place.region(span), part.region(span)), (), span))
        start += part.shape[axis]
    return result


def split(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.split(x, parts, axis)`."""
    tile = tiles.local_tile(ctx, arguments["x"], "split", ctx.evaluate(arguments["x"]))
    count = ctx.integer(ctx.evaluate(arguments["parts"]), arguments["parts"], "the number of parts")
    axis = axis_of(ctx, arguments["axis"], len(tile.shape))
    extent = tile.shape[axis]
    if count < 1 or extent % count:
        raise ctx.type_error(
            arguments["parts"], f"axis {axis} of extent {extent} doesn't split into {count} equal parts",
            "give a number that divides it, or slice: x[:, a:b]",
        )
    width = extent // count
    return Items(tuple(_part(tile, axis, k * width, width).at(ctx.span(node)) for k in range(count)))


def _part(tile: Memory, axis: int, start: int, extent: int) -> Memory:
    dim = tile.dims[axis]
    before = tile.starts[dim]
    assert isinstance(before, Const), "a tile that is a value starts at a constant"
    at = Const(int(before.value) + start, tile.buffer.index_dtype)
    starts = (*tile.starts[:dim], at, *tile.starts[dim + 1 :])
    return replace(tile, starts=starts, extents=(*tile.extents[:dim], extent, *tile.extents[dim + 1 :]))
