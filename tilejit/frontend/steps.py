"""Slices with a step: a new tile of the elements of a local tile, and a view of global or shared memory."""

from __future__ import annotations

import ast

from ..dataclass import replace
from ..ir.arithmetic import build, facts
from ..ir.nodes import Const, Expr, Let, Strided, Var
from ..layout import TileLayout
from . import buffers, exchanges
from .context import Context, Located
from .values import Constant, Memory


def step_of(ctx: Context, node: ast.Slice, memory: Memory) -> int:
    """Return the step of a slice, 1 by default."""
    value = None if node.step is None else ctx.evaluate(node.step)
    if node.step is None or value == Constant(None):
        return 1
    assert value is not None
    step = ctx.integer(value, node.step, "the step of a slice", f"use a tile of indices: {_at_every(memory)}")
    if step == 0:
        raise ctx.type_error(node.step, "the step of a slice can't be 0", "leave it out, or write another step")
    return step


def _at_every(memory: Memory) -> str:
    """Return how to load elements at a run-time distance."""
    name = memory.buffer.root.name
    if memory.is_local:
        return f"tj.gather({name}, indices, axis)"
    return f"{name}.at(tj.cta.indices((N,), 0) * step); for a later dimension, add axis="


def every(ctx: Context, node: ast.AST, memory: Memory, axis: int, step: int) -> Memory:
    """Return every `step`-th element along an axis, from the last one on if the step is negative."""
    if not memory.is_local:
        return _strided(ctx, node, memory, memory.dims[axis], step)
    tile = exchanges.picked(ctx, node, memory) if exchanges.is_apart(memory) else memory
    assert isinstance(tile, Memory), "a part with a dimension is a tile"
    return exchanges.along(ctx, node, tile, axis, range(tile.shape[axis])[::step])


def _strided(ctx: Context, node: ast.AST, memory: Memory, dim: int, step: int) -> Memory:
    """Return every `step`-th element of a region of global or shared memory in a dimension, as a part of a view."""
    base, layout, extent = memory.buffer, memory.buffer.layout, memory.extents[dim]
    rest = build.mod(memory.starts[dim], step)
    if step < 0 or not isinstance(rest, Const):
        raise ctx.type_error(
            node, f"the step of a region must be positive; got {step}" if step < 0
            else f"the start of a slice with step {step} must be a constant more than a multiple of {step}",
            "reverse a tile: tj.flip(tj.cta.load(region), axis)" if step < 0
            else f"use a tile of indices: {_at_every(memory)}",
        )
    if ctx.phi(base) is not None:
        raise ctx.type_error(
            node, f"{base.root.name} differs between paths: a slice of it can't have a step", "slice it on each path"
        )
    assert extent is not None, "a slice keeps its dimension"
    first, whole, start = int(rest.value), base.shape[dim], build.floordiv(memory.starts[dim], step)
    shape, starts = [*base.shape], [*memory.starts]
    extents: list[int | Expr | None] = [*memory.extents]
    if isinstance(whole, int) and first >= whole:
        # past the edge of the tensor, as the second of its elements from 0 on is
        first, rest, start = 0, build.mod(rest, 1), build.add(start, 1)
    count = _steps(ctx, node, whole, first, step)
    taken = count if memory.covers(dim) else _steps(ctx, node, extent, 0, step)
    shape[dim], starts[dim], extents[dim] = count, start, taken
    if count == 0:
        return replace(memory, extents=tuple(extents))
    if isinstance(layout, TileLayout):
        with Located(ctx, node):
            grouped, ends = layout.group(base.fixed_shape)
        along = grouped.shard[ends[dim] : ends[dim + 1]]
        is_strided = base.space == "shared" or len(grouped.shard) == len(shape)
        if len(along) != 1 or not is_strided or layout.swizzle is not None:
            raise ctx.type_error(
                node, f"dimension {dim} of {base.name} has no single stride: {layout}",
                f"use a tile of indices: {_at_every(memory)}",
            )
        if base.space == "global":
            layout = Strided(tuple([it.stride for it in grouped.shard]), base.align)
        else:
            assert isinstance(count, int), "shared memory has no run-time extents"
            spaced = replace(along[0], extent=count, stride=along[0].stride * step)
            shard = (*grouped.shard[: ends[dim]], spaced, *grouped.shard[ends[dim + 1] :])
            layout = TileLayout(grouped.replace(shard=shard), offset=((spaced.axis, first * along[0].stride),))
    if isinstance(layout, Strided):
        # the elements between two steps are a dimension of their own
        unit = layout.strides[dim]
        stride = unit * step if isinstance(unit, int) else _at_entry(ctx, node, "stride", build.mul(unit, step))
        shape.insert(dim + 1, step)
        starts.insert(dim + 1, rest)
        extents.insert(dim + 1, None)
        layout = replace(layout, strides=(*layout.strides[:dim], stride, *layout.strides[dim:]))
    view = buffers.reinterpreted(ctx, ctx.span(node), memory, tuple(shape), memory.dtype, layout, "steps")
    return replace(view, starts=tuple(starts), extents=tuple(extents), in_bounds=memory.in_bounds, span=memory.span)


def _steps(ctx: Context, node: ast.AST, extent: int | Expr, first: int, step: int) -> int | Var:
    """Return the number of elements from `first` on, `step` apart, below `extent`: an int, or a variable."""
    if isinstance(extent, int):
        return max(-((first - extent) // step), 0)
    return _at_entry(ctx, node, "steps", build.floordiv(build.add(extent, step - 1 - first), step))


def _at_entry(ctx: Context, node: ast.AST, name: str, value: Expr) -> Var:
    """Return a variable for a value of extents and strides, defined at the kernel's entry."""
    var = Var(ctx.unique(name), value.dtype, facts.multiple_of(value), span=ctx.span(node))
    ctx.allocations.append(Let(var, value, ctx.span(node)))
    return var
