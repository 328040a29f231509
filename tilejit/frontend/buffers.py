"""Buffers: emptiness, the layouts of open tiles, views, and the types of indices.

Tiles without elements are never allocated or used by IR operations. An open tile (one whose layout is `Open`) gets the
default layout for its shape, type and scope if the frontend needs its layout. Checked builds test that an index that is
64-bit data (see `is_data`) fits in a 32-bit index type; all builds may clamp uint64 starts to the range of int64.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from ..dataclass import replace
from ..dtypes import DType, int32, int64, uint64
from ..errors import KernelTypeError, LayoutError
from ..ir import walk
from ..ir.arithmetic import build
from ..ir.arithmetic.facts import full_range, is_data
from ..ir.nodes import TRUE, Alloc, Assert, Buffer, BufferView, Expr, Open, Region, Stmt, Strided, TileOp, Var
from ..ir.rewriting import Rewriting
from ..layout import TileLayout
from ..layout.grid import Projection, alone
from ..ops.copies import FILL
from ..ops.fold import REDUCE
from ..ops.reduce import axes_of
from ..scopes import SCOPES
from ..source import Span
from .values import Memory

if TYPE_CHECKING:
    from .context import Context


def is_idle(statement: Alloc | BufferView | TileOp) -> bool:
    """True if an operand of the operation, or the buffer that the statement defines, has no elements."""
    if isinstance(statement, TileOp):
        for operand in statement.operands:
            if isinstance(operand, Region) and 0 in operand.extents:
                return True
        return False
    return 0 in statement.buffer.shape


def remaining(op: TileOp) -> TileOp:
    """Return the operation, or a fill if it reduces no elements; raise KernelTypeError if the result is undefined."""
    reduction = op.record.reduction
    if reduction is None and op.record is not REDUCE:
        return op
    src = op.region("src")
    if prod(src.shape[axis] for axis in axes_of(dict(op.attrs), len(src.shape))):
        return op
    dst = op.region("dst")
    value = None if reduction is None else reduction.of_nothing(reduction.combines_in(src.dtype, dst.dtype))
    if value is None:
        raise KernelTypeError(
            f"{op.name} of no elements has no value: it reduces an empty axis of a tile of shape {src.shape}",
            span=op.span,
            hint="leave the reduction out where there is nothing to reduce, or reduce a tile that has elements",
        )
    return replace(op, name=FILL.name, operands=(dst, build.const(value, dst.dtype)), attrs=())


def fixed_layout(ctx: Context, span: Span, memory: Memory) -> TileLayout:
    """Return the layout of `memory`'s buffer, chosen now if it is open; raise LayoutError if it has no elements."""
    root = memory.buffer.root
    if 0 in root.shape:
        raise LayoutError(
            f"{root.name} of shape {root.shape} has no elements and no layout", span=span,
            hint="use a tile that has elements, or leave this out if there are none",
        )
    if isinstance(root.layout, Open) and root.name not in ctx.fixed:
        scope = root.layout.scope
        threads = SCOPES[scope].threads(ctx.threads)
        ctx.fixed[root.name] = alone(root.fixed_shape, scope, threads, root.dtype.bits)
    return _placed(memory.buffer, ctx.fixed, span).tile_layout


def laid_out(buffer: Buffer, fixed: Mapping[str, Projection]) -> Buffer:
    """Return the buffer in its fixed layout, if any; raise LayoutError if a view moves jointly padded dimensions."""
    if buffer.base is None:
        chosen = fixed.get(buffer.name)
        return buffer if chosen is None else replace(buffer, layout=chosen.layout, slots=chosen.slots)
    base = laid_out(buffer.base, fixed)
    if base is buffer.base:
        return buffer
    if not isinstance(buffer.layout, Open) or isinstance(base.layout, Open):
        return replace(buffer, base=base)
    assert buffer.layout.dims is not None
    return _along(replace(buffer, base=base), base, buffer.layout.dims)


def _placed(buffer: Buffer, fixed: Mapping[str, Projection], span: Span | None) -> Buffer:
    try:
        return laid_out(buffer, fixed)
    except LayoutError as error:
        error.span = error.span or span
        raise


def _along(view: Buffer, base: Buffer, dims: tuple[int | None, ...]) -> Buffer:
    """Return `view` in its layout. dims: for each of its dimensions, the dimension of `base`, or None for a new one."""
    shape = base.fixed_shape
    if dims == tuple(range(len(shape))):
        return replace(view, layout=base.layout, slots=base.slots)
    if base.slots and len(base.slots) != len(shape):
        raise LayoutError(
            f"{base.name} of shape {shape} is one padded row of {base.slots[0]} slots: its dimensions can't be moved",
            hint="take .T, permute and [:, None] of a copy, or give the tile a layout",
        )
    grouped, ends = base.tile_layout.group(base.slots or shape)
    # dimensions of the base that aren't in `dims` have extent 1, so their iterators don't matter
    chosen = [it for d in dims if d is not None for it in grouped.shard[ends[d] : ends[d + 1]]]
    slots = tuple(1 if d is None else base.slots[d] for d in dims) if base.slots else ()
    return replace(view, layout=grouped.replace(shard=tuple(chosen) or grouped.shard[:1]), slots=slots)


def with_fixed(body: tuple[Stmt, ...], fixed: Mapping[str, Projection]) -> tuple[Stmt, ...]:
    """Return `body` with open tiles and their views laid out as in `fixed`, a map from buffer name to chosen layout."""
    if not fixed:
        return body
    defining: list[Alloc | BufferView] = [*walk.each(body, Alloc), *walk.each(body, BufferView)]
    relaid = {s.buffer.name: _placed(s.buffer, fixed, s.span) for s in defining if s.buffer.root.name in fixed}
    return Rewriting(relaid).block(body)


def rearranged(
    ctx: Context, span: Span, memory: Memory, order: Sequence[int | None], layout: TileLayout | Strided | Open
) -> Memory:
    """Return a view of a region with its dimensions in another order.

    order: for each dimension of the view, a dimension of the buffer, or None for a new one of extent 1. layout: the
    layout of the view unless the layout of the buffer is `Open`.
    """
    base = memory.buffer
    if isinstance(base.layout, Open):
        layout = Open(base.layout.scope, tuple(order))
    shape = tuple([1 if d is None else base.shape[d] for d in order])
    view = reinterpreted(ctx, span, memory, shape, memory.dtype, layout)
    starts = tuple([view.starts[k] if d is None else memory.starts[d] for k, d in enumerate(order)])
    return replace(view, starts=starts, extents=tuple([1 if d is None else memory.extents[d] for d in order]))


def reinterpreted(
    ctx: Context, span: Span, memory: Memory, shape: tuple[int | Var, ...], dtype: DType,
    layout: TileLayout | Strided | Open, kind: str = "view",
) -> Memory:
    """Return a new view of the whole buffer of `memory`, with this shape, type and layout. kind: part of its name."""
    base = memory.buffer
    name = ctx.unique(f"{base.root.name}.{kind}")
    buffer = Buffer(name, base.space, dtype, shape, layout, base.align, base, span)
    ctx.allocate(BufferView(buffer, span))
    return Memory.whole(buffer, writable=memory.writable, constant_indices=memory.constant_indices)


def as_index(ctx: Context, node: ast.AST, number: Expr, buffer: Buffer) -> Expr:
    """Return an index in the buffer's index type; checked builds test that 64-bit data fits in 32 bits."""
    dtype = buffer.index_dtype
    if dtype is int32 and number.dtype.bits == 64 and is_data(number):
        check_index_fits(ctx, node, number, full_range(dtype), buffer)
    return build.cast(number, dtype)


def as_start(ctx: Context, node: ast.AST, start: Expr, taken: int | Expr, buffer: Buffer) -> Expr:
    """Like `as_index`, for the start of a slice of extent `taken`; a uint64 that could wrap into bounds is clamped."""
    if start.dtype is uint64 and buffer.index_dtype is int64 and taken != 1:
        start = build.minimum(start, full_range(int64)[1])
    return as_index(ctx, node, start, buffer)


def check_index_fits(ctx: Context, node: ast.AST, number: Expr, limits: tuple[int, int], buffer: Buffer) -> None:
    """In checked builds, emit a test that an index is within limits beyond which it would wrap."""
    if not ctx.is_checked:
        # in an unchecked build, the test would keep its operands alive
        return
    least, most = limits
    cond = build.less_equal(number, most)
    if number.dtype.kind == "int":
        cond = build.logical_and(build.greater_equal(number, least), cond)
    if cond != TRUE:
        message = f"index {{0}} is outside {buffer.root.name}"
        ctx.emit(Assert(cond, message, "bounds", (build.cast(number, int64),), ctx.span(node)))
