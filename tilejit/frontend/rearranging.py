"""Calls that move the elements of a tile along an axis: `tj.gather`, `tj.flip`, `tj.roll`; and `tj.histogram`."""

from __future__ import annotations

import ast

from ..dtypes import int32, int64, uint64
from ..ir.arithmetic import build
from ..ir.nodes import Const, Expr, Region, TileOp
from ..ops.copies import FILL, INDEX
from . import atomics, tiles
from . import memory as mem
from .arguments import Arguments
from .context import Context
from .exchanges import Scratch, along, gathered, single
from .scalars import as_scalar
from .tileops import mask_argument
from .values import Constant, Memory, Rows, Scalar, Value, describe


def _tile(ctx: Context, arguments: Arguments, name: str) -> Memory:
    return tiles.local_tile(ctx, arguments["x"], name, ctx.evaluate(arguments["x"]))


def gather(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.gather(x, index, axis)`."""
    tile = _tile(ctx, arguments, "gather")
    index = tiles.local_tile(ctx, arguments["index"], "gather", ctx.evaluate(arguments["index"]))
    axis = mem.axis_of(ctx, arguments["axis"], len(tile.shape))
    if not index.dtype.is_integer:
        raise ctx.type_error(
            arguments["index"], f"an index must be an integer; this is {describe(index)}",
            "convert it: index.astype(tj.int32)",
        )
    expected = (*tile.shape[:axis], *index.shape[axis : axis + 1], *tile.shape[axis + 1 :])
    if index.shape != expected:
        raise ctx.type_error(
            arguments["index"], f"the index has shape {index.shape}, the tile {tile.shape}",
            f"their ranks, and their extents except along axis {axis}, must be equal",
        )
    if not tile.shape[axis] and 0 not in index.shape:
        raise ctx.type_error(
            arguments["x"], f"axis {axis} of a tile of shape {tile.shape} has no elements to select",
            "gather from a tile that has elements",
        )
    scope = tiles.common_scope(ctx, node, "gather", [tile, index])
    if 0 in index.shape:
        return ctx.tile("gather", scope, index.shape, tile.dtype, ctx.span(node))
    return gathered(ctx, arguments["index"], scope, tile, index, axis)


def flip(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.flip(x, axis)`."""
    tile = _tile(ctx, arguments, "flip")
    axis = mem.axis_of(ctx, arguments["axis"], len(tile.shape))
    return along(ctx, node, tile, axis, range(tile.shape[axis])[::-1])


def roll(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.roll(x, shift, axis)`, in which the element at index i moves to (i + shift) % extent."""
    tile, argument = _tile(ctx, arguments, "roll"), arguments["shift"]
    axis = mem.axis_of(ctx, arguments["axis"], len(tile.shape))
    extent = tile.shape[axis]
    shift = as_scalar(ctx, argument, ctx.evaluate(argument))
    if isinstance(shift, Scalar):
        if not shift.dtype.is_integer:
            raise ctx.type_error(argument, f"the shift must be an integer; this is {describe(shift)}", "use int(x)")
        if not extent:
            return tile
        # the remainder first: a negative number of an unsigned type, or a large extent in a narrow one, would wrap
        wide = uint64 if shift.dtype is uint64 else int64
        distance = build.cast(build.mod(build.cast(shift.expr, wide), build.const(extent, wide)), int32)
        start = build.mod(build.sub(build.const(extent, int32), distance), build.const(extent, int32))
        return along(ctx, node, tile, axis, range(extent), start)
    first = -ctx.integer(shift, argument, "the shift") % max(extent, 1)
    return along(ctx, node, tile, axis, [*range(first, extent), *range(first)], Const(first, int32))


def histogram(ctx: Context, node: ast.Call, arguments: Arguments) -> Value:
    """Translate `tj.histogram(x, bins, mask=None)`."""
    tile, argument = _tile(ctx, arguments, "histogram"), arguments["bins"]
    bins = ctx.integer(ctx.evaluate(argument), argument, "the number of bins")
    if bins < 1:
        raise ctx.type_error(argument, f"the number of bins must be positive; got {bins}", "pass at least 1")
    if not tile.dtype.is_integer:
        raise ctx.type_error(
            arguments["x"], f"histogram counts integers; this is {describe(tile)}",
            "compute the number of the bin of each element: ((x - low) * scale).astype(tj.int32)",
        )
    mask = mask_argument(ctx, arguments)
    given = [tile, *([mask] if isinstance(mask, Memory) else [])]
    scope, span = tiles.common_scope(ctx, node, "histogram", given), ctx.span(node)
    numbers = tile if tile.dtype.bits >= 32 else tiles.cast(ctx, node, tile, int32)
    counted = tiles.elementwise(ctx, node, "less", [numbers, Constant(bins)])
    if tile.dtype.kind == "int":
        is_positive = tiles.elementwise(ctx, node, "greater_equal", [numbers, Constant(0)])
        counted = tiles.elementwise(ctx, node, "logical_and", [counted, is_positive])
    if mask is not None:
        given_mask = mask if isinstance(mask, Memory) else Scalar(mask)
        counted = tiles.elementwise(ctx, node, "logical_and", [counted, given_mask])
    exchange = Scratch.of(ctx, node, scope, int32, bins)
    view = exchange.view((bins,), (1,))
    ctx.emit(TileOp(FILL.name, scope, (view.region(span), build.const(0, int32)), (), span))
    exchange.sync()
    place = Rows(single(view), 0, numbers)
    operands: dict[str, Region | Expr] = {"place": place.region(span), INDEX.name: numbers.region(span)}
    atomics.update(ctx, node, "add", operands, [build.const(1, int32)], counted, "relaxed.cta")
    exchange.sync()
    return exchange.load(view)
