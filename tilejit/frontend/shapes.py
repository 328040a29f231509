"""Reshaping, concatenation and splitting of tiles."""

from __future__ import annotations

import ast
import math

from ..dataclass import replace
from ..errors import KernelTypeError, LayoutError
from ..ir.nodes import Const, Open, TileOp
from ..ops.copies import COPY, RESHAPE
from ..ops.elementwise import ELEMENTWISE
from . import memory, tiles
from .arguments import Arguments, bind, with_one_shape
from .context import Context
from .memory import axis_of, regrouped, view_along
from .regions import reinterpreted
from .values import Items, Memory, Value, owner_scope


def reshape(ctx: Context, node: ast.Call, receiver: Memory) -> Memory:
    """Translate `.reshape(shape)` or `.reshape(*extents)`, which keep the elements in row-major order."""
    given = bind(ctx, with_one_shape(node), ".reshape", ("shape",), 1)["shape"]
    if not receiver.is_local:
        return memory.reshape(ctx, node, receiver, given)
    return with_shape(ctx, node, receiver, memory.shape_of(ctx, given, math.prod(receiver.shape)))


def with_shape(ctx: Context, node: ast.AST, tile: Memory, shape: tuple[int, ...]) -> Memory:
    """Return a local tile in another shape: a view if provably no element changes its register, else a new tile."""
    if shape == tile.shape:
        return tile
    scope, span = owner_scope(tile.buffer), ctx.span(node)
    view = _view(ctx, node, tile, shape)
    if view is not None:
        return view
    result = ctx.tile("reshaped", scope, shape, tile.dtype, span)
    tiles.emit_sound(ctx, node, TileOp(RESHAPE.name, scope, (result.region(span), tile.region(span)), (), span))
    return result


def _view(ctx: Context, node: ast.AST, tile: Memory, shape: tuple[int, ...]) -> Memory | None:
    """Return a view of a tile in another shape; None if elements may have to move."""
    if isinstance(tile.buffer.layout, Open):
        return _open_view(ctx, node, tile, shape)
    layout = tile.buffer.tile_layout
    if not tile.is_whole or tile.buffer.slots or math.prod(shape) != layout.size():
        return None
    try:
        return reinterpreted(ctx, node, tile, shape, tile.dtype, regrouped(layout, shape))
    except LayoutError:
        return None


def _open_view(ctx: Context, node: ast.AST, tile: Memory, shape: tuple[int, ...]) -> Memory | None:
    """Return a view of an open tile that adds or removes only dimensions of extent 1; None for any other shape."""
    kept = [d for d in tile.dims if tile.extents[d] != 1]
    if [n for n in shape if n != 1] != [tile.extents[d] for d in kept]:
        return None
    following = iter(kept)
    dims = [None if n == 1 else next(following) for n in shape]
    # a dimension from which `tile` selects one of several elements remains in the view, as a leading dropped dimension
    dropped = [d for d, n in enumerate(tile.buffer.shape) if d not in kept and n != 1]
    view = view_along(ctx, node, tile, [*dropped, *dims])
    zero = Const(0, tile.buffer.index_dtype)
    starts = [tile.starts[d] for d in dropped] + [zero if d is None else tile.starts[d] for d in dims]
    return replace(view, starts=tuple(starts), extents=(*(None for _ in dropped), *shape))


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
