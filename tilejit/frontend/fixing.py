"""Layouts of open tiles whose layout a kernel reads: the default layout for their shape, type and scope."""

from __future__ import annotations

from collections.abc import Mapping

from ..dataclass import replace
from ..errors import LayoutError
from ..ir import walk
from ..ir.nodes import Alloc, Buffer, BufferView, Open, Stmt
from ..ir.rewriting import Rewriting
from ..layout import TileLayout
from ..layout.grid import Projection, alone
from ..scopes import SCOPES
from ..source import Span
from .context import Context
from .empties import is_empty
from .values import Memory


def fixed_layout(ctx: Context, span: Span, memory: Memory) -> TileLayout:
    """Return the layout of `memory`'s buffer, chosen now if it is open; raise LayoutError if the buffer has none."""
    root = memory.buffer.root
    if is_empty(root.shape):
        raise LayoutError(
            f"{root.name} of shape {root.shape} has no elements and no layout", span=span,
            hint="take the layout of a tile that has elements",
        )
    if isinstance(root.layout, Open) and root.name not in ctx.fixed:
        scope = root.layout.scope
        chosen = alone(root.fixed_shape, scope, SCOPES[scope].threads(ctx.threads), root.dtype.bits)
        ctx.journal.put(ctx.fixed, root.name, chosen)
    return _placed(memory.buffer, ctx.fixed, span).tile_layout


def laid_out(buffer: Buffer, fixed: Mapping[str, Projection]) -> Buffer:
    """Return the buffer in its fixed layout, if any; raise LayoutError if a view moves dimensions padded together."""
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
    """Return the view with the layout of the dimensions `dims` of its base; None is a dimension of extent 1."""
    shape = base.fixed_shape
    if dims == tuple(range(len(shape))):
        return replace(view, layout=base.layout, slots=base.slots)
    if base.slots and len(base.slots) != len(shape):
        raise LayoutError(
            f"{base.name} of shape {shape} is one row of {base.slots[0]} slots: its dimensions can't be moved",
            hint="take .T, permute and [:, None] of a copy, or give the tile a layout",
        )
    grouped, ends = base.tile_layout.group(base.slots or shape)
    # dimensions of the base that aren't in `dims` have extent 1, so that their iterators don't matter
    chosen = [it for d in dims if d is not None for it in grouped.shard[ends[d] : ends[d + 1]]]
    slots = tuple(1 if d is None else base.slots[d] for d in dims) if base.slots else ()
    return replace(view, layout=grouped.replace(shard=tuple(chosen) or grouped.shard[:1]), slots=slots)


def with_fixed(body: tuple[Stmt, ...], fixed: Mapping[str, Projection]) -> tuple[Stmt, ...]:
    """Return the statements with the layouts of all fixed tiles."""
    if not fixed:
        return body
    defining: list[Alloc | BufferView] = [*walk.each(body, Alloc), *walk.each(body, BufferView)]
    relaid = {s.buffer.name: _placed(s.buffer, fixed, s.span) for s in defining if s.buffer.root.name in fixed}
    return Rewriting(relaid).block(body)
