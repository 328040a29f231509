"""Exchanges of a tile's elements between the threads of its scope, through shared memory that the compiler allocates.

The scope stores the tile, synchronizes, and loads each element of the result from the place that its index gives. For a
part at a run-time place, `x[i]`, only the elements of the part are stored.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from math import prod
from types import MappingProxyType

from ..dataclass import dataclass, replace
from ..dtypes import DType, int32, int64
from ..ir.allocation import alignment
from ..ir.arithmetic import build, facts
from ..ir.nodes import (
    TRUE,
    Alloc,
    Assert,
    Buffer,
    BufferView,
    Const,
    Expr,
    Open,
    Region,
    Special,
    Sync,
    TileOp,
)
from ..layout import S, TileLayout
from ..layout.iters import weights
from ..ops.copies import COPY, INDEX, INDICES
from ..scopes import SCOPES, THREAD
from . import tiles
from .context import Context
from .flow import Construct, innermost
from .scalars import scalar_of
from .values import Constant, Memory, Rows, Scalar, owner_scope


@dataclass(frozen=True, slots=True)
class Scratch:
    """Shared memory for a number of elements in each instance of a scope, which no thread of the instance still reads.

    node: the expression that exchanges elements.
    """

    ctx: Context
    node: ast.AST
    scope: str
    buffer: Buffer
    instances: int

    @staticmethod
    def of(ctx: Context, node: ast.AST, scope: str, dtype: DType, size: int) -> Scratch:
        """Allocate memory, or reuse that of an earlier exchange of this size after a barrier."""
        owner, span = SCOPES[scope], ctx.span(node)
        instances = 1 if owner.number_id is None else -(-ctx.threads // owner.threads(ctx.threads))
        buffer = earlier = ctx.exchanges.get((scope, dtype, size))
        if buffer is None:
            layout = TileLayout.row_major((instances * size,))
            align = alignment("shared", dtype, layout)
            buffer = Buffer(ctx.unique("exchange"), "shared", dtype, layout.shape, layout, align, None, span)
            ctx.allocate(Alloc(buffer, span=span))
            ctx.exchanges[scope, dtype, size] = buffer
        exchange = Scratch(ctx, node, scope, buffer, instances)
        if earlier is not None or innermost(ctx.enclosures, Construct.LOOP) is not None:
            exchange.sync()
        return exchange

    def sync(self) -> None:
        if self.scope != THREAD.name:
            self.ctx.emit(Sync(self.scope, self.ctx.span(self.node)))

    def view(self, shape: Sequence[int], strides: Sequence[int]) -> Memory:
        """Return the instance's part in a shape. Elements along a dimension of stride 0 share a place.

        The parts of single threads are interleaved, so that the threads of a warp access different banks.
        """
        number, span = SCOPES[self.scope].number_id, self.ctx.span(self.node)
        unit, step = 1, self.buffer.tile_layout.size() // self.instances
        if self.scope == THREAD.name:
            unit, step = self.instances, 1
        layout = S[(*shape, self.instances) : (*(unit * stride for stride in strides), step)]
        name = self.ctx.unique(f"{self.buffer.name}.view")
        view = Buffer(name, "shared", self.buffer.dtype, layout.shape, layout, self.buffer.align, self.buffer, span)
        self.ctx.allocate(BufferView(view, span))
        zero = Const(0, view.index_dtype)
        part = zero if number is None else build.cast(Special(number.name), view.index_dtype)
        return Memory(view, (*(zero for _ in shape), part), (*shape, None))

    def store(self, tile: Memory, view: Memory, mask: Memory | None = None) -> None:
        """Store a tile, or its elements for which the mask is true, and synchronize."""
        span = self.ctx.span(self.node)
        self.copy(view.region(span), tile.region(span), {} if mask is None else {"mask": mask.region(span)})
        self.sync()

    def load(self, src: Memory | Rows) -> Memory:
        """Return a new tile of the elements of a view, of a part of one, or at an index."""
        span = self.ctx.span(self.node)
        region = src.region(span)
        result = self.ctx.tile("moved", self.scope, region.shape, src.dtype, span)
        self.copy(result.region(span), region, {INDEX.name: src.operand(span)} if isinstance(src, Rows) else {})
        return result

    def copy(self, dst: Region, src: Region, options: Mapping[str, Region | Expr] = MappingProxyType({})) -> None:
        operands = COPY.ordered({"dst": dst, "src": src, **options})
        self.ctx.emit(TileOp(COPY.name, self.scope, operands, (), self.ctx.span(self.node)))


def single(view: Memory) -> Memory:
    """Return the first element of a view."""
    return replace(view, extents=(None,) * len(view.extents))


def indices(ctx: Context, node: ast.AST, scope: str, shape: tuple[int, ...], axis: int) -> Memory:
    """Return a new tile of each element's index along an axis."""
    result = ctx.tile("indices", scope, shape, int32, ctx.span(node))
    ctx.emit(TileOp(INDICES.name, scope, (result.region(ctx.span(node)),), (("axis", axis),), ctx.span(node)))
    return result


def gathered(
    ctx: Context, node: ast.AST, scope: str, tile: Memory, index: Memory, axis: int, start: Expr | None = None
) -> Memory:
    """Return the elements of a tile at an index along an axis.

    start: None if `index` has the shape of the result, and checked builds should test it. Otherwise the index is inside
    and computed from `start`, which must be the same in all threads; if `index` has rank 1, it selects whole rows.
    """
    shape, strides = tile.shape, weights(tile.shape)
    exchange = Scratch.of(ctx, node, scope, tile.dtype, prod(shape))
    exchange.store(tile, exchange.view(shape, strides))
    if ctx.is_checked and start is None:
        # this load tests the index in its own type, and its result is unused
        exchange.load(Rows(single(exchange.view(shape, [0] * len(shape))), axis, index))
    places = index if index.dtype is int32 else tiles.cast(ctx, node, index, int32)
    row: tuple[int, ...] = ()
    if len(index.shape) == 1:
        row = shape[1:]
    else:
        places = tiles.elementwise(ctx, node, "mul", [places, Constant(strides[axis])])
        for d, stride in enumerate(strides):
            if d != axis and shape[d] > 1:
                other = indices(ctx, node, scope, index.shape, d)
                places = tiles.elementwise(ctx, node, "fma", [other, Constant(stride), places])
    # the last dimension has stride 0, so that `start` determines no address, but is tested like other starts
    view = exchange.view((prod(shape) // prod(row), *row, shape[axis]), (prod(row), *weights(row), 0))
    common = view.starts[0] if start is None else build.cast(start, view.buffer.index_dtype)
    selected = replace(view, starts=(*view.starts[:-2], common, view.starts[-1]), extents=(None, *row, None, None))
    return exchange.load(Rows(selected, 0, places))


def along(
    ctx: Context, node: ast.AST, tile: Memory, axis: int, places: Sequence[int], start: Expr | None = None
) -> Memory:
    """Return the elements of a tile at equally spaced `places` along an axis.

    start: if not None, the places are all indices in ascending order, from this one on, cyclically.
    """
    scope, span = owner_scope(tile.buffer), ctx.span(node)
    shape = (*tile.shape[:axis], len(places), *tile.shape[axis + 1 :])
    if 0 in shape:
        return ctx.tile("moved", scope, shape, tile.dtype, span)
    if scope == THREAD.name and (start is None or isinstance(start, Const)):
        result = ctx.tile("moved", scope, shape, tile.dtype, span)
        for to, place in enumerate(places):
            dst, src = section(result, axis, to, 1).region(span), section(tile, axis, place, 1).region(span)
            ctx.emit(TileOp(COPY.name, scope, (dst, src), (), span))
        return result
    index = indices(ctx, node, scope, shape if axis else shape[:1], axis)
    if start is None:
        first, step = (places[0], places[1] - places[0]) if len(places) > 1 else (places[0], 1)
        index = tiles.elementwise(ctx, node, "fma", [index, Constant(step), Constant(first)])
    else:
        index = tiles.elementwise(ctx, node, "add", [index, Scalar(start)])
        index = tiles.elementwise(ctx, node, "mod", [index, Constant(len(places))])
    return gathered(ctx, node, scope, tile, index, axis, start or Const(0, int32))


def section(tile: Memory, axis: int, start: int, extent: int) -> Memory:
    """Return the part of a tile from `start` on along an axis."""
    dim = tile.dims[axis]
    starts = (*tile.starts[:dim], build.add(tile.starts[dim], start), *tile.starts[dim + 1 :])
    return replace(tile, starts=starts, extents=(*tile.extents[:dim], extent, *tile.extents[dim + 1 :]))


def is_apart(memory: Memory) -> bool:
    """True if a part of a distributed tile is a single element, or if run-time values determine its place.

    False if the threads that hold the tile are the same for each place.
    """
    if not memory.is_local or owner_scope(memory.buffer) == THREAD.name or memory.is_whole:
        return False
    moving = _moving(memory)
    if not moving or not memory.dims or isinstance(memory.buffer.layout, Open):
        return bool(moving) or not memory.dims
    grouped, ends = memory.buffer.tile_layout.group(memory.buffer.slots or memory.buffer.fixed_shape)
    for d in moving:
        iters, step = grouped.shard[ends[d] : ends[d + 1]], facts.multiple_of(memory.starts[d])
        # a start that is a multiple of an iterator's period keeps the thread that this iterator selects
        for it, weight in zip(iters, weights([each.extent for each in iters]), strict=True):
            if it.axis.is_thread and step % (it.extent * weight):
                return True
    return False


def _moving(memory: Memory) -> list[int]:
    return [d for d, start in enumerate(memory.starts) if not isinstance(start, Const)]


def picked(ctx: Context, node: ast.AST, memory: Memory) -> Memory | Scalar:
    """Return a part of a distributed tile as a new tile, or a single element as a scalar."""
    scope, zero, full = owner_scope(memory.buffer), Const(0, memory.buffer.index_dtype), memory.buffer.fixed_shape
    moving = _moving(memory)
    if ctx.is_checked:
        for d in moving:
            _assert_inside(ctx, node, memory, d)
    dims = [d for d, extent in enumerate(memory.extents) if d in moving or extent is not None]
    whole = replace(
        memory, starts=tuple([zero if d in moving else start for d, start in enumerate(memory.starts)]),
        extents=tuple([full[d] if d in moving else extent for d, extent in enumerate(memory.extents)]),
    )
    shape = whole.shape
    mask: Memory | None = None
    for k, d in enumerate(dims):
        if memory.extents[d] is None:
            along = indices(ctx, node, scope, shape, k)
            here = tiles.elementwise(ctx, node, "equal", [along, Scalar(build.cast(memory.starts[d], int32))])
            mask = here if mask is None else tiles.elementwise(ctx, node, "logical_and", [mask, here])
    # all elements along a dimension of which one index is selected share a place
    stored = [1 if memory.extents[d] is None else n for d, n in zip(dims, shape, strict=True)]
    strides = [0 if memory.extents[d] is None else w for d, w in zip(dims, weights(stored), strict=True)]
    exchange = Scratch.of(ctx, node, scope, memory.dtype, prod(stored))
    view = exchange.view(shape, strides)
    exchange.store(whole, view, mask)
    # the starts determine no address where the stride is 0, but must be the same in all threads
    starts = [build.cast(memory.starts[d], view.buffer.index_dtype) if d in moving else view.starts[0] for d in dims]
    part = replace(
        view, starts=(*starts, view.starts[-1]), extents=(*(memory.extents[d] for d in dims), None)
    )
    result = exchange.load(part)
    return result if memory.dims else scalar_of(ctx, result, ctx.span(node))


def _assert_inside(ctx: Context, node: ast.AST, memory: Memory, dim: int) -> None:
    start, taken, extent = memory.starts[dim], memory.extents[dim] or 1, memory.buffer.fixed_shape[dim]
    assert isinstance(taken, int), "extents of tiles are static"
    cond = build.logical_and(build.greater_equal(start, 0), build.less_equal(start, extent - taken))
    if cond != TRUE:
        what = "index {0} is outside" if memory.extents[dim] is None else "[{0} : {1}] leaves"
        message = f"{what} dimension {dim} of {memory.buffer.root.name}, whose extent is {extent}"
        ends = tuple([build.cast(end, int64) for end in (start, build.add(start, taken))])
        ctx.emit(Assert(cond, message, "bounds", ends, ctx.span(node)))
