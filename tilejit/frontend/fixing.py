"""Open tiles that a kernel asks for their layout: from then on they are laid out as they would be alone."""

from __future__ import annotations

from collections.abc import Mapping

from ..dataclass import replace
from ..errors import LayoutError
from ..ir import walk
from ..ir.nodes import Alloc, Buffer, BufferView, Open, Stmt
from ..layout import TileLayout
from ..layout.grid import Projection, alone
from ..scopes import SCOPES
from ..source import Span
from .context import Context
from .empties import is_empty
from .values import Memory

__all__ = ["fixed_layout", "laid_out", "with_fixed"]


def fixed_layout(ctx: Context, span: Span, memory: Memory) -> TileLayout:
    """The layout of the buffer that a memory is of; an open one is fixed. Errors get the place `span`."""
    root = memory.buffer.root
    if is_empty(root.shape):
        raise LayoutError(
            f"{root.name} has no elements, and so no layout: its shape is {root.shape}", span=span,
            hint="ask tiles that have elements",
        )
    if isinstance(root.layout, Open) and root.name not in ctx.fixed:
        scope = root.layout.scope
        chosen = alone(root.fixed_shape, scope, SCOPES[scope].threads(ctx.threads), root.dtype.bits)
        ctx.journal.put(ctx.fixed, root.name, chosen)
    return _placed(memory.buffer, ctx.fixed, span).tile_layout


def laid_out(buffer: Buffer, fixed: Mapping[str, Projection]) -> Buffer:
    """The buffer with the layout that its root was fixed to, if that was.

    raises: LayoutError, without a place, for a view along dimensions of a tile that is padded as a whole.
    """
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
    """As `laid_out`; errors get the place `span`."""
    try:
        return laid_out(buffer, fixed)
    except LayoutError as error:
        error.span = error.span or span
        raise


def _along(view: Buffer, base: Buffer, dims: tuple[int | None, ...]) -> Buffer:
    """A view along dimensions of a tile that has a layout."""
    shape = base.fixed_shape
    if dims == tuple(range(len(shape))):
        return replace(view, layout=base.layout, slots=base.slots)
    if base.slots and len(base.slots) != len(shape):
        raise LayoutError(
            f"{base.name} of shape {shape} lies in {base.slots[0]} slots as one row: its dimensions can't be moved",
            hint="take .T, permute and [:, None] of a copy, or give the tile a layout",
        )
    grouped, ends = base.tile_layout.group(base.slots or shape)
    # dimensions of 1 that the view drops have iterators of 1, which don't count
    chosen = [it for d in dims if d is not None for it in grouped.shard[ends[d] : ends[d + 1]]]
    slots = tuple(1 if d is None else base.slots[d] for d in dims) if base.slots else ()
    return replace(view, layout=grouped.replace(shard=tuple(chosen) or grouped.shard[:1]), slots=slots)


def with_fixed(body: tuple[Stmt, ...], fixed: Mapping[str, Projection]) -> tuple[Stmt, ...]:
    """The statements, with every open tile that was fixed laid out."""
    if not fixed:
        return body
    defining: list[Alloc | BufferView] = [*walk.each(body, Alloc), *walk.each(body, BufferView)]
    relaid = {s.buffer.name: _placed(s.buffer, fixed, s.span) for s in defining if s.buffer.root.name in fixed}
    return walk.rebuffered(body, relaid)
