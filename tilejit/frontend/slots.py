"""Slots: storage for the value of a name that differs between paths."""

from __future__ import annotations

from collections.abc import Sequence

from ..dataclass import dataclass
from ..dtypes import DType, int32
from ..errors import KernelTypeError
from ..ir.arithmetic import build
from ..ir.names import names_in
from ..ir.nodes import Assign, Declare, Expr, Let, TileOp, Var
from ..ops.copies import CAST
from ..source import Span
from .buffer_choices import BufferChoice
from .context import Context, fitting
from .kinds import ItemsKind, Kind, Same, ScalarKind
from .places import PlaceKind, PlacePart, Varying, part_of, with_parts
from .singles import scalar_of
from .values import Constant, Items, Memory, Scalar, Value, owner_scope


@dataclass(frozen=True, slots=True)
class ScalarSlot:
    """A scalar variable. weak: True if only literals have been assigned to it so far."""

    var: Var
    weak: bool


@dataclass(frozen=True, slots=True)
class TileSlot:
    memory: Memory


@dataclass(frozen=True, slots=True)
class PlaceSlot:
    memory: Memory
    #: the varying parts of the region, and the variables that hold them
    held: tuple[tuple[Varying, Var], ...]


@dataclass(frozen=True, slots=True)
class ItemsSlot:
    items: tuple[Slot, ...]


Slot = ScalarSlot | TileSlot | PlaceSlot | ItemsSlot | Same


def make_slot(ctx: Context, name: str, kind: Kind, init: Value | None, span: Span) -> Slot:
    """Return a new slot for values of a kind, initialized with `init` unless that is None.

    `Same` needs no storage and is its own slot.
    """
    if isinstance(kind, Same):
        return kind
    name = name.strip("<>")
    if isinstance(kind, ScalarKind):
        value = None if init is None else _coerced(ctx, init, kind.dtype, span)
        return ScalarSlot(ctx.declare(name, kind.dtype, value, span, data=kind.data), kind.weak)
    if isinstance(kind, ItemsKind):
        inits = init.items if isinstance(init, Items) else (None,) * len(kind.items)
        pairs = enumerate(zip(kind.items, inits, strict=True))
        return ItemsSlot(tuple(make_slot(ctx, f"{name}.{k}", item, first, span) for k, (item, first) in pairs))
    if isinstance(kind, PlaceKind):
        return _place_slot(ctx, name, kind, init, span)
    with ctx.hinted(name):
        slot = TileSlot(ctx.tile(name, kind.scope, kind.shape, kind.dtype, span))
    if isinstance(init, Memory):
        _fill(ctx, slot.memory, init, span)
    return slot


def _place_slot(ctx: Context, name: str, kind: PlaceKind, init: Value | None, span: Span) -> PlaceSlot:
    held: dict[Varying, Var] = {}
    phi = ctx.unique(name) if kind.is_phi else ""
    if phi:
        ctx.journal.put(ctx.buffer_choices, phi, BufferChoice(name.partition(".")[0], kind.sources, is_phi=True))
    for part, dim in kind.varying:
        first = _held(ctx, init, (part, dim)) if isinstance(init, Memory) else None
        if part is PlacePart.BUFFER:
            var = Var(phi, int32, span=span)
            ctx.emit(Declare(var, first, span))
        else:
            dtype = part_of(kind.like, (part, dim)).dtype
            data = kind.data and part is PlacePart.START
            var = ctx.declare(f"{name}.{part.value}.{dim}", dtype, first, span, data=data)
        held[part, dim] = var
    return PlaceSlot(with_parts(kind, phi, held, span), tuple(held.items()))


def _held(ctx: Context, place: Memory, varying: Varying) -> Expr:
    """Return the value that a slot stores for a part of a region; for a buffer, its index (see `places`)."""
    if varying[0] is not PlacePart.BUFFER:
        return part_of(place, varying)
    name = place.buffer.name
    if ctx.phi(place.buffer) is not None:
        return Var(name, int32)
    if name not in ctx.alternatives:
        ctx.journal.put(ctx.alternatives, name, place.buffer)
    return build.const(list(ctx.alternatives).index(name), int32)


def _fill(ctx: Context, slot: Memory, value: Memory, span: Span) -> None:
    name, source = slot.buffer.name, value.buffer.root
    if source.name in ctx.allocated_in or source.name in ctx.buffer_choices or name in ctx.buffer_choices:
        before = ctx.buffer_choices.get(name, BufferChoice(name.partition(".")[0], ()))
        if source.name not in [tile for tile, _ in before.sources]:
            sources = (*before.sources, (source.name, source.span))
            ctx.journal.put(ctx.buffer_choices, name, BufferChoice(before.name, sources))
    ctx.emit(TileOp(CAST.name, owner_scope(slot.buffer), (slot.region(span), value.region(span)), (), span))


def value_of(slot: Slot, *, typed: bool = False) -> Value:
    """Return the value of a name that is kept in a slot. typed: True if the value must not be weak."""
    if isinstance(slot, ScalarSlot):
        return Scalar(slot.var, slot.weak and not typed)
    if isinstance(slot, (TileSlot, PlaceSlot)):
        return slot.memory
    if isinstance(slot, ItemsSlot):
        return Items(tuple(value_of(item, typed=typed) for item in slot.items))
    return slot.value


def _coerced(ctx: Context, value: Value, dtype: DType, span: Span) -> Expr:
    """Return a number, scalar or rank-0 tile in `dtype`; raise KernelTypeError if a number doesn't fit."""
    if isinstance(value, Memory):
        value = scalar_of(ctx, value, span)
    if isinstance(value, Scalar):
        return build.cast(value.expr, dtype)
    assert isinstance(value, Constant)
    try:
        return fitting(value.value, dtype)
    except KernelTypeError as error:
        error.span = span
        raise


def move(ctx: Context, pairs: Sequence[tuple[Slot, Value]], span: Span) -> None:
    """Assign values to slots in parallel, as if every value were read before any slot changes."""
    scalars: list[tuple[Var, Expr]] = []
    tiles: list[tuple[Memory, Memory]] = []
    for slot, value in pairs:
        _flatten(ctx, slot, value, scalars, tiles, span)
    scalars = [(var, expr) for var, expr in scalars if expr != var]
    tiles = [(dst, src) for dst, src in tiles if dst.buffer != src.buffer]
    changed = {var.name for var, _ in scalars}
    for k, (var, expr) in enumerate(scalars):
        if len(changed) > 1 and not (changed - {var.name}).isdisjoint(names_in(expr)):
            held = Var(ctx.unique(f"{var.name}.next"), expr.dtype, span=span)
            ctx.emit(Let(held, expr, span))
            scalars[k] = (var, held)
    _move_tiles(ctx, tiles, span)
    for var, expr in scalars:
        ctx.emit(Assign(var, expr, span))


def _move_tiles(ctx: Context, tiles: list[tuple[Memory, Memory]], span: Span) -> None:
    changed = {dst.buffer.root.name for dst, _ in tiles}
    for k, (dst, src) in enumerate(tiles):
        if src.buffer.root.name in changed:
            held = ctx.tile(f"{dst.buffer.name}.next", owner_scope(dst.buffer), src.shape, src.dtype, span)
            _fill(ctx, held, src, span)
            tiles[k] = (dst, held)
    for dst, src in tiles:
        _fill(ctx, dst, src, span)


def _flatten(
    ctx: Context, slot: Slot, value: Value, scalars: list[tuple[Var, Expr]], tiles: list[tuple[Memory, Memory]],
    span: Span,
) -> None:
    if isinstance(slot, ScalarSlot):
        scalars.append((slot.var, _coerced(ctx, value, slot.var.dtype, span)))
    if isinstance(slot, TileSlot):
        assert isinstance(value, Memory)
        tiles.append((slot.memory, value))
    if isinstance(slot, PlaceSlot):
        assert isinstance(value, Memory)
        scalars.extend((var, _held(ctx, value, varying)) for varying, var in slot.held)
    if isinstance(slot, ItemsSlot):
        assert isinstance(value, Items)
        for inner, item in zip(slot.items, value.items, strict=True):
            _flatten(ctx, inner, item, scalars, tiles, span)
